"""What a mail holds: the text that its sender wrote now, and its files. Pure.

Mail is taken as it comes: with charsets that nobody knows, parts that never end, and names of files
in four encodings. What cannot be read is said in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from email.message import Message
from email.policy import compat32
from email.utils import collapse_rfc2231_value
from mimetypes import guess_extension
from typing import Final, cast

from msgspec import Struct

from everturn_actors.json_values import is_list
from everturn_channels.email.parsing.fields import Fields, decoded, is_mail, to_text
from everturn_channels.email.parsing.html_text import text_of_html
from everturn_channels.email.parsing.quotes import written_in
from everturn_channels.email.parsing.structure import parsed

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
        is_forward=written.is_forward,
        is_plain=not parts.has_html,
    )


class _Parts:
    """Goes through the parts of one mail."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._left = PARTS_MAX
        self.has_html = self.is_encrypted = False

    def of(self, part: Message) -> Iterator[str | AttachedFile]:
        """Yield the texts and files of a part, in their order."""
        self._left -= 1
        if self._left <= 0:
            if self._left == 0:
                self._notes.append(f"it has more than {PARTS_MAX} parts: the rest was left out")
            return
        kind = part.get_content_type()
        if kind in _ENCRYPTED and part.get_param("smime-type") != "signed-data":
            self.is_encrypted = True
        elif kind in _SIGNATURES:
            return
        elif kind in {"message/rfc822", "message/global"}:
            yield _passed_on(part)
        elif part.is_multipart():
            within = cast("list[Message]", part.get_payload())
            if kind == "multipart/alternative":
                within = self._best(within)
            for each in within:
                yield from self.of(each)
        elif _is_text(part):
            yield self._text(part)
        else:
            yield _file(part)

    def _best(self, parts: Sequence[Message]) -> list[Message]:
        """Return which form of a text is read: the plain one where it says something."""
        plain = next((each for each in parts if each.get_content_type() == "text/plain"), None)
        if plain is not None and _decoded(plain).strip():
            others = [
                each for each in parts if each.get_content_maintype() not in {"text", "multipart"}
            ]
            return [plain, *others]  # an invitation stands beside its text
        last = [each for each in parts if each.is_multipart() or _is_text(each)][-1:]
        return last or list(parts)

    def _text(self, part: Message) -> str:
        text = _decoded(part)
        if part.get_content_subtype() != "html":
            if len(text) > _PART_MAX_CHARS:
                left = len(text) - _PART_MAX_CHARS
                self._notes.append(f"{left} more characters were left out")
                text = text[:_PART_MAX_CHARS]
            return _unwrapped(text) if part.get_param("format") == "flowed" else text
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
    return part.get_content_type() in {"text/plain", "text/html"}


def _data(part: Message) -> bytes:
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""


def _decoded(part: Message) -> str:
    charset = part.get_param("charset")
    name = collapse_rfc2231_value(charset) if charset else "ascii"
    return to_text(_data(part), name.strip("\"' ")).replace("\0", "")


def _unwrapped(text: str) -> str:
    """Join the lines of a paragraph that were broken to be sent (RFC 3676, format=flowed)."""
    kept: list[str] = []
    joins = False
    for line in text.replace("\r\n", "\n").split("\n"):
        quoted = line.startswith(">")
        bare = line.removeprefix(" ")
        if joins and not quoted:
            kept[-1] += bare
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


def _passed_on(part: Message) -> AttachedFile:
    """Return a mail that was attached as one."""
    payload = part.get_payload()
    within = payload[0] if is_list(payload) and payload else None
    if not is_mail(within):
        return AttachedFile(name=_name(part) or "mail.eml", media_type=_ANY, data=_data(part))
    subject = _UNSAFE.sub("_", Fields(within).text("subject"))[:80].strip(" .") or "mail"
    data = within.as_bytes(policy=compat32)
    return AttachedFile(
        name=_name(part) or f"{subject}.eml", media_type="message/rfc822", data=data
    )
