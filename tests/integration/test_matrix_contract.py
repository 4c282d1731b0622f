"""Matrix keeps the published contract, in plain rooms and in encrypted ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.matrix_api import MatrixApi
from support.matrix_contract import MatrixContract
from support.matrix_routes import open_matrix_api
from support.suites import hold_to_suite


class InPlainRooms(MatrixContract):
    """On the pretended homeserver, which can fail as a test wants."""

    api: MatrixApi

    @asynccontextmanager
    async def open_homeserver(self) -> AsyncGenerator[None]:
        """Run the pretended one."""
        async with open_matrix_api() as self.api:
            self.url = self.api.url
            yield

    async def users(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Add a bot and ann."""
        return self.api.add_user("bot"), self.api.add_user("ann")

    async def write_unreadable(self) -> None:
        """Send an event without an id."""
        event = self.api.say(self.chat_id, self.ann.user, "m.room.message", {"body": "odd"})
        event["event_id"] = 7

    async def lose_answer(self) -> None:
        """Take a message, and cut the connection; aiohttp makes the request once more."""
        self.api.cut("/send/", times=2, token=self.bot.token)

    async def slow_down(self, silence_s: float) -> None:
        """Refuse as for too many messages."""
        more = {"retry_after_ms": int(silence_s * 1000)}
        self.api.fail("/send/", 429, "M_LIMIT_EXCEEDED", token=self.bot.token, **more)

    async def interrupt(self) -> None:
        """Be away for a moment, for the bot."""
        self.api.fail("/sync", 502, "", token=self.bot.token)
        self.api.cut("/sync", times=2, is_done=False, token=self.bot.token)
        self.api.wake()


class InEncryptedRooms(InPlainRooms):
    """In encrypted rooms."""

    is_encrypted = True


LEFT_OUT = ["test_files_of_one_message_are_one_message"]


def test_plain_rooms_keep_the_contract_of_channels(tmp_path: Path) -> None:
    """As every channel does, whatever goes wrong on its homeserver."""
    hold_to_suite(InPlainRooms, tmp_path, left_out=LEFT_OUT)


@pytest.mark.parametrize("share", range(3))
def test_encrypted_rooms_keep_the_contract_of_channels(share: int, tmp_path: Path) -> None:
    """What nobody else can read is lost as little."""
    hold_to_suite(InEncryptedRooms, tmp_path, left_out=LEFT_OUT, share=share, parts=3)
