"""The contract of channels on a real Dovecot: `make dovecot` installs one, and runs these.

By day the pretended server stands in for it (`test_email_contract.py`), which comes with the tests.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final

import anyio
import pytest
from anyio import to_thread
from support.dovecot import COMMAND, Dovecot
from support.email_contract import ANN, BOT, EmailContract, account, mail_from
from support.email_kills import talk_through_kills
from support.inbox import QuickClock
from support.smtp_server import open_smtp_server

from everturn.testing import RecordingHandler
from everturn_channels.adapter import Outbound
from everturn_channels.email import EmailAdapter
from everturn_channels.email.mailbox import open_mailbox
from everturn_channels.errors import SetupError
from everturn_gateway.clock import SystemClock

if not (os.environ.get("EVERTURN_DOVECOT") and COMMAND):
    pytest.skip(
        "no Dovecot: make dovecot installs Debian's, and runs its tests", allow_module_level=True
    )
_NUMBERS: Final = count()


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    """Run a Dovecot for all tests of this module."""
    with TemporaryDirectory(prefix="dovecot-") as folder:  # nobody else looks into pytest's own
        server = Dovecot(Path(folder))
        anyio.run(server.start)
        yield server
        anyio.run(server.stop)


class TestEmailOnDovecot(EmailContract):
    """A new mailbox for each test."""

    server: ClassVar[Dovecot]
    user: str

    @pytest.fixture(autouse=True)
    def _server(self, dovecot: Dovecot) -> None:
        type(self).server = dovecot

    @asynccontextmanager
    async def open_mailbox(self) -> AsyncGenerator[None]:
        """Use the one that runs."""
        self.user = f"bot{next(_NUMBERS)}@everturn.test"
        self.imap_port = self.server.imap_port
        yield

    def make_channel(self) -> EmailAdapter:
        """Return the bot."""
        made = account(self.imap_port, self.smtp.port, user=self.user)
        standard = super().make_channel()
        return EmailAdapter(
            name="email", account=made, clock=standard._clock, backlog=standard._backlog
        )

    async def deliver(self, raw: bytes) -> None:
        """Hand a mail over as a mail server does."""
        await self.server.deliver(self.user, raw)

    async def uids(self) -> Sequence[int]:
        """Ask over a connection of its own."""
        async with open_mailbox(account(self.imap_port, 0, user=self.user)) as box:
            await box.select("INBOX")
            return await box.uids_from(1)

    async def interrupt(self) -> None:
        """End the server, and start it again."""
        await self.server.stop()
        await self.server.start()

    async def revoke(self) -> None:
        """Change the password."""
        await to_thread.run_sync(self.server.set_password, self.user, "another")
        with pytest.raises(SetupError):
            while True:
                await self.uids()


async def test_what_is_filed_as_sent_is_not_sent_again(dovecot: Dovecot) -> None:
    """A provider that files what it sends, or the bot itself, settles an unknown outcome."""
    user = f"bot{next(_NUMBERS)}@everturn.test"
    async with open_smtp_server() as smtp:
        made = account(dovecot.imap_port, smtp.port, user=user, files_sent=True)
        adapter = EmailAdapter(name="email", account=made, clock=QuickClock(SystemClock().now()))
        handler = RecordingHandler()
        (payload,) = adapter.render("said **once**")
        reply = Outbound(chat_id=ANN, payload=payload, nonce="n1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.serve, handler)
            await handler.until_connected()
            first = await adapter.send(reply)
            again = await adapter.send(
                Outbound(chat_id=ANN, payload=payload, nonce="n1", is_repeat=True)
            )
            tasks.cancel_scope.cancel()

    assert first == again
    assert smtp.texts(ANN) == ["said **once**"]


async def test_kills_lose_and_double_nothing(dovecot: Dovecot, tmp_path: Path) -> None:
    """Twelve questions, the gateway killed at each."""
    user = f"bot{next(_NUMBERS)}@everturn.test"

    async def write(text: str) -> None:
        await dovecot.deliver(user, mail_from(ANN, text, to=BOT).as_bytes())

    async with open_smtp_server() as smtp:
        section = {"user": user, "imap": {"port": dovecot.imap_port}}
        seen = await talk_through_kills(tmp_path, smtp, section, write, questions=12)

    assert seen == [f"question {number}" for number in range(12)]
