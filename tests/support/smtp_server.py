"""A server for outgoing mail, aiosmtpd, that keeps what it takes and fails as a test wants."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default

import anyio
import anyio.lowlevel
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


class SmtpServer:
    """What was sent, and what is answered. `open_smtp_server` makes one."""

    def __init__(self) -> None:
        self.port = 0
        self.password = "pw"
        "What has to be shown."
        self.taken: list[tuple[str, bytes]] = []
        "Each recipient, and the mail."
        self.answers: dict[str, list[str]] = {"RCPT": [], "DATA": []}
        "What is answered next, instead of 250."
        self.cuts = 0
        "So many mails are taken, and the connection is cut then."
        self.cuts_at_once = 0
        "So many connections are cut where a text is to follow, before any of it is taken."
        self.unknown: set[str] = set()
        "Addresses that nobody has."
        self.talks: list[SMTP] = []
        "With each client that came, those that left too."
        self.deliver: Callable[[str, bytes], Awaitable[None]] | None = None
        "Where what is taken goes; None = nowhere."

    def texts(self, address: str) -> list[str]:
        """Return the text of each mail that an address got, oldest first."""
        return [text_of(mail) for mail in self.mails(address)]

    def mails(self, address: str) -> list[EmailMessage]:
        """Return the mails that an address got, oldest first."""
        return [read_mail(raw) for to, raw in self.taken if to == address]

    def end_talks(self, word: bytes) -> None:
        """End all connections with a last word, as a server does to which nothing is said."""
        for talk in self.talks:
            if isinstance(talk.transport, asyncio.Transport):
                talk.transport.write(word)
                talk.transport.close()

    # --- what aiosmtpd calls ---

    async def handle_RCPT(  # noqa: N802 - its name there
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient, or not."""
        del server, session, options
        if self.answers["RCPT"]:
            return self.answers["RCPT"].pop(0)
        if address in self.unknown:
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Take a mail, or not."""
        del session
        if self.answers["DATA"]:
            return self.answers["DATA"].pop(0)
        assert isinstance(envelope.content, bytes)
        for address in envelope.rcpt_tos:
            self.taken.append((address, envelope.content))
            if self.deliver is not None:
                await self.deliver(address, envelope.content)
        if self.cuts:
            self.cuts -= 1
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
        return "250 OK"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        """Look at a password."""
        del server, session, envelope, mechanism
        is_right = isinstance(data, LoginPassword) and data.password.decode() == self.password
        return AuthResult(success=is_right, handled=False)


class _Talk(SMTP):
    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        """Ask for the text of a mail, or not."""
        taker = self.event_handler
        assert isinstance(taker, SmtpServer)
        if taker.cuts_at_once:
            taker.cuts_at_once -= 1
            assert isinstance(self.transport, asyncio.Transport)
            self.transport.abort()
            return
        await super().smtp_DATA(arg)


def read_mail(raw: bytes) -> EmailMessage:
    """Return a mail as a message."""
    return BytesParser(policy=default).parsebytes(raw)


def text_of(mail: EmailMessage) -> str:
    """Return what a mail says as plain text."""
    body = mail.get_body(("plain",))
    return "" if body is None else str(body.get_content()).replace("\r\n", "\n").strip()


@asynccontextmanager
async def open_smtp_server(
    *, tls: ssl.SSLContext | None = None, starttls: ssl.SSLContext | None = None
) -> AsyncGenerator[SmtpServer]:
    """Run one on a free port of loopback, until the block ends."""
    taker = SmtpServer()
    loop = asyncio.get_running_loop()

    def factory() -> SMTP:
        talk = _Talk(
            taker,
            hostname="mx.everturn.test",
            ident="test",
            loop=loop,
            tls_context=starttls,
            require_starttls=starttls is not None,
            authenticator=taker.authenticate,
            auth_require_tls=False,
            enable_SMTPUTF8=True,
        )
        taker.talks.append(talk)
        return talk

    server = await loop.create_server(factory, "127.0.0.1", 0, family=socket.AF_INET, ssl=tls)
    taker.port = server.sockets[0].getsockname()[1]
    try:
        yield taker
    finally:
        server.close()
        # Its library begins a task for each connection, and leaves it to end by itself.
        tasks = [task for talk in taker.talks if (task := talk._handler_coroutine) is not None]
        for task in tasks:
            task.cancel()
        while not all(task.done() for task in tasks):
            await anyio.lowlevel.checkpoint()
        for talk in taker.talks:
            if talk.transport is not None:
                talk.transport.close()
