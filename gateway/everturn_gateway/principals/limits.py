"""How often somebody may do something: leaky buckets in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

KEYS_MAX: Final = 4096  # whose past is known; some 500 KiB
_MINUTE_S: Final = 60.0
_TOLERANCE_S: Final = 1e-6  # of sums of floats


class RateLimiter:
    """Lets each key do something so many times a minute, in bursts of up to as many.

    One number is kept for each key: when its bucket would be empty again. Source: the virtual
    scheduling algorithm of ITU-T I.371, known as GCRA. Beyond `KEYS_MAX` keys the one that was seen
    least recently is forgotten.

    >>> limiter = RateLimiter(now_s=lambda: 0.0)
    >>> [limiter.take("alice", per_minute=2) for _ in range(3)]
    [0.0, 0.0, 30.0]
    """

    def __init__(
        self, *, keys_max: int = KEYS_MAX, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys_max, self._now_s = keys_max, now_s
        self._empty_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """Return of how many keys something is known."""
        return len(self._empty_at)

    def wait_s(self, key: str, *, per_minute: float, burst: float = 0) -> float:
        """Return how long a key has to wait until it may do it once more; 0 = not at all.

        Args:
            key: Whose turn it is.
            per_minute: How often, above 0.
            burst: How many at once; 0 = as many as in a minute.
        """
        interval_s = _MINUTE_S / per_minute
        now_s = self._now_s()
        begins_s = max(self._empty_at.get(key, now_s), now_s)
        wait_s = begins_s + interval_s - now_s - (burst or per_minute) * interval_s
        return wait_s if wait_s > _TOLERANCE_S else 0.0

    def take(self, key: str, *, per_minute: float, burst: float = 0) -> float:
        """Count one where it may be done now; return how long to wait where it may not."""
        wait_s = self.wait_s(key, per_minute=per_minute, burst=burst)
        if wait_s > 0:
            return wait_s
        now_s = self._now_s()
        begins_s = max(self._empty_at.get(key, now_s), now_s)
        self._empty_at[key] = begins_s + _MINUTE_S / per_minute
        self._empty_at.move_to_end(key)
        if len(self._empty_at) > self._keys_max:
            self._empty_at.popitem(last=False)
        return 0.0
