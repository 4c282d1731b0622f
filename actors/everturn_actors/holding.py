"""How long the next turn waits for what people are still writing.

In memory: after a restart nothing is waited for. Pure: instants come from outside.
"""

from __future__ import annotations

from datetime import datetime, timedelta

LONGEST_HOLDS = 4  # a turn is held for so many times what one message asks for, and no longer
_SENDERS = 256  # whose last message is remembered; more write in no conversation at once


class Holds:
    """What one conversation waits for."""

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}
        self._limit: datetime | None = None

    def note(self, sender: str, hold_s: float, now: datetime) -> None:
        """Remember a message: its sender may write more."""
        if hold_s <= 0:
            return
        self._until.pop(sender, None)
        self._until[sender] = now + timedelta(seconds=hold_s)
        if len(self._until) > _SENDERS:
            del self._until[next(iter(self._until))]
        if self._limit is None:
            self._limit = now + timedelta(seconds=hold_s * LONGEST_HOLDS)

    def in_one_breath(self, sender: str, now: datetime) -> bool:
        """Whether a message of `sender` belongs to the one before it."""
        until = self._until.get(sender)
        return until is not None and now < until

    def until(self, now: datetime) -> datetime | None:
        """Return when the next turn may begin; None = now."""
        if self._limit is None or now >= self._limit:
            return None
        latest = max(self._until.values(), default=now)
        return min(latest, self._limit) if latest > now else None

    def release(self) -> None:
        """Let the next turn begin; what comes after it is held anew."""
        self._limit = None
