"""Wakes whoever is due: one sleeping task and a heap, whatever the number of entries."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

import anyio

from everturn_actors.ports import Clock

logger = logging.getLogger(__name__)

LOOK_S: Final = 30.0
"""The longest sleep. A machine that was suspended, or whose clock was set, is noticed after this:
what measures a sleep stands still in a suspend, and knows nothing of the clock on the wall."""
JUMP_S: Final = 5.0  # a sleep that took so much longer or shorter by the clock: it was set
_OPEN_END: Final = datetime.max.replace(tzinfo=UTC)


class Timetable:
    """Names, each with the instant at which it is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[datetime, str]] = []
        self._due: dict[str, datetime] = {}
        self._nap: anyio.CancelScope | None = None

    def put(self, name: str, at: datetime | None) -> None:
        """Make `name` due at `at` and at no other time; None = never."""
        if self._due.get(name) == at:
            return
        if at is None:
            self._due.pop(name, None)
            return
        first = self._first()
        self._due[name] = at
        heapq.heappush(self._heap, (at, name))
        if len(self._heap) > 2 * len(self._due) + 64:  # entries that were put elsewhere
            self._heap = [(due, each) for each, due in self._due.items()]
            heapq.heapify(self._heap)
        if at < first and self._nap is not None:
            self._nap.cancel()

    def at(self, name: str) -> datetime | None:
        """Return when `name` is due; None = never."""
        return self._due.get(name)

    async def run(self, fire: Callable[[str], None], jumped: Callable[[], None]) -> NoReturn:
        """Take every name off the table when it is due, and hand it to `fire`; until cancelled.

        Args:
            fire: Must not wait. A name is due again when it is put again.
            jumped: Called when the clock was set, before anything that is due then.
        """
        while True:
            now = self._clock.now()
            for name in self._take(now):
                fire(name)
            nap_s = min(max((self._first() - now).total_seconds(), 0.0), LOOK_S)
            with anyio.CancelScope() as self._nap:
                await self._clock.sleep(nap_s)
            slept_whole = not self._nap.cancelled_caught
            self._nap = None
            passed_s = (self._clock.now() - now).total_seconds()
            if passed_s < -JUMP_S or (slept_whole and passed_s - nap_s > JUMP_S):
                logger.warning(
                    "the clock was set, or the machine slept",
                    extra={"seconds": round(passed_s - nap_s, 3)},
                )
                jumped()

    def _take(self, now: datetime) -> list[str]:
        taken: list[str] = []
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._due.get(name) == at:
                del self._due[name]
                taken.append(name)
        return taken

    def _first(self) -> datetime:
        """Return when the next is due; one that was put elsewhere costs a look too many."""
        return self._heap[0][0] if self._heap else _OPEN_END


def later(scheduled_at: datetime, delay_s: float) -> datetime:
    """Return the instant so much later, or the last one that there is."""
    try:
        return scheduled_at + timedelta(seconds=delay_s)
    except OverflowError:
        return _OPEN_END
