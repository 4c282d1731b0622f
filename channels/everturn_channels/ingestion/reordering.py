"""The order of a chat whose platform delivers in none: by when its messages were written.

What is known when a message is taken decides: one that comes later than those written after it can
stand before them no more. So whatever was delivered late, or right after a start, when a platform
brings again what it could not deliver, waits a moment for what was written before it.
"""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Final

from everturn_actors.ports import Clock
from everturn_channels.ingestion.event_handler import Queued
from everturn_channels.ingestion.events import Gap

LATE_S: Final = 10.0
"What was written so long before it came was delivered late."
START_S: Final = 5.0
"So long after a start everything may be."


class Reordering:
    """The order of one connection, from now on.

    Args:
        clock: The time.
        within_s: So long what comes late waits.
    """

    def __init__(self, clock: Clock, within_s: float) -> None:
        self._clock, self._within = clock, timedelta(seconds=within_s)
        self._until = clock.now() + timedelta(seconds=START_S)

    def insert(self, items: deque[Queued | Gap], came: Queued) -> None:
        """Put what came before all that waits and was written later."""
        at, now = came.event.at, self._clock.now()
        if at and (now < self._until or now.timestamp() - at > LATE_S):
            came.ready_at = now + self._within
        place = len(items)
        while place and _is_after(items[place - 1], at):
            place -= 1
        if place < len(items) and came.ready_at is not None:
            # Nothing waits for longer since something came before it.
            behind = items[place]
            since = behind.ready_at if isinstance(behind, Queued) else None
            came.ready_at = min(came.ready_at, since or now)
        items.insert(place, came)

    async def wait(self, first: Queued | Gap) -> None:
        """Wait as long as something may come that was written before what is first in its chat."""
        if isinstance(first, Queued) and first.ready_at is not None:
            wait_s = (first.ready_at - self._clock.now()).total_seconds()
            if wait_s > 0:  # no longer where the clock was set back meanwhile
                await self._clock.sleep(min(wait_s, self._within.total_seconds()))


def _is_after(item: Queued | Gap, at: int) -> bool:
    return bool(at) and isinstance(item, Queued) and item.event.at > at
