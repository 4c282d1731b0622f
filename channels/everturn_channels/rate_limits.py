"""How often something may happen: a line in the log, a word to a person, a message. Pure.

Each of these remembers so many keys and no more; the one that was asked about longest ago goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

KEYS_MAX: Final = 4096  # people or chats at a time; one that is forgotten may do it once more

K = TypeVar("K", bound=Hashable)


class Cooldown(Generic[K]):
    """Lets something happen once in a while, for each key."""

    def __init__(self, every_s: float, *, keys: int = KEYS_MAX) -> None:
        self._every = timedelta(seconds=every_s)
        self._keys = keys
        self._last: OrderedDict[K, datetime] = OrderedDict()

    def may(self, key: K, now: datetime) -> bool:
        """Return whether it may happen now; if so, it counts as done."""
        last = self._last.get(key)
        if last is not None and last <= now < last + self._every:
            return False
        self._last[key] = now
        self._last.move_to_end(key)
        if len(self._last) > self._keys:
            self._last.popitem(last=False)
        return True


class TokenBuckets(Generic[K]):
    """Lets `burst` of something happen at once for each key, and then as many in `refill_s`."""

    def __init__(self, burst: int, refill_s: float, *, keys: int = KEYS_MAX) -> None:
        self._burst = burst
        self._per_s = burst / refill_s
        self._keys = keys
        self._left: OrderedDict[K, tuple[float, datetime]] = OrderedDict()

    def take(self, key: K, now: datetime) -> bool:
        """Return whether one more is let through. Time that runs backwards stands still."""
        left, since = self._left.get(key, (float(self._burst), now))
        now = max(now, since)
        left = min(self._burst, left + (now - since).total_seconds() * self._per_s)
        is_taken = left >= 1
        self._left[key] = (left - 1 if is_taken else left, now)
        self._left.move_to_end(key)
        if len(self._left) > self._keys:
            self._left.popitem(last=False)
        return is_taken


class RecentKeys(Generic[K]):
    """The newest keys that were noted."""

    def __init__(self, keys: int = KEYS_MAX) -> None:
        self._keys = keys
        self._noted: OrderedDict[K, None] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._noted

    def note(self, key: K) -> None:
        """Remember a key."""
        self._noted[key] = None
        self._noted.move_to_end(key)
        if len(self._noted) > self._keys:
            self._noted.popitem(last=False)
