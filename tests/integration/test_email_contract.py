"""E-mail keeps the published contract, on a pretended mail server that fails as a test wants."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from support.email_contract import BOT, EmailContract
from support.imap_server import ImapServer, open_imap_server
from support.suites import hold_to_suite


class OnMailServer(EmailContract):
    """On the pretended server."""

    imap: ImapServer

    @asynccontextmanager
    async def open_mailbox(self) -> AsyncGenerator[None]:
        """Run the server."""
        async with open_imap_server() as self.imap:
            self.imap.add_account(BOT, "pw")
            self.imap_port = self.imap.port
            yield

    async def deliver(self, raw: bytes) -> None:
        """Put a mail into the bot's inbox."""
        self.imap.deliver(BOT, raw)

    async def uids(self) -> Sequence[int]:
        """Return what is there."""
        return list(self.imap.accounts[BOT].folders["INBOX"].mails)

    async def interrupt(self) -> None:
        """Be away for a moment."""
        self.imap.cut()

    async def revoke(self) -> None:
        """Change the password."""
        self.imap.accounts[BOT].password = "another"


LEFT_OUT = [
    "test_a_change_of_what_somebody_wrote_names_the_message",
    "test_a_deletion_of_what_somebody_wrote_names_the_message",
    "test_a_message_of_the_bot_can_be_changed",
    "test_a_reaction_on_what_the_bot_said_names_it",
    "test_files_of_one_message_are_one_message",
]
"A mail is never changed, nobody puts a reaction on one, and it holds all of its files."


def test_email_keeps_the_contract_of_channels(tmp_path: Path) -> None:
    """As every channel does, whatever goes wrong on its servers."""
    hold_to_suite(OnMailServer, tmp_path, left_out=LEFT_OUT)
