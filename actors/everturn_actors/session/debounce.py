"""How long the next turn waits for what people are still writing.

In memory: after a restart nothing is waited for. Pure: instants come from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

LONGEST_DEBOUNCES = 4  # a turn is held for so many times what one message asks for, and no longer
LONGEST_S = 86_400.0  # no message asks for more than a day
_SENDERS = 256  # whose last message is remembered; more write in no conversation at once


@dataclass(frozen=True, slots=True)
class _Span:
    """A time that a message opened; on a clock that was set back it is over."""

    since: datetime
    until: datetime

    def holds(self, now: datetime) -> bool:
        return self.since <= now < self.until


class Debouncer:
    """What one conversation waits for."""

    def __init__(self) -> None:
        self._bursts: dict[str, _Span] = {}
        "By sender: from the last message to when another one no longer belongs to it."
        self._last: dict[str, datetime] = {}
        "By sender: when its burst is over, however many more messages come."
        self._limit: _Span | None = None

    def note(self, sender: str, hold_s: float, now: datetime) -> None:
        """Remember a message: its sender may write more."""
        if hold_s <= 0:
            return
        hold_s = min(hold_s, LONGEST_S)
        longest = now + timedelta(seconds=hold_s * LONGEST_DEBOUNCES)
        last = self._last[sender] if self.in_one_burst(sender, now) else longest
        self._bursts.pop(sender, None)
        self._bursts[sender] = _Span(now, min(now + timedelta(seconds=hold_s), last))
        self._last[sender] = last
        if len(self._bursts) > _SENDERS:
            oldest = next(iter(self._bursts))
            del self._bursts[oldest], self._last[oldest]
        if self._limit is None:
            self._limit = _Span(now, longest)

    def in_one_burst(self, sender: str, now: datetime) -> bool:
        """Whether a message of `sender` belongs to the one before it."""
        burst = self._bursts.get(sender)
        return burst is not None and burst.holds(now)

    def until(self, now: datetime) -> datetime | None:
        """Return when the next turn may begin; None = now."""
        limit = self._limit
        if limit is None or not limit.holds(now):
            return None
        latest = max((each.until for each in self._bursts.values() if each.holds(now)), default=now)
        return min(latest, limit.until) if latest > now else None

    def release(self) -> None:
        """Let the next turn begin; what comes after it is held anew."""
        self._limit = None
