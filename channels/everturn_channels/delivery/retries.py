"""When what could not be delivered is tried again: which delivery waits, how long, what ends it.

The times are kept in memory. A restart begins with the first pause again; what is pending, since
when and how often it may have arrived stands in the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Struct

from everturn_actors.ports import Clock
from everturn_channels.delivery.rate_limiter import RateLimiter

HEARD_MIN_S: Final = 1.0  # since a failure, before a word of the platform makes it worth a try
PERSON_S: Final = 3600.0  # between two tries of what waits for a person
OVERTAKE_S: Final = 300.0  # what is pending for so long no longer holds up what was said later
LAST_TRIES: Final = 8
"""So many failures of this run come before something is given up for its age.

A gateway that was down for days, or whose clock was set, has not tried for days.
"""


class _Retry(Struct, kw_only=True):
    """One delivery that failed, at its last failure."""

    failures: int = 0
    "In a row."
    failed_at: datetime
    backoff_s: float = 0.0
    times_heard: int
    "`RateLimiter.times_heard` then."
    times_answered: int
    "`RateLimiter.times_answered` then."
    logins: int
    listens: bool = True
    """Whether any word of the platform ends the pause.

    So it is until the platform was heard from and the next try failed all the same.
    """
    is_stuck: bool = False
    """Whether it failed although the platform had just answered others.

    Then it is this delivery that fails, and not the platform: nothing else ends its pause.
    """


class Retries:
    """The deliveries of one session that failed, by the event that owes them."""

    def __init__(self, limiter: RateLimiter, clock: Clock) -> None:
        """Begin with none.

        Args:
            limiter: Knows when the platform was heard from.
            clock: The time.
        """
        self._limiter, self._clock = limiter, clock
        self._retries: dict[int, _Retry] = {}

    def failed(
        self, seq: int, *, in_doubt: bool, is_asked: bool, waits_for_person: bool = False
    ) -> None:
        """Note a failure.

        Args:
            seq: The event that owes it.
            in_doubt: Whether it may have arrived all the same.
            is_asked: Whether the platform said how long to wait, which `RateLimiter` knows.
            waits_for_person: See `NotSentError`; what is heard of others ends no pause then.
        """
        limiter, now = self._limiter, self._clock.now()
        before = self._retries.get(seq)
        failures = before.failures + 1 if before else 1
        backoff_s = limiter.backoff_s(failures, in_doubt=in_doubt)
        if waits_for_person:
            backoff_s = PERSON_S
        is_answered = before is not None and before.times_answered != limiter.times_answered
        is_first = before is None or before.times_heard == limiter.times_heard
        self._retries[seq] = _Retry(
            failures=failures,
            failed_at=now,
            backoff_s=0.0 if is_asked else backoff_s,
            times_heard=limiter.times_heard,
            times_answered=limiter.times_answered,
            logins=limiter.logins,
            listens=is_first and not waits_for_person,
            is_stuck=is_answered or waits_for_person,
        )

    def forget(self, seq: int) -> None:
        """Note that something was delivered, or is no longer pending."""
        self._retries.pop(seq, None)

    def failures(self, seq: int) -> int:
        """Return how often it failed in a row."""
        found = self._retries.get(seq)
        return found.failures if found else 0

    def is_due(self, seq: int) -> bool:
        """Whether it is to be tried now."""
        return self._left_s(seq) <= 0

    def may_be_overtaken(self, seq: int, pending_since: datetime | None) -> bool:
        """Whether what was said later may go first, while this waits.

        Order is worth some minutes. And while nothing gets through everything waits: only what
        fails while the platform answers others is worth passing by.
        """
        found = self._retries.get(seq)
        if found is None or not found.is_stuck or pending_since is None:
            return False
        return (self._clock.now() - pending_since).total_seconds() >= OVERTAKE_S

    def is_hopeless(self, seq: int, pending_since: datetime | None, give_up_after_s: float) -> bool:
        """Whether it was pending for so long, and tried so often, that it is given up."""
        if pending_since is None or self.failures(seq) < LAST_TRIES:
            return False
        return (self._clock.now() - pending_since).total_seconds() >= give_up_after_s

    def is_waiting(self, seqs: Iterable[int]) -> bool:
        """Whether one of them waits for its next try."""
        return any(not self.is_due(seq) for seq in seqs)

    async def wait(self, seqs: Iterable[int]) -> None:
        """Wait until the first of them may be due."""
        waiting = [seq for seq in seqs if not self.is_due(seq)]
        if waiting:
            left_s = max(min(map(self._left_s, waiting)), 0.0)  # the clock went on meanwhile
            await self._limiter.wait(left_s, or_heard=any(map(self._hears, waiting)))

    def _left_s(self, seq: int) -> float:
        found = self._retries.get(seq)
        if found is None or found.logins != self._limiter.logins:
            return 0.0
        backoff_s = found.backoff_s
        if self._was_called(found):
            backoff_s = min(backoff_s, HEARD_MIN_S)
        now = self._clock.now()
        found.failed_at = min(found.failed_at, now)  # the clock may have been set back
        return backoff_s - (now - found.failed_at).total_seconds()

    def _was_called(self, retry: _Retry) -> bool:
        """Whether the platform was heard from since the failure, so that it is worth a try."""
        if retry.listens and retry.times_heard != self._limiter.times_heard:
            return True
        return not retry.is_stuck and retry.times_answered != self._limiter.times_answered

    def _hears(self, seq: int) -> bool:
        """Whether the pause can still be ended by a word of the platform."""
        retry = self._retries[seq]
        return (retry.listens or not retry.is_stuck) and not self._was_called(retry)
