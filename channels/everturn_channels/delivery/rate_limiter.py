"""When a bot may call its platform: how many calls at a time, and never while it has to be quiet.

One for all conversations of a bot, because a platform that asks for quiet means the whole bot.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

import anyio

from everturn_actors.delivery.port import Outgoing
from everturn_actors.ports import Clock

AT_ONCE: Final = 16  # messages of one bot that are on their way at the same time
PAUSE_MIN_S: Final = 0.5  # a platform that asks for no time at all still means some
RETRY_S: Final = 1.0  # after the first failure that names no time; doubled with each one
RETRY_MAX_S: Final = 60.0
DOUBT_S: Final = 2.0  # the same for what may have arrived
DOUBT_MAX_S: Final = 1800.0  # longer: each further try may show it once more


class RateLimiter:
    """Hands out the right to call the platform, first come, first served."""

    def __init__(
        self, clock: Clock, jitter: Callable[[], float], *, at_once: int = AT_ONCE
    ) -> None:
        """Begin without a pause.

        Args:
            clock: The time.
            jitter: Gives a number from 0 to 1, anew with every call.
            at_once: How many calls may be under way.
        """
        self._clock, self._jitter = clock, jitter
        self._slots = anyio.Semaphore(at_once)
        self._paused_until: datetime | None = None
        self._waiting: dict[anyio.CancelScope, bool] = {}
        "The waits after failures, and whether a word of the platform ends them."
        self.times_heard = 0
        "How often the platform was heard from."
        self.times_answered = 0
        "How often it answered what was sent."
        self.logins = 0
        "How often it could be reached again."

    @property
    def paused_s(self) -> float:
        """How long the bot has to be quiet from now on; 0 = it may speak."""
        if self._paused_until is None:
            return 0.0
        left_s = (self._paused_until - self._clock.now()).total_seconds()
        if left_s <= 0:
            self._paused_until = None
        return max(left_s, 0.0)

    @property
    def is_contended(self) -> bool:
        """Whether others wait, or all have to: whoever holds a right should give it back."""
        return self._slots.statistics().tasks_waiting > 0 or self.paused_s > 0

    def pause_for(self, delay_s: float) -> None:
        """Let nobody begin a call for so long."""
        until = self._clock.now() + timedelta(seconds=max(delay_s, PAUSE_MIN_S))
        if self._paused_until is None or until > self._paused_until:
            self._paused_until = until

    def acquire_nowait(self) -> bool:
        """Take the right to a call, if it is there at once."""
        if self.paused_s > 0:
            return False
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            return False
        return True

    async def acquire(self) -> None:
        """Take the right to a call, when the bot may speak and it is one's turn."""
        while True:
            while (left_s := self.paused_s) > 0:
                await self._clock.sleep(left_s)
            await self._slots.acquire()
            if self.paused_s <= 0:
                return
            self._slots.release()

    def release(self) -> None:
        """Give the right back."""
        self._slots.release()

    def backoff_s(self, failures: int, *, in_doubt: bool = False) -> float:
        """Return how long to wait after so many failures in a row, longer with each of them.

        Not all wait for the same time, so that they do not come back in one moment.

        Args:
            failures: In a row, this one included.
            in_doubt: Whether what failed may have been done all the same.
        """
        first_s, most_s = (DOUBT_S, DOUBT_MAX_S) if in_doubt else (RETRY_S, RETRY_MAX_S)
        return min(first_s * 2.0 ** min(failures - 1, 16), most_s) * (1 - self._jitter() / 2)

    async def back_off(self, failures: int) -> None:
        """Wait after so many failures in a row; no longer than until the platform is back."""
        await self.wait(self.backoff_s(failures))

    async def wait(self, delay_s: float, *, or_heard: bool = False) -> None:
        """Wait; no longer than until the platform can be reached again.

        Args:
            delay_s: At most so long.
            or_heard: Whether any word of the platform ends it, too.
        """
        with anyio.CancelScope() as scope:
            self._waiting[scope] = or_heard
            try:
                await self._clock.sleep(delay_s)
            finally:
                del self._waiting[scope]

    def heard(self, *, answer: bool = False) -> None:
        """Note that the platform was heard from: an update came, or a request was answered.

        `answer`: it was a message, and the platform said what became of it.
        """
        self.times_heard += 1
        self.times_answered += answer
        for scope, or_heard in self._waiting.items():
            if or_heard:
                scope.cancel()

    def stop_backing_off(self) -> None:
        """End the waits after failures: the platform can be reached again."""
        self.logins += 1
        for scope in self._waiting:
            scope.cancel()


async def unless(
    session: Outgoing, is_over: Callable[[], bool], work: Callable[[], Awaitable[None]]
) -> bool:
    """Do `work`, but give it up as soon as the session stands so that `is_over`.

    Returns:
        Whether it was done.
    """
    if is_over():
        return False
    is_done = False
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while not is_over():
                await session.until_changed()
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        await work()
        is_done = True
        tasks.cancel_scope.cancel()
    return is_done
