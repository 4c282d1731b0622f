"""A bot with a mailbox on pretended servers, for tests of what it reads and sends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from support.email_contract import BOT, account
from support.imap_server import ImapServer, open_imap_server
from support.inbox import QuickClock
from support.smtp_server import SmtpServer, open_smtp_server

from everturn.testing import RecordingHandler
from everturn.testing._channel_inbound import serve_on
from everturn_channels.adapter import Outbound
from everturn_channels.email import EmailAdapter
from everturn_channels.ingestion.history import BacklogLimits
from everturn_gateway.clock import SystemClock


class EmailWorld:
    """The servers, and a bot that can be started again and again."""

    def __init__(self, imap: ImapServer, smtp: SmtpServer, settings: Mapping[str, object]) -> None:
        self.imap, self.smtp, self.settings = imap, smtp, settings
        self.cursors: dict[str, str] = {}
        "What the last bot left."
        self.adapter = self.make()
        self.handler = RecordingHandler()

    def make(self) -> EmailAdapter:
        """Return a bot that does not run."""
        return EmailAdapter(
            name="email",
            account=account(self.imap.port, self.smtp.port, **self.settings),
            clock=QuickClock(SystemClock().now()),
            backlog=BacklogLimits(max_messages=100, max_age_s=1e9),
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[RecordingHandler]:
        """Run the bot while the block runs, from where the last one ended."""
        self.adapter, self.handler = self.make(), RecordingHandler(cursors=self.cursors)
        async with serve_on(self.adapter, self.handler, _ready):
            yield self.handler
            self.cursors = dict(self.handler.cursors)

    def deliver(self, raw: bytes) -> None:
        """Put a mail into the bot's inbox."""
        self.imap.deliver(BOT, raw)

    async def say(self, chat: str, markdown: str, **more: object) -> str:
        """Let the bot say something in one mail; return its Message-ID."""
        (payload,) = self.adapter.render(markdown)
        return await self.adapter.send(Outbound(chat_id=chat, payload=payload, **more))  # type: ignore[arg-type]


async def _ready(handler: RecordingHandler) -> None:
    await handler.until(lambda: handler.account and handler.cursor("inbox"))


@asynccontextmanager
async def open_email_world(**settings: object) -> AsyncGenerator[EmailWorld]:
    """Run both servers while the block runs."""
    async with open_imap_server() as imap, open_smtp_server() as smtp:
        imap.add_account(BOT, "pw")
        yield EmailWorld(imap, smtp, settings)
