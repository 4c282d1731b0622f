"""A mail of the bot, as it goes out. Pure.

The parts are made by the library's older classes (`email.mime`): `EmailMessage` parses each field
that it is given, which takes five times as long, for a mail as large as the turn that it answers.
Its fields are written here: they name what was checked, or are encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from email.charset import QP, Charset
from email.encoders import encode_base64
from email.header import Header
from email.headerregistry import Address
from email.message import Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import compat32
from email.utils import format_datetime
from html import escape
from typing import Final

from msgspec import Struct

from everturn_channels.adapter import Button, Outbound, OutgoingFile
from everturn_channels.email.account import EmailAccount
from everturn_channels.email.markup import Payload, payload_of
from everturn_channels.email.parsing.fields import address_in
from everturn_channels.email.threads import Quote, Thread, parent_of
from everturn_channels.languages import marked, said
from everturn_channels.names import one_line

REPEAT_LABEL: Final = marked("(This may be a repeat.)")
CHOOSE: Final = marked("Answer this e-mail with the number of your choice in the first line:")
_SUBJECT_CHARS: Final = 78
_QUOTE_LINES: Final = 8
_ANSWERED: Final = re.compile(
    r"\s*(re|aw|sv|antw|odp|回复)\s?(\[\d+\])?\s?[:\uff1a]", re.IGNORECASE
)
_MARKS: Final = re.compile(r"^[#>*\-\s]+|[*_`]+")
_LINE_BYTES: Final = 990
"Of a line as it goes out; RFC 5322, section 2.1.1, allows 998."
_POLICY: Final = compat32.clone(linesep="\r\n", mangle_from_=False)


class Context(Struct, frozen=True, kw_only=True):
    """What a mail needs beside what it says."""

    message_id: str
    thread: Thread | None
    quote: Quote | None
    now: datetime


def compose(account: EmailAccount, message: Outbound, context: Context) -> bytes:
    """Return a mail.

    Raises:
        ValueError: It is to go to what is no address.
    """
    local, _, domain = address_in(message.chat_id).rpartition("@")
    if not local:
        raise ValueError(message.chat_id)
    payload = payload_of(message.payload) if message.payload else Payload(text="")
    label = said(REPEAT_LABEL) if message.is_repeat else ""
    if message.file is not None:
        body = _with_file(label or _file_name(message.file), message.file)
    else:
        quote = None if message.buttons else context.quote
        body = _words(_text(payload, message.buttons, quote, label))
        if payload.html:
            html = _html(payload, message.buttons, quote, label)
            body = _joined("alternative", body, _words(html, "html"))
    to = Address("", local, domain).addr_spec
    fields = [("To", to), *_fields(account, message, payload, context)]
    # An address may be in any script (RFC 6532); all else is ASCII.
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return head.encode() + body.as_bytes(policy=_POLICY)


def _fields(
    account: EmailAccount, message: Outbound, payload: Payload, context: Context
) -> Iterator[tuple[str, str]]:
    """Yield the fields of a mail but `To` and those of its form, as they are written."""
    own = Address("", account.local_part, account.domain).addr_spec
    name = _encoded(account.display_name, is_phrase=True)
    yield "From", f"{name} <{own}>" if name else own
    yield "Subject", _encoded(_subject(payload, message, context.thread))
    yield "Date", format_datetime(context.now)
    yield "Message-ID", context.message_id
    parent = parent_of(context.thread, message.reply_to)
    if parent:
        chain = context.thread.references if context.thread is not None else ()
        # A foreign id that is not ASCII is none, and a server may take no mail that names it.
        ids = dict.fromkeys((*chain, parent))
        named = [each for each in ids if each.isascii() and each.isprintable()]
        if parent in named:
            yield "In-Reply-To", parent
        if named:
            yield "References", "\r\n ".join(named)
    # Who was believed without it does not learn the address to which all are.
    names_secret = context.thread is not None and context.thread.names_secret
    if account.secret_address and (names_secret or not account.authserv_id):
        yield "Reply-To", account.secret_address
    # So that no machine answers. Sources: RFC 3834, section 5, and, of the other, [MS-OXCMAIL].
    yield "Auto-Submitted", "auto-replied" if parent else "auto-generated"
    yield "X-Auto-Response-Suppress", "All"


def _encoded(text: str, *, is_phrase: bool = False) -> str:
    """Return a text as it stands in a field; one that is not ASCII as encoded words (RFC 2047).

    Args:
        text: In one line.
        is_phrase: Whether it is the name before an address.
    """
    if not text.isascii() or "=?" in text or not text.isprintable():
        return Header(text, "utf-8", maxlinelen=75, header_name="Subject").encode(linesep="\r\n")
    if is_phrase and text:
        return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'
    return text


def _subject(payload: Payload, message: Outbound, thread: Thread | None) -> str:
    """Return the subject of its thread; of a mail that begins one, its first words."""
    if thread is not None and thread.subject:
        subject = one_line(thread.subject, 200)
        return subject if _ANSWERED.match(subject) else f"Re: {subject}"
    if message.file is not None:
        return _file_name(message.file)
    lines = (_MARKS.sub("", line).strip() for line in payload.text.split("\n"))
    return one_line(next(filter(None, lines), ""), _SUBJECT_CHARS) or "Message"


def _text(payload: Payload, buttons: tuple[Button, ...], quote: Quote | None, label: str) -> str:
    parts = [label, payload.text]
    if buttons:
        lines = [f"{number}. {each.label}" for number, each in enumerate(buttons, start=1)]
        parts.append("\n".join([said(CHOOSE), "", *lines]))
    if quote is not None and quote.text.strip():
        quoted = "\n".join(f"> {line}" for line in _quoted(quote))
        parts.append(f"{one_line(quote.name)}:\n{quoted}")
    return "\n\n".join(filter(None, parts)) + "\n"


def _html(payload: Payload, buttons: tuple[Button, ...], quote: Quote | None, label: str) -> str:
    parts = [f"<p>{escape(label)}</p>"] if label else []
    parts.append(payload.html)
    if buttons:
        choices = "".join(f"<li>{escape(each.label)}</li>" for each in buttons)
        parts.append(f"<p>{escape(said(CHOOSE))}</p><ol>{choices}</ol>")
    if quote is not None and quote.text.strip():
        lines = "<br>".join(map(escape, _quoted(quote)))
        parts.append(f"<p>{escape(one_line(quote.name))}:</p><blockquote>{lines}</blockquote>")
    return f"<!doctype html><html><body>{''.join(parts)}</body></html>\n"


def _quoted(quote: Quote) -> list[str]:
    lines = quote.text.strip().split("\n")
    return lines[:_QUOTE_LINES] + (["…"] if len(lines) > _QUOTE_LINES else [])


def _words(text: str, subtype: str = "plain") -> Message:
    """Return a part with a text, in lines of ASCII that every server takes."""
    is_short = max(map(len, text.split("\n"))) <= _LINE_BYTES
    if is_short and text.isascii():
        return MIMEText(text, subtype, "us-ascii", policy=_POLICY)
    charset = Charset("utf-8")  # as base64
    if len(text.encode()) < len(text) * 7 / 6:
        charset.body_encoding = QP  # shorter, and people can read it
    return MIMEText(text, subtype, charset, policy=_POLICY)  # type: ignore[arg-type]


def _joined(kind: str, *parts: Message) -> Message:
    joined = MIMEMultipart(kind, policy=_POLICY)
    for part in parts:
        joined.attach(part)
    return joined


def _with_file(words: str, file: OutgoingFile) -> Message:
    major, _, minor = file.media_type.partition("/")
    is_kind = re.fullmatch(r"[\w.+-]+/[\w.+-]+", file.media_type, re.ASCII)
    if not is_kind or major in {"multipart", "message"}:
        major, minor = "application", "octet-stream"
    attached = MIMEBase(major, minor, policy=_POLICY)
    attached.set_payload(file.data)
    encode_base64(attached)
    name = _file_name(file)
    shown = name if name.isascii() else ("utf-8", "", name)
    attached.add_header("Content-Disposition", "attachment", filename=shown)
    return _joined("mixed", _words(f"{words}\n"), attached)


def _file_name(file: OutgoingFile) -> str:
    return one_line(file.file_name) or "file"
