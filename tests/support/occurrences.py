"""Jobs by their times alone, and what becomes of their occurrences when they are worked off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from everturn_gateway.scheduler import rules
from everturn_gateway.scheduler.jobs import Cron, Job, Run, SendMessage, Standing, When

ARMED = datetime(2026, 1, 1, tzinfo=UTC)


def utc(text: str) -> datetime:
    """Read an instant, `2026-03-29T01:00`, as UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def a_job(when: When, **how: Any) -> Job:  # noqa: ANN401 - fields
    """Make a job that has nothing but times."""
    job = Job(job_id="job", agent="assistant", when=when, payload=SendMessage(text="Hello"))
    return replace(job, **how)


def a_cron(expression: str, zone: str = "UTC", **how: Any) -> Job:  # noqa: ANN401 - fields
    """Make a job by a cron expression."""
    return a_job(Cron(expression=expression, timezone=zone), **how)


def armed(since: datetime = ARMED, **how: Any) -> Standing:  # noqa: ANN401 - fields
    """Return the standing of a job that was armed, and of which nothing is settled since."""
    return replace(Standing(schedule="as it is", anchor=since, cursor=since), **how)


def coming(
    job: Job, after: datetime, until: datetime, anchor: datetime = ARMED
) -> Iterator[datetime]:
    """Yield the instants in `(after, until]`, each found from the one before it."""
    instant = rules.next_instant(job, after=after, anchor=anchor)
    while instant is not None and instant <= until:
        yield instant
        instant = rules.next_instant(job, after=instant, anchor=anchor)


def done(instant: datetime, **how: Any) -> Run:  # noqa: ANN401 - fields
    """Return an occurrence that ran."""
    return replace(Run(instant=instant, started_at=instant, outcome="sent"), **how)


def settle(standing: Standing, planned: rules.Plan) -> Standing:
    """Return how far a job is when a plan was carried out."""
    settled = list(planned.run)
    if planned.missed is not None:
        settled.append(planned.missed.last)
    assert standing.cursor is not None
    return replace(
        standing,
        cursor=max([standing.cursor, *settled]),
        ran=standing.ran + len(planned.run),
        recent=(*standing.recent, *(done(instant) for instant in planned.run))[-50:],
    )
