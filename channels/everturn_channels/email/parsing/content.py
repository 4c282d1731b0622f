"""What a mail holds: the text that its sender wrote now, and its files. Pure.

Mail is taken as it comes: with charsets that nobody knows, parts that never end, and names of files
in four encodings. What cannot be read is said in words.

Source of reactions: https://developers.google.com/workspace/gmail/reactions/format, read
2026-11-27.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from email.message import Message
from email.utils import collapse_rfc2231_value
from mimetypes import guess_extension
from typing import Final, cast

import msgspec
from msgspec import Struct

from everturn_actors.json_values import is_list
from everturn_channels.email.parsing.fields import Fields, decoded, is_mail, to_text
from everturn_channels.email.parsing.html_text import text_of_html
from everturn_channels.email.parsing.quotes import written_in
from everturn_channels.email.parsing.structure import parsed
from everturn_channels.ingestion.json_fields import text_of

TEXT_MAX_CHARS: Final = 200_000
_PART_MAX_CHARS: Final = 1_000_000
"Of one part that is looked at; the rest of it is left out."
PARTS_MAX: Final = 500
_ENCRYPTED: Final = frozenset(
    {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
)
_SIGNATURES: Final = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
)
_ANY: Final = "application/octet-stream"
_MAILS: Final = frozenset({"message/rfc822", "message/global"})
_READ: Final = frozenset({"text/plain", "text/html"})
_TNEF: Final = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
_REACTION: Final = "text/vnd.google.email-reaction+json"
_PASSED_ON: Final = ("From", "To", "Cc", "Date", "Subject")
_PGP_ENCRYPTED: Final = "-----BEGIN PGP MESSAGE-----"
_PGP_SIGNED: Final = re.compile(
    r"\A\s*-----BEGIN PGP SIGNED MESSAGE-----\n(?:[A-Za-z-]+: .*\n)*\n(.*?)"
    r"^-----BEGIN PGP SIGNATURE-----$.*\Z",
    re.DOTALL | re.MULTILINE,
)
_UNSAFE: Final = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]+')


class AttachedFile(Struct, frozen=True, kw_only=True):
    """A file of a mail."""

    name: str
    media_type: str
    data: bytes


class Content(Struct, frozen=True, kw_only=True):
    """What a mail holds."""

    fields: Fields
    text: str
    "What its sender wrote now, in Markdown or as plain text."
    files: Sequence[AttachedFile]
    notes: Sequence[str]
    "What was left out, in words."
    unsupported: str = ""
    "What it is, in words, where it cannot be read."
    is_forward: bool = False
    "Whether it passes on what somebody else wrote."
    is_plain: bool = False
    "Whether all of it is one plain text: no HTML was turned into one."
    reaction: str = ""
    "The emoji, where it is a reaction on the mail that it answers."


def content_of(raw: bytes, *, is_cut: bool = False) -> Content:
    """Read a mail.

    Args:
        raw: As it came, or its beginning.
        is_cut: Whether it goes on.
    """
    message, is_shortened = parsed(raw)
    is_cut = is_cut or is_shortened
    fields = Fields(message)
    subject = fields.text("subject")
    texts, files, notes = list[str](), list[AttachedFile](), list[str]()
    parts = _Parts(notes)
    for part in parts.of(message):
        if isinstance(part, AttachedFile):
            files.append(part)
        else:
            texts.append(part)
    if is_cut:
        # The last part has no end: what there is of a file is no file.
        if files:
            files.pop()
        notes.append("it is too large: only its beginning was read")
    whole = "\n\n".join(filter(None, map(str.strip, texts)))
    written = written_in(whole, subject)
    text = written.text
    if written.quoted_lines:
        lines = "1 line" if written.quoted_lines == 1 else f"{written.quoted_lines} lines"
        notes.append(f"{lines} of earlier mails were left out")
    if written.has_signature:
        notes.append("a signature was left out")
    if len(text) > TEXT_MAX_CHARS:
        notes.append(f"{len(text) - TEXT_MAX_CHARS} more characters were left out")
        text = text[:TEXT_MAX_CHARS]
    return Content(
        fields=fields,
        text=text,
        files=files,
        notes=notes,
        unsupported="an encrypted e-mail" if parts.is_encrypted else "",
        is_forward=written.is_forward or parts.has_mails,
        is_plain=not parts.has_html,
        reaction=parts.reaction,
    )


class _Parts:
    """Goes through the parts of one mail."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._left = PARTS_MAX
        self.has_html = self.is_encrypted = self.has_mails = False
        self.reaction = ""

    def of(self, part: Message) -> Iterator[str | AttachedFile]:
        """Yield the texts and files of a part, in their order."""
        if not self._may_go_on():
            return
        kind = part.get_content_type()
        is_signed = kind in _ENCRYPTED and part.get_param("smime-type") == "signed-data"
        if kind in _ENCRYPTED and not is_signed:
            self.is_encrypted = True
        elif kind in _SIGNATURES:
            return
        elif kind in _MAILS:
            yield from self._passed_on(part)
        elif part.is_multipart():
            within = cast("list[Message]", part.get_payload())
            if kind == "multipart/alternative":
                yield from self._best(within)
                return
            for each in within:
                yield from self.of(each)
        elif kind == _REACTION and part.get_content_disposition() != "attachment":
            self.reaction = self.reaction or _emoji_in(part)
        elif _is_text(part):
            yield self._text(part)
        else:
            if is_signed:
                self._notes.append("what it says is within that file, signed: it cannot be read")
            elif kind in _TNEF:
                self._notes.append(
                    "Outlook put what was attached into one file that cannot be read: they may send"
                    " it again as HTML or as plain text"
                )
            yield _file(part)

    def _may_go_on(self) -> bool:
        self._left -= 1
        if self._left == 0:
            self._notes.append(f"it has more than {PARTS_MAX} parts: the rest was left out")
        return self._left > 0

    def _best(self, parts: Sequence[Message]) -> Iterator[str | AttachedFile]:
        """Yield what is read of a text in several forms: the plain one where it says something.

        An invitation stands beside them, and pictures and files within one.
        """
        chosen = next((each for each in parts if each.get_content_type() == "text/plain"), None)
        if chosen is None or not _decoded(chosen).strip():
            forms = [each for each in parts if each.is_multipart() or _is_text(each)]
            chosen = forms[-1] if forms else None
        for each in parts:
            if each is chosen or not (each.is_multipart() or _is_text(each)):
                yield from self.of(each)
            elif each.is_multipart():
                yield from self._files(each)

    def _files(self, part: Message) -> Iterator[AttachedFile]:
        """Yield the files of a part whose text is not read."""
        for each in part.walk():
            is_file = not each.is_multipart() and not _is_text(each)
            if is_file and each.get_content_type() not in _SIGNATURES and self._may_go_on():
                yield _file(each)

    def _passed_on(self, part: Message) -> Iterator[AttachedFile]:
        """Yield a mail that was attached as one: a text, and its files."""
        payload = part.get_payload()
        within = payload[0] if is_list(payload) and payload else None
        if not is_mail(within):
            yield AttachedFile(name=_name(part) or "mail.eml", media_type=_ANY, data=_data(part))
            return
        self.has_mails = True
        texts, files = list[str](), list[AttachedFile]()
        for each in self.of(within):
            if isinstance(each, AttachedFile):
                files.append(each)
            else:
                texts.append(each.strip())
        fields = Fields(within)
        named = ((name, fields.text(name.lower())) for name in _PASSED_ON)
        about = "\n".join(f"{name}: {value}" for name, value in named if value)
        text = "\n\n".join((about, *filter(None, texts)))
        subject = _UNSAFE.sub("_", fields.text("subject"))[:80].strip(" .") or "mail"
        yield AttachedFile(name=f"{subject}.txt", media_type="text/plain", data=text.encode())
        yield from files

    def _text(self, part: Message) -> str:
        text = _decoded(part)
        if part.get_content_subtype() != "html":
            if len(text) > _PART_MAX_CHARS:
                left = len(text) - _PART_MAX_CHARS
                self._notes.append(f"{left} more characters were left out")
                text = text[:_PART_MAX_CHARS]
            if part.get_param("format") == "flowed":
                is_dense = str(part.get_param("delsp")).lower() == "yes"
                text = _unwrapped(text, is_dense=is_dense)
            if text.lstrip().startswith(_PGP_ENCRYPTED):
                self.is_encrypted = True
                return ""
            signed = _PGP_SIGNED.match(text.replace("\r\n", "\n"))
            return signed[1].replace("\n- ", "\n") if signed else text
        self.has_html = True
        found = text_of_html(text)
        if found.hidden_chars:
            self._notes.append(
                f"{found.hidden_chars} characters that are hidden from people were left out"
            )
        if found.is_cut:
            self._notes.append("its HTML is too long: the rest was left out")
        return found.text


def _is_text(part: Message) -> bool:
    if part.get_content_disposition() == "attachment" or _name(part):
        return False
    return part.get_content_type() in _READ


def _data(part: Message) -> bytes:
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""


def _decoded(part: Message) -> str:
    charset = part.get_param("charset")
    name = collapse_rfc2231_value(charset) if charset else "ascii"
    return to_text(_data(part), name.strip("\"' ")).replace("\0", "")


def _unwrapped(text: str, *, is_dense: bool) -> str:
    """Join the lines of a paragraph that were broken to be sent (RFC 3676, format=flowed).

    `is_dense`: the blank at the end of a line is not one of the text, as in Japanese (DelSp).
    """
    kept: list[str] = []
    joins = False
    for line in text.replace("\r\n", "\n").split("\n"):
        quoted = line.startswith(">")
        bare = line.removeprefix(" ")
        if joins and not quoted:
            kept[-1] = (kept[-1][:-1] if is_dense else kept[-1]) + bare
        else:
            kept.append(bare)
        joins = bare.endswith(" ") and bare != "-- " and not quoted
    return "\n".join(kept)


def _name(part: Message) -> str:
    """Return what a file is called, without what could lead elsewhere; empty = it has no name."""
    found = part.get_filename()
    return _UNSAFE.sub("_", decoded(found)).strip(" .") if found else ""


def _file(part: Message) -> AttachedFile:
    kind = part.get_content_type()
    ending = guess_extension(kind) or ".bin"
    return AttachedFile(name=_name(part) or f"file{ending}", media_type=kind, data=_data(part))


def _emoji_in(part: Message) -> str:
    """Return the emoji of a reaction; empty where it cannot be read."""
    try:
        found: object = msgspec.json.decode(_data(part))
    except msgspec.DecodeError:
        return ""
    return text_of(found, "emoji")
