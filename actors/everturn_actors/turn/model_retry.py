"""When a model that gave no reply is called again: at once a few times, then ever later. Pure.

The first tries follow each other within seconds and are forgotten with the process. An outage that
lasts longer is an event for each further try, so that a restart goes on with the same waits and
the same end.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import Final

from everturn_actors.errors import CallTimeoutError, ModelError
from everturn_actors.events import ModelCallFailed
from everturn_actors.model import OpenTurn, Outage

QUICK_TRIES: Final = 4  # one, and three more after transient failures
FIRST_DELAY_S: Final = 0.5  # between them; doubled with every try
QUICK_MAX_S: Final = 5.0  # a longer wait between them is one that people are told of
UNTOLD_MAX_S: Final = 60.0  # or, where nothing is tried again durably, ends the turn
OUTAGE_FIRST_S: Final = 4.0  # after the quick tries; doubled with every try
OUTAGE_MAX_S: Final = 60.0  # a wait for as long as the provider did not ask for more
ERROR_CHARACTERS: Final = 1_000  # of a failure that is kept

_MINUTE_S: Final = 60
_DOUBLINGS_MAX: Final = 16  # far beyond the longest wait


def quick_delay_s(
    outage: Outage | None, error: ModelError, tries: int, retry_for_s: float, jitter: float
) -> float | None:
    """Return how long to wait before the call is made again at once; None = it is not.

    Args:
        outage: The one that the turn is in; every try in it is one of its own.
        error: What the newest try failed with, and may pass.
        tries: How many there were since the last event.
        retry_for_s: For how long calls are made again in an outage.
        jitter: From 0 to 1.
    """
    if outage is not None or tries >= QUICK_TRIES or isinstance(error, CallTimeoutError):
        return None
    delay_s = _spread(_backoff_s(FIRST_DELAY_S, tries), error.retry_after_s, jitter)
    return delay_s if delay_s <= (QUICK_MAX_S if retry_for_s else UNTOLD_MAX_S) else None


def failed_call(
    turn: OpenTurn, error: ModelError, retry_for_s: float, now: datetime, jitter: float
) -> ModelCallFailed:
    """Return the event of a failure that may pass: when the call is made again.

    An outage keeps the end that it began with. The last try is made at that end; where the process
    was away then, right after it came back.

    Args:
        turn: The turn, in its outage if it is in one already.
        error: What the newest try failed with.
        retry_for_s: For how long calls are made again, from the first failure on; 0 = not at all.
        now: UTC.
        jitter: From 0 to 1.

    Raises:
        ModelError: It is given up; of the same kind as `error`, and says how long it was tried.
    """
    outage = turn.outage
    if outage is None and not retry_for_s:
        raise error
    attempt = outage.attempts + 1 if outage else 1
    since = outage.since if outage else now
    left_s = (outage.give_up_at - now).total_seconds() if outage else retry_for_s
    asked_s = error.retry_after_s or 0.0
    if left_s <= 0 or asked_s > left_s:
        raise _given_up(error, (now - since).total_seconds(), left_s)
    delay_s = min(_spread(_backoff_s(OUTAGE_FIRST_S, attempt), None, jitter), OUTAGE_MAX_S)
    if asked_s > delay_s:
        delay_s = _spread(0.0, asked_s, jitter)
    return ModelCallFailed(
        turn=turn.number,
        step=len(turn.steps) + 1,
        attempt=attempt,
        error=str(error)[:ERROR_CHARACTERS],
        retry_in_ms=ceil(min(delay_s, left_s) * 1000),
        give_up_in_ms=ceil(left_s * 1000),
        tells=not turn.notified_of_outage,
    )


def wait_s(outage: Outage, now: datetime) -> float:
    """Return how long to wait before the next try; never longer than was meant, whatever the clock.

    A clock that was set back would otherwise hold the turn for as long.
    """
    meant = outage.retry_at - outage.failed_at
    return min(max(outage.retry_at - now, timedelta()), meant).total_seconds()


def _backoff_s(first_s: float, tries: int) -> float:
    return first_s * 2.0 ** min(tries - 1, _DOUBLINGS_MAX)


def _spread(base_s: float, asked_s: float | None, jitter: float) -> float:
    """Return a wait, up to a quarter longer, so that not all who failed together come back so."""
    return (base_s if asked_s is None else asked_s) * (1 + jitter / 4)


def _given_up(error: ModelError, tried_s: float, left_s: float) -> ModelError:
    tried = f"no reply in {_told(tried_s)} of trying; the last reason: " if tried_s >= 1 else ""
    asks = error.retry_after_s
    later = (
        f"; it asks to wait {_told(asks)}, which is longer than it is tried"
        if asks and asks > left_s > 0
        else ""
    )
    return error.with_text(f"{tried}{error}{later}")


def _told(duration_s: float) -> str:
    """Return a duration as people say it: `40 seconds`, `15 minutes`."""
    seconds = round(duration_s)
    if seconds < 2 * _MINUTE_S:
        return "1 second" if seconds == 1 else f"{seconds} seconds"
    return f"{round(seconds / _MINUTE_S)} minutes"
