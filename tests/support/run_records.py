"""Records of run logs, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from everturn_gateway.scheduler.jobs import JobState, RunOutcome
from everturn_gateway.scheduler.rules.records import (
    Accepted,
    Armed,
    Began,
    Finished,
    Line,
    Record,
    fold,
)

DAWN = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


def hour(number: float) -> datetime:
    """Return an instant, so many hours after `DAWN`."""
    return DAWN + timedelta(hours=number)


def armed(schedule: str = "every 3600") -> Armed:
    """Return what stands at the beginning of a log."""
    return Armed(at=DAWN, schedule=schedule, since=DAWN)


def done(number: int, *, outcome: RunOutcome = "answered", error: str = "") -> tuple[Record, ...]:
    """Return all that is written down of a run that runs once."""
    due = hour(number)
    return (
        Began(at=due, scheduled_at=due),
        Accepted(at=due, scheduled_at=due, session_id=f"s{number}", seq=number),
        Finished(
            at=hour(number + 0.5), scheduled_at=due, outcome=outcome, turn=number, error=error
        ),
    )


def a_life(runs: int) -> tuple[Record, ...]:
    """Return the records of a job that was armed and ran so often."""
    return (armed(), *(record for number in range(1, runs + 1) for record in done(number)))


def standing_after(lines: Iterable[Line]) -> JobState:
    """Fold lines one by one."""
    job_state = JobState()
    for line in lines:
        job_state = fold(job_state, line)
    return job_state
