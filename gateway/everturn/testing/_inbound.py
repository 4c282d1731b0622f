"""A double of what stands behind a channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import anyio

from everturn_channels.adapter import ChatRef, Command, InboundEvent, Message
from everturn_channels.command_registry import CommandSpec, commands_for
from everturn_channels.errors import NotNowError


class _WillingHandler:
    """What a handler says to a channel that everything suits."""

    def menu(self) -> tuple[CommandSpec, ...]:
        """Return the commands of every bot."""
        return commands_for("private")

    def blocked(self, chat: str, why: str) -> float:
        """Let a chat be tried again at once."""
        del chat, why
        return 0

    def unblocked(self, chat: str) -> None:
        """Take no note."""

    async def moved(self, old: str, new: str) -> None:
        """Take no note."""

    async def suggestions(self, command: Command) -> Sequence[str]:
        """Suggest nothing."""
        del command
        return ()

    async def people(self) -> Sequence[str]:
        """Return nobody."""
        return ()

    async def welcomes(self, person: str, chat: str, *, is_direct: bool) -> bool:
        """Follow every invitation."""
        del person, chat, is_direct
        return True


class RecordingHandler(_WillingHandler):
    """An `InboundHandler` that keeps what it is handed, for tests of a channel.

    >>> async def main():
    ...     handler = RecordingHandler()
    ...     async with anyio.create_task_group() as tasks:
    ...         tasks.start_soon(channel.serve, handler)
    ...         event = (await handler.until_handled(1))[0]
    """

    def __init__(self, *, refusals: int = 0, cursors: Mapping[str, str] | None = None) -> None:
        """Refuse so many events with `NotNowError` before one is taken.

        `cursors` are those that an earlier run of the channel left; none = it is new.
        """
        self.events: list[InboundEvent] = []
        "What was taken, oldest first."
        self.refused: list[InboundEvent] = []
        "What could not be taken: each has to come again."
        self.waiting: list[InboundEvent] = []
        "What is held."
        self.account = ""
        "Under which name the login worked; empty = it did not yet."
        self.logins: list[tuple[str, str]] = []
        "What its owner has to do to log in, and what QR codes for that hold."
        self.passed_over: list[str] = []
        "What could not be read."
        self.skips: list[tuple[ChatRef, int, str]] = []
        "Where how many messages were left out, and why."
        self.deletions: list[tuple[str, str]] = []
        "Chats and ids of messages that were deleted."
        self.moves: list[tuple[str, str]] = []
        "Ids of chats, and those that they have instead."
        self.undeliveries: list[tuple[str, str, bool]] = []
        "Where something does not get there, why, and whether it is lost."
        self.reopened: list[str] = []
        "Where what waited can be sent again."
        self.cursors: dict[str, str] = dict(cursors or {})
        self.is_new = not self.cursors
        "Whether this channel never ran before."
        self._refusals = refusals
        self._gates: dict[str, anyio.Event] = {}
        self._changed = anyio.Event()

    async def handle(self, event: InboundEvent) -> None:
        """Keep an event.

        Raises:
            NotNowError: It is one of those that are refused.
        """
        if gate := self._gates.get(event.chat.id):
            self.waiting.append(event)
            self.received()
            await gate.wait()
        if self._refusals:
            self._refusals -= 1
            self.refused.append(event)
            msg = "not now"
            raise NotNowError(msg, retry_after_s=0)
        self.events.append(event)
        self.received()

    def hold(self, chat: str) -> anyio.Event:
        """Take nothing of a chat until the event is set."""
        return self._gates.setdefault(chat, anyio.Event())

    def texts(self, chat: str = "") -> list[str]:
        """Return the texts of the messages that were taken, each once; empty = of all chats."""
        found = {
            (event.chat.id, event.id): event.text
            for event in self.events
            if isinstance(event, Message) and chat in {"", event.chat.id}
        }
        return list(found.values())

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, looked at whenever something came."""
        while not is_so():
            await self._changed.wait()

    async def until_handled(self, count: int) -> Sequence[InboundEvent]:
        """Wait until so many events were taken, and return all."""
        await self.until(lambda: len(self.events) >= count)
        return tuple(self.events)

    async def until_connected(self) -> None:
        """Wait until the login worked."""
        await self.until(lambda: self.account)

    def unreadable(self, kind: str, fault: Exception | str, chat: ChatRef | None = None) -> None:
        """Keep what could not be read."""
        del chat
        self.passed_over.append(f"{kind}: {fault}")
        self.received()

    async def deleted(self, chat: str, message_id: str) -> None:
        """Note it in `deletions`."""
        self.deletions.append((chat, message_id))
        self.received()

    async def moved(self, old: str, new: str) -> None:
        """Note it in `moves`."""
        self.moves.append((old, new))
        self.received()

    def undelivered(self, chat: str, why: str, *, is_lost: bool) -> None:
        """Note it in `undeliveries`."""
        self.undeliveries.append((chat, why, is_lost))
        self.received()

    def deliverable(self, chat: str) -> None:
        """Note it in `reopened`."""
        self.reopened.append(chat)
        self.received()

    async def skipped(self, chat: ChatRef, count: int, why: str) -> None:
        """Keep how many were skipped."""
        self.skips.append((chat, count, why))

    def received(self) -> None:
        """Look again at what is waited for."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def connected(self, account: str) -> None:
        """Keep the name."""
        self.account = account
        self.received()

    def needs_login(self, text: str, qr: str) -> None:
        """Keep what is asked of the owner."""
        self.logins.append((text, qr))
        self.received()

    def cursor(self, name: str) -> str:
        """Return what was kept."""
        return self.cursors.get(name, "")

    async def keep_cursor(self, name: str, value: str) -> None:
        """Keep a cursor."""
        self.cursors[name] = value
        self.received()
