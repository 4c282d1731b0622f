"""E-mail as the published contract sees it, on whichever IMAP server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Final

from support.inbox import QuickClock
from support.smtp_server import SmtpServer, open_smtp_server, text_of

from everturn.testing import ChannelContract, RecordingHandler
from everturn_channels.email import EmailAccount, EmailAdapter, MailServer
from everturn_channels.email.markup import payload_of
from everturn_channels.ingestion.history import BacklogLimits
from everturn_gateway.clock import SystemClock

BACKLOG: Final = 5
BOT: Final = "bot@everturn.test"
ANN: Final = "ann@example.org"
BOB: Final = "bob@example.org"
SERVER: Final = "mx.everturn.test"


def mail_from(sender: str, text: str = "", *, to: str = BOT, **fields: str) -> EmailMessage:
    """Return a mail as a person writes one, that the mail server vouches for.

    `fields` have underscores for hyphens; an empty one is left out.
    """
    mail = EmailMessage()
    domain = sender.rpartition("@")[2].rstrip(">")
    standard = {
        "Authentication-Results": f"{SERVER}; dmarc=pass header.from={domain}",
        "From": sender,
        "To": to,
        "Subject": "Lunch",
        "Date": format_datetime(SystemClock().now()),
        "Message-ID": make_msgid(domain=domain),
    }
    standard |= {name.replace("_", "-"): value for name, value in fields.items()}
    for name, value in standard.items():
        if value:
            mail[name] = value
    if text:
        mail.set_content(text)
    return mail


def account(imap_port: int, smtp_port: int, **settings: object) -> EmailAccount:
    """Return the bot's account on servers of this machine."""
    standard: dict[str, object] = {
        "address": BOT,
        "user": BOT,
        "password": "pw",
        "imap": MailServer(host="127.0.0.1", port=imap_port, security="none"),
        "smtp": MailServer(host="127.0.0.1", port=smtp_port, security="none"),
        "authserv_id": SERVER,
        "mails_per_hour": 1000,
    }
    return EmailAccount(**(standard | settings))  # type: ignore[arg-type]


class EmailContract(ChannelContract):
    """A bot, and ann and bob, who write to it."""

    backlog_max_messages = BACKLOG
    chat_id, other_chat_id = ANN, BOB
    imap_port: int
    smtp: SmtpServer

    def open_mailbox(self) -> AbstractAsyncContextManager[None]:
        """Run an IMAP server with the bot's mailbox, and set its `imap_port`."""
        raise NotImplementedError

    async def deliver(self, raw: bytes) -> None:
        """Put a mail into the bot's inbox."""
        raise NotImplementedError

    async def uids(self) -> Sequence[int]:
        """Return the numbers of the mails in the bot's inbox."""
        raise NotImplementedError

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Run the servers."""
        async with open_smtp_server() as self.smtp, self.open_mailbox():
            yield

    def make_channel(self) -> EmailAdapter:
        """Return the bot."""
        return EmailAdapter(
            name="email",
            account=account(self.imap_port, self.smtp.port),
            clock=QuickClock(SystemClock().now()),
            backlog=BacklogLimits(max_messages=BACKLOG, max_age_s=1e9),
        )

    async def until_ready(self, handler: RecordingHandler) -> None:
        """Wait until it knows where the mailbox stands."""
        await handler.until(lambda: handler.account and handler.cursor("inbox"))

    async def write(self, text: str, chat_id: str) -> None:
        """Let somebody write."""
        await self.deliver(mail_from(chat_id, text).as_bytes())

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many mails stand behind the cursor."""
        read_to = int(handler.cursor("inbox").partition(":")[2])
        return sum(uid > read_to for uid in await self.uids())

    async def write_unreadable(self) -> None:
        """Send a mail that two people claim to have written."""
        mail = mail_from(f"{ANN}, {BOB}", "who?")
        await self.deliver(mail.as_bytes())

    async def shown(self) -> Sequence[str]:
        """Return what ann got."""
        return self.smtp.texts(self.chat_id)

    async def lose_answer(self) -> None:
        """Take a mail, and cut the connection."""
        self.smtp.cuts = 1

    async def slow_down(self, silence_s: float) -> None:
        """Ask for patience, as greylisting does: mail has no number for how long."""
        del silence_s
        self.smtp.answers["RCPT"].append("451 4.7.1 try again later")

    async def expel(self) -> None:
        """Close ann's mailbox."""
        self.smtp.unknown.add(self.chat_id)

    async def write_file(self, name: str, data: bytes, chat_id: str) -> None:
        """Let somebody send a file."""
        mail = mail_from(chat_id, " ")
        mail.add_attachment(data, maintype="application", subtype="pdf", filename=name)
        await self.deliver(mail.as_bytes())

    async def files(self) -> Sequence[bytes]:
        """Return the files that ann got."""
        mails = self.smtp.mails(self.chat_id)
        return [part.get_content() for mail in mails for part in mail.iter_attachments()]

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return payload_of(payload).text


__all__ = ["ANN", "BOB", "BOT", "SERVER", "EmailContract", "account", "mail_from", "text_of"]
