"""The bounded inbox of an actor, and the slot in which a caller waits for its answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from everturn_actors.errors import MailboxFullError, PassivatedError
from everturn_actors.protocol.commands import AnyCommand, Command

MAILBOX_LIMIT = (
    256  # commands; one conversation never has more waiting than its people can send in a turn
)

T = TypeVar("T")


class ReplySlot(Generic[T]):
    """What one caller waits for; set once."""

    __slots__ = ("_error", "_is_set", "_value", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._value: T
        "There once it is given."
        self._error: Exception | None = None
        # A bare future: each turn waits for several, and an event costs three times as much.
        self._waiter: asyncio.Future[None] | None = None

    def give(self, value: T) -> None:
        """Wake the caller with `value`. A later answer changes nothing."""
        if not self._is_set:
            self._value = value
            self._wake()

    def fail(self, error: Exception) -> None:
        """Wake the caller with an error. A later answer changes nothing."""
        if not self._is_set:
            self._error = error
            self._wake()

    def _wake(self) -> None:
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> T:
        """Return the answer; a caller that was cancelled may wait again.

        Waits without a deadline of its own: an actor answers or refuses everything it holds when
        it stops.
        """
        if not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._error is not None:
            raise self._error
        return self._value


class Envelope(Struct, eq=False):
    """A command on its way, and where its sender waits."""

    command: AnyCommand
    answer: ReplySlot[Any]


class Mailbox:
    """Commands on their way to one actor, oldest first."""

    def __init__(self, limit: int = MAILBOX_LIMIT) -> None:
        self._waiting: deque[Envelope] = deque()
        self._limit = limit
        self._waiter: asyncio.Future[None] | None = None
        "Where `take` waits. A bare future, as in `ReplySlot`."
        self._is_nudged = False
        self._has_deadline = True
        "Whether `take` returns by itself some time; also while nobody waits."
        self._refusal: Exception | None = None
        "What is told to whoever asks for something from now on; None = it is taken."
        self._closed = False

    def put(self, command: Command[T], *, own: bool = False) -> ReplySlot[T]:
        """Add a command; return where its answer will be.

        Args:
            command: What the actor should do.
            own: The actor's own running turn, or its owner, sends it; it is taken even when the
                box is full or refuses what comes from outside.

        Raises:
            MailboxFullError: Too many are waiting.
            PassivatedError: The actor is gone, or goes, and has not taken the command.
            ActorStoppedError: The service stops.
        """
        if self._closed:
            raise PassivatedError
        if self._refusal is not None and not own:
            raise self._refusal
        if not own and len(self._waiting) >= self._limit:
            raise MailboxFullError
        answer: ReplySlot[T] = ReplySlot()  # not `ReplySlot[T]()`, which takes ten times as long
        self._waiting.append(Envelope(cast("AnyCommand", command), answer))
        self._wake()
        return answer

    async def take(self, timeout_s: float | None) -> list[Envelope] | None:
        """Return all that waits, as soon as there is something; None after `timeout_s`.

        Empty where `nudge` was called: whoever waits looks again how long it has to wait.
        """
        if not self._waiting and not self._is_nudged:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            if timeout_s is None:  # while a turn runs, which is most of what is waited for
                self._has_deadline = False
                try:
                    await self._waiter
                finally:
                    self._has_deadline = True
            else:
                # No scope with a deadline: what comes takes the timer back before it is due.
                timer = loop.call_later(timeout_s, self._wake)
                try:
                    await self._waiter
                finally:
                    timer.cancel()
                if not self._waiting and not self._is_nudged:
                    return None
        self._is_nudged = False
        return self.drain()

    def nudge(self) -> None:
        """Let `take` return, though nothing may have come: something else has changed."""
        self._is_nudged = True
        self._wake()

    def work_ended(self) -> None:
        """Let `take` return where it waits for as long as there is work: there is less of it.

        Who waits with a deadline has seen that nothing works any more, and is not woken for it: so
        the actor of a session that was answered sleeps on when the task of its turn ends.
        """
        if not self._has_deadline:
            self.nudge()

    def put_back(self, commands: Iterable[Envelope]) -> None:
        """Put commands that were taken, oldest first, before all that wait."""
        self._waiting.extendleft(reversed([*commands]))
        self._wake()

    def _wake(self) -> None:
        """Let `take` look again, where it waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def waiting(self) -> int:
        """How many commands wait."""
        return len(self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    @property
    def is_refusing(self) -> bool:
        """Whether it takes no more from outside."""
        return self._refusal is not None or self._closed

    def refuse(self, reason: Exception) -> None:
        """Take no more from outside; tell whoever asks why."""
        self._refusal = reason

    def close(self) -> list[Envelope]:
        """Take no more at all; return what waited, for its callers to be told."""
        self._closed = True
        return self.drain()

    def drain(self) -> list[Envelope]:
        """Return all that waits, and keep nothing."""
        left = list(self._waiting)
        self._waiting.clear()
        return left
