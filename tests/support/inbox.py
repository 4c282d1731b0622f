"""What stands behind an adapter in its own tests: takes events, and can refuse to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel
from support.patience import WAIT_S

from everturn_channels.adapter import Adapter, ChatRef, Command, InboundEvent, InboundHandler
from everturn_channels.command_registry import CommandSpec, commands_for
from everturn_channels.errors import NotNowError

_MOMENT_S = 0.01  # instead of every longer wait


class QuickClock:
    """A clock that is moved by hand, and whose sleepers hardly wait."""

    def __init__(self, now: datetime = datetime(2026, 11, 22, 12, tzinfo=UTC)) -> None:
        self._now = now
        self.slept_s: list[float] = []

    def now(self) -> datetime:
        return self._now

    async def sleep(self, delay_s: float) -> None:
        self.slept_s.append(delay_s)
        await anyio.sleep(_MOMENT_S)

    def advance(self, delay_s: float) -> None:
        self._now += timedelta(seconds=delay_s)


class Inbox:
    """An handler that keeps what it is handed."""

    def __init__(self, *, is_new: bool = False) -> None:
        self.is_new = is_new
        self.taken: list[InboundEvent] = []
        self.skips: list[tuple[ChatRef, int, str]] = []
        self.moves: list[tuple[str, str]] = []
        self.deletions: list[tuple[str, str]] = []
        "Chats that were given another id, and that id."
        self.known: list[str] = []
        "Ids of people who are let in by name."
        self.unwelcome: set[str] = set()
        "Ids of people whose invitations are turned down."
        self.unread: list[tuple[str, str, ChatRef | None]] = []
        "What could not be read: its kind, why, and where."
        self.blocks: list[tuple[str, str]] = []
        "Chats that could not be read, and why; empty where they could again."
        self.cursors: dict[str, str] = {}
        self.account = ""
        self.heard = 0
        self.full_chats: set[str] = set()
        "Chats whose journal cannot be written."
        self.refused: list[InboundEvent] = []
        self._gates: dict[str, anyio.Event] = {}
        self._changed = anyio.Event()

    async def handle(self, event: InboundEvent) -> None:
        if gate := self._gates.get(event.chat.id):
            await gate.wait()
        if event.chat.id in self.full_chats:
            self.refused.append(event)
            self._wake()
            msg = "no space left on the disk"
            raise NotNowError(msg, retry_after_s=0)
        self.taken.append(event)
        self._wake()

    async def moved(self, old: str, new: str) -> None:
        """Note it."""
        self.moves.append((old, new))
        self._wake()

    async def deleted(self, chat: str, message_id: str) -> None:
        """Note it."""
        self.deletions.append((chat, message_id))
        self._wake()

    def undelivered(self, chat: str, why: str, *, is_lost: bool) -> None:
        """Expect none."""
        raise AssertionError((chat, why, is_lost))

    def deliverable(self, chat: str) -> None:
        """Expect none."""
        raise AssertionError(chat)

    def needs_login(self, text: str, qr: str) -> None:
        """Expect none: what is built in logs in with a token."""
        raise AssertionError((text, qr))

    def menu(self) -> tuple[CommandSpec, ...]:
        """Offer what every bot does."""
        return commands_for("private")

    async def suggestions(self, command: Command) -> list[str]:
        """Suggest nothing."""
        del command
        return []

    async def people(self) -> list[str]:
        return self.known

    async def welcomes(self, person: str, chat: str, *, is_direct: bool) -> bool:
        return person not in self.unwelcome

    async def skipped(self, chat: ChatRef, count: int, why: str) -> None:
        self.skips.append((chat, count, why))

    def unreadable(self, kind: str, fault: Exception | str, chat: ChatRef | None = None) -> None:
        self.unread.append((kind, str(fault), chat))
        self._wake()

    def blocked(self, chat: str, why: str) -> float:
        self.blocks.append((chat, why))
        return _MOMENT_S

    def unblocked(self, chat: str) -> None:
        self.blocks.append((chat, ""))

    def received(self) -> None:
        self.heard += 1
        self._wake()

    def connected(self, account: str) -> None:
        self.account = account
        self._wake()

    def cursor(self, name: str) -> str:
        return self.cursors.get(name, "")

    async def keep_cursor(self, name: str, value: str) -> None:
        self.cursors[name] = value

    def hold(self, chat: str) -> anyio.Event:
        """Let nothing of a chat be taken until the event is set."""
        self._gates[chat] = anyio.Event()
        return self._gates[chat]

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, looked at whenever something came."""
        with anyio.fail_after(WAIT_S):
            while not is_so():
                self._changed = anyio.Event()
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()


@asynccontextmanager
async def serving(adapter: Adapter, inbox: Inbox) -> AsyncGenerator[Inbox]:
    """Serve an adapter into an inbox while the block runs."""
    handler: InboundHandler = inbox
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.serve, handler)
        await inbox.until(lambda: inbox.account)
        yield inbox
        tasks.cancel_scope.cancel()
