"""Jobs by their times alone, and what becomes of their runs when they are worked off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from everturn_gateway.scheduler.jobs import Cron, Job, JobState, Run, SendMessage, When
from everturn_gateway.scheduler.rules import rules

ARMED = datetime(2026, 1, 1, tzinfo=UTC)


def utc(text: str) -> datetime:
    """Read an instant, `2026-03-29T01:00`, as UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def a_job(when: When, **how: Any) -> Job:
    """Make a job that has nothing but times."""
    job = Job(job_id="job", agent="assistant", when=when, payload=SendMessage(text="Hello"))
    return replace(job, **how)


def a_cron(expression: str, zone: str = "UTC", **how: Any) -> Job:
    """Make a job by a cron expression."""
    return a_job(Cron(expression=expression, timezone=zone), **how)


def armed(since: datetime = ARMED, **how: Any) -> JobState:
    """Return the standing of a job that was armed, and of which nothing is settled since."""
    return structs.replace(JobState(schedule="as it is", anchor=since, cursor=since), **how)


def coming(
    job: Job, after: datetime, until: datetime, anchor: datetime = ARMED
) -> Iterator[datetime]:
    """Yield the instants in `(after, until]`, each found from the one before it."""
    scheduled_at = rules.next_scheduled_time(job, after=after, anchor=anchor)
    while scheduled_at is not None and scheduled_at <= until:
        yield scheduled_at
        scheduled_at = rules.next_scheduled_time(job, after=scheduled_at, anchor=anchor)


def done(scheduled_at: datetime, **how: Any) -> Run:
    """Return a run that ran."""
    return structs.replace(
        Run(scheduled_at=scheduled_at, started_at=scheduled_at, outcome="sent"), **how
    )


def settle(job_state: JobState, planned: rules.Plan) -> JobState:
    """Return how far a job is when a plan was carried out."""
    settled = list(planned.run)
    if planned.misfired is not None:
        settled.append(planned.misfired.last)
    assert job_state.cursor is not None
    return structs.replace(
        job_state,
        cursor=max([job_state.cursor, *settled]),
        ran=job_state.ran + len(planned.run),
        recent=(*job_state.recent, *(done(scheduled_at) for scheduled_at in planned.run))[-50:],
    )
