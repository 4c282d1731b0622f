"""Whether a new job may be: what could not run is refused, with the field and the reason."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from everturn_actors.errors import CoreError
from everturn_actors.service import TurnService
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.job_registry import JobRegistry
from everturn_gateway.scheduler.jobs import At, Job
from everturn_gateway.scheduler.rules import rules


def check_new(registry: JobRegistry, job: Job, *, now: datetime, max_jobs: int | None) -> None:
    """Refuse a job that could not run.

    Raises:
        JobRefusedError: With the reason.
    """
    if registry.find(job.job_id) is not None:
        raise JobRefusedError(faults=[field_fault("id", f"{job.job_id!r} is taken")])
    if (missing := registry.why_not(job))[1]:
        raise JobRefusedError(faults=[field_fault(*missing)])
    if isinstance(job.when, At) and job.when.scheduled_at <= now:
        message = f"is in the past: it is {now:%Y-%m-%d %H:%M:%S} UTC now"
        raise JobRefusedError(faults=[field_fault("at", message)])
    if rules.next_scheduled_time(job, after=now, anchor=now) is None:
        msg = "none of its times is to come: see its end, and its quiet hours"
        raise JobRefusedError(msg)
    alike = [
        entry
        for entry in registry.entries()
        if (entry.job.made.by, entry.job.agent) == (job.made.by, job.agent)
        and not registry.is_over(entry)
    ]
    if max_jobs is not None and len(alike) >= max_jobs:
        msg = f"{len(alike)} jobs of this agent are scheduled, which is its limit"
        raise JobRefusedError(msg)


async def check_session(service: TurnService, session_id: str) -> None:
    """Refuse a session in which nothing can be said.

    Raises:
        JobRefusedError: There is none of this id, or it has ended.
    """
    try:
        state = await service.view(session_id)
    except CoreError as error:
        raise JobRefusedError(faults=[field_fault("to.session", str(error))]) from error
    if state.status == "ended":
        message = f"session {session_id!r} has ended ({state.ended_reason})"
        raise JobRefusedError(faults=[field_fault("to.session", message)])


async def check_armed(registry: JobRegistry, job_id: str) -> None:
    """Take a new job back that would not run.

    Raises:
        OSError: It could not be armed.
    """
    entry = registry.find(job_id)
    if entry is not None and entry.error is not None:
        error = entry.error
        await registry.store.put_away(entry.job.file)
        await registry.read()
        raise error


def field_fault(field: str, message: str) -> Fault:
    """Return what is wrong with one field of a job that stands in no file."""
    return Fault(file=Path(), field=field, message=message)
