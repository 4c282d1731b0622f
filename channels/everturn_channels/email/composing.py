"""A mail of the bot, as it goes out. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
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
# The library writes ids in References that are longer than a line as encoded words, which no
# program reads: so a line may be as long as mail allows. Bodies go in ASCII, which each takes.
_POLICY: Final = SMTP.clone(max_line_length=998, cte_type="7bit")


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
    address = address_in(message.chat_id)
    mail = EmailMessage(policy=_POLICY.clone(utf8=not address.isascii()))
    payload = payload_of(message.payload) if message.payload else Payload(text="")
    local, _, domain = address.rpartition("@")
    if not local:
        raise ValueError(message.chat_id)
    mail["From"] = Address(account.display_name, account.local_part, account.domain)
    mail["To"] = Address("", local, domain)
    mail["Subject"] = _subject(payload, message, context.thread)
    mail["Date"] = format_datetime(context.now)
    mail["Message-ID"] = context.message_id
    parent = parent_of(context.thread, message.reply_to)
    if parent:
        chain = context.thread.references if context.thread is not None else ()
        mail["In-Reply-To"] = parent
        mail["References"] = " ".join(dict.fromkeys((*chain, parent)))
    # Who was believed without it does not learn the address to which all are.
    names_secret = context.thread is not None and context.thread.names_secret
    if account.secret_address and (names_secret or not account.authserv_id):
        mail["Reply-To"] = account.secret_address
    # So that no machine answers. Sources: RFC 3834, section 5, and, of the other, [MS-OXCMAIL].
    mail["Auto-Submitted"] = "auto-replied" if parent else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    label = said(REPEAT_LABEL) if message.is_repeat else ""
    if message.file is not None:
        mail.set_content(label or _file_name(message.file))
        _attach(mail, message.file)
        return mail.as_bytes()
    quote = None if message.buttons else context.quote
    mail.set_content(_text(payload, message.buttons, quote, label))
    if payload.html:
        mail.add_alternative(_html(payload, message.buttons, quote, label), subtype="html")
    return mail.as_bytes()


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


def _attach(mail: EmailMessage, file: OutgoingFile) -> None:
    major, _, minor = file.media_type.partition("/")
    if not re.fullmatch(r"[\w.+-]+/[\w.+-]+", file.media_type) or major in {"multipart", "message"}:
        major, minor = "application", "octet-stream"
    mail.add_attachment(file.data, maintype=major, subtype=minor, filename=_file_name(file))


def _file_name(file: OutgoingFile) -> str:
    return one_line(file.file_name) or "file"
