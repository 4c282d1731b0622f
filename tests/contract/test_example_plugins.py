"""The plug-ins of `tests/plugin_dist` keep the published contracts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from everturn_example_plugins.channel import MailboxAdapter
from everturn_example_plugins.policy import NEWEST
from everturn_example_plugins.provider import Echo
from everturn_example_plugins.store import VaultSettings, open_vault
from everturn_example_plugins.tool import Dice
from support.suites import hold_to_suite

from everturn.testing import (
    ChannelContract,
    PolicyContract,
    ProviderContract,
    RecordingHandler,
    StoreContract,
    ToolContract,
)
from everturn_actors.ports import ModelProvider, SessionStore
from everturn_actors.supervisor import Supervisor
from everturn_actors.testing import ManualClock
from everturn_channels.adapter import Outbound
from everturn_gateway.clock import SystemClock
from everturn_gateway.plugins import StoreSetup


class ReadMailbox(MailboxAdapter):
    """A mailbox whose answers are read as they are written."""

    def __init__(self, folder: Path) -> None:
        super().__init__("mailbox", folder, SystemClock())
        self.shown: dict[str, str] = {}

    async def send(self, message: Outbound) -> str:
        """Write an answer, and read it."""
        name = await super().send(message)
        self.shown[name] = await (anyio.Path(self.folder) / "out" / name).read_text()
        return name

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """Change an answer, and read it."""
        await super().edit(chat_id, topic, platform_id, payload)
        self.shown[platform_id] = payload


class TestMailbox(ChannelContract):
    """A folder that stands for a platform."""

    chat_id = "ann"
    folder: Path

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_channel(self) -> MailboxAdapter:
        """Return the channel of the test's folder."""
        self.channel = ReadMailbox(self.folder)
        return self.channel

    async def write(self, text: str, chat_id: str) -> None:
        """Put a letter into it."""
        self.letters = getattr(self, "letters", 0) + 1
        box = anyio.Path(self.folder)
        draft = box / "draft"
        await (box / "in").mkdir(exist_ok=True)
        await draft.write_text(text)
        await draft.rename(box / "in" / f"{chat_id}.{self.letters:06}.txt")

    async def write_unreadable(self) -> None:
        """Put a letter into it that is no text."""
        await (anyio.Path(self.folder) / "in" / f"{self.chat_id}.odd.txt").write_bytes(b"\xff")

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many letters lie there."""
        del handler
        return len([path async for path in anyio.Path(self.folder / "in").iterdir()])

    async def shown(self) -> list[str]:
        """Return the answers."""
        return list(self.channel.shown.values())


class TestEcho(ProviderContract):
    """A model without an API."""

    @asynccontextmanager
    async def open_provider(self) -> AsyncGenerator[ModelProvider]:
        """Open it."""
        yield Echo("You said")


class TestDice(ToolContract):
    """A tool without a world."""

    good = '{"wish": "six"}'

    def make_tool(self) -> Dice:
        """Return it."""
        return Dice(6)


class TestNewest(PolicyContract):
    """A policy that keeps three turns."""

    policy = NEWEST.policy


class Vault(StoreContract):
    """A store that a process keeps."""

    def open_store(self) -> AbstractAsyncContextManager[SessionStore]:
        """Open the vault of the test."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[SessionStore]:
        setup = StoreSetup(
            settings=VaultSettings(name=str(self.folder)),
            workspace=self.folder,
            results_max_bytes=10_000_000,
            on_batch=lambda _stats: None,
            is_serving=True,
            supervisor=Supervisor(ManualClock()),
        )
        async with open_vault(setup) as opened:
            yield opened.store


@pytest.mark.parametrize("share", range(2))
def test_a_store_that_a_process_keeps_keeps_the_contract(share: int, tmp_path: Path) -> None:
    """What holds for files holds over a pipe."""
    hold_to_suite(Vault, tmp_path, share=share, parts=2)
