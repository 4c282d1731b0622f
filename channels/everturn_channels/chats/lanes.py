"""Chats in which something cannot be taken now: since when, how often it was tried, and why. No IO.

What comes after it in the same chat waits, so that nothing overtakes it; other chats do not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

RETRY_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
"Pauses between the tries of one thing, the last for ever."
LANES_MAX: Final = 1_000
"Chats that are remembered; the one that was tried longest ago goes."
STALE_S: Final = 900.0
"A lane that was not tried for so long waits no more: its platform took back what it held."


class BlockedLane(Struct, frozen=True, kw_only=True):
    """One chat, and what has to be taken in it before anything else."""

    chat: str
    since: datetime
    "UTC. When it was tried for the first time."
    tried_at: datetime
    "UTC. The end of the newest try."
    tries: int
    why: str
    "Why the newest try failed, in words."

    @property
    def retry_after_s(self) -> float:
        """How long to wait before the next try."""
        return RETRY_S[min(self.tries, len(RETRY_S)) - 1]


class BlockedLanes:
    """The blocked lanes of one channel."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[str, tuple[Hashable, BlockedLane]] = OrderedDict()
        "By chat, with what tells the thing that is first in it from all others."

    def block(
        self, chat: str, what: Hashable, why: str, *, began_at: datetime, now: datetime
    ) -> BlockedLane:
        """Note that something could not be taken; return how its lane stands.

        Args:
            chat: Where it was written.
            what: Tells it from all others: tries of another thing begin anew.
            why: In words without secrets.
            began_at: When this try began, UTC.
            now: When it ended.
        """
        known = self._lanes.pop(chat, None)
        since, tries = began_at, 1
        if known is not None and known[0] == what:
            since, tries = known[1].since, known[1].tries + 1
        lane = BlockedLane(chat=chat, since=since, tried_at=now, tries=tries, why=why)
        self._lanes[chat] = (what, lane)
        while len(self._lanes) > LANES_MAX:
            self._lanes.popitem(last=False)
        return lane

    def release(self, chat: str, what: Hashable, *, is_passing: bool = False) -> None:
        """Note that something of a chat was taken.

        Args:
            chat: Where it was written.
            what: As for `block`.
            is_passing: It may have been taken before what is first in its lane.
        """
        known = self._lanes.get(chat)
        if known is not None and (not is_passing or known[0] == what):
            del self._lanes[chat]

    def blocked(self, now: datetime, *, for_s: float) -> tuple[BlockedLane, ...]:
        """Return the lanes that are blocked for so long, those that are it longest first."""
        latest, stale = now - timedelta(seconds=for_s), now - timedelta(seconds=STALE_S)
        lanes = [lane for _, lane in self._lanes.values()]
        found = [lane for lane in lanes if lane.since <= latest and lane.tried_at >= stale]
        return tuple(sorted(found, key=lambda lane: lane.since))
