"""A double of what stands behind a channel."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from everturn_channels.adapter import ChatRef, InboundEvent
from everturn_channels.errors import NotNowError


class RecordingHandler:
    """An `InboundHandler` that keeps what it is handed, for tests of a channel.

    >>> async def main():
    ...     handler = RecordingHandler()
    ...     async with anyio.create_task_group() as tasks:
    ...         tasks.start_soon(channel.serve, handler)
    ...         event = (await handler.until_handled(1))[0]
    """

    def __init__(self, *, refusals: int = 0) -> None:
        """Refuse so many events with `NotNowError` before one is taken."""
        self.events: list[InboundEvent] = []
        "What was taken, oldest first."
        self.refused: list[InboundEvent] = []
        "What could not be taken: each has to come again."
        self.account = ""
        "Under which name the login worked; empty = it did not yet."
        self.passed_over: list[str] = []
        "What could not be read."
        self.cursors: dict[str, str] = {}
        self._refusals = refusals
        self._changed = anyio.Event()

    async def handle(self, event: InboundEvent) -> None:
        """Keep an event.

        Raises:
            NotNowError: It is one of those that are refused.
        """
        if self._refusals:
            self._refusals -= 1
            self.refused.append(event)
            raise NotNowError("not now", retry_after_s=0)  # noqa: EM101, TRY003 - of a test
        self.events.append(event)
        self._notify()

    async def until_handled(self, count: int) -> Sequence[InboundEvent]:
        """Wait until so many events were taken, and return all."""
        while len(self.events) < count:
            await self._changed.wait()
        return tuple(self.events)

    async def until_connected(self) -> None:
        """Wait until the login worked."""
        while not self.account:
            await self._changed.wait()

    def unreadable(self, kind: str, fault: Exception | str, chat: ChatRef | None = None) -> None:
        """Keep what could not be read."""
        del chat
        self.passed_over.append(f"{kind}: {fault}")

    def blocked(self, chat: str, why: str) -> float:
        """Let a chat be tried again at once."""
        del chat, why
        return 0

    def unblocked(self, chat: str) -> None:
        """Take no note."""

    async def moved(self, old: str, new: str) -> None:
        """Take no note."""

    async def people(self) -> Sequence[str]:
        """Return nobody."""
        return ()

    async def skipped(self, chat: ChatRef, count: int, why: str) -> None:
        """Keep how many were skipped."""
        self.passed_over.append(f"{count} of {chat.id}: {why}")

    def received(self) -> None:
        """Take no note."""

    def connected(self, account: str) -> None:
        """Keep the name."""
        self.account = account
        self._notify()

    def cursor(self, name: str) -> str:
        """Return what was kept."""
        return self.cursors.get(name, "")

    async def keep_cursor(self, name: str, value: str) -> None:
        """Keep a cursor."""
        self.cursors[name] = value

    @property
    def is_new(self) -> bool:
        """Whether this channel never ran before."""
        return not self.cursors

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
