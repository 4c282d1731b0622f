"""Which of the jobs that are defined can run, and why others cannot. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.jobs import At, Job, JobState, ToChat
from everturn_gateway.scheduler.rules import rules

ALWAYS_THERE: Final = frozenset(("http", "terminal"))
"Channels that are there without being set up: what is said there waits to be read."


def by_id(jobs: Iterable[Job]) -> tuple[dict[str, Job], tuple[Fault, ...]]:
    """Return the jobs by their ids; of two with one id the first, and a fault for the other."""
    found: dict[str, Job] = {}
    faults: list[Fault] = []
    for job in jobs:
        first = found.setdefault(job.job_id, job)
        if first is not job:
            message = f"{job.job_id} is also the id of the job in {first.file}"
            faults.append(Fault(file=job.file, line=job.line, message=message))
    return found, tuple(faults)


def stranded(job: Job, agents: Collection[str], channels: Collection[str]) -> tuple[str, str]:
    """Return the field that names what is missing, and what that is; empty where nothing is.

    Args:
        job: The job.
        agents: The names of all agents.
        channels: The names of all channels, those of `ALWAYS_THERE` included.
    """
    if job.agent not in agents:
        known = ", ".join(sorted(agents)) or "none"
        return "agent", f"there is no agent {job.agent!r}; there are: {known}"
    if isinstance(job.to, ToChat) and job.to.channel not in channels:
        known = ", ".join(sorted(channels))
        return "to.channel", f"there is no channel {job.to.channel!r}; there are: {known}"
    return "", ""


def is_armed(job: Job, job_state: JobState) -> bool:
    """Return whether what is known of a job is about the times that it has now."""
    return job_state.schedule == rules.schedule_name(job) and not job_state.cancelled


def counts_from(job: Job, now: datetime) -> datetime:
    """Return from when on a job that is armed now has runs."""
    return min(now, job.written_at or now) if job.is_once else now


def why_never(job: Job, job_state: JobState, now: datetime) -> str:
    """Return why a job that is new, or has new times, will never run; empty where it will."""
    if is_armed(job, job_state):
        return ""
    if rules.next_scheduled_time(job, after=counts_from(job, now), anchor=now) is not None:
        return ""
    if not isinstance(job.when, At):
        return "none of its times is to come: see its start, its end and its quiet hours"
    scheduled_at = job.when.scheduled_at
    if any(run.scheduled_at == scheduled_at for run in (*job_state.recent, *job_state.open)):
        return ""  # it ran
    return f"its time, {scheduled_at:%Y-%m-%d %H:%M:%S} UTC, was past when it was defined"


def waiting(job: Job, why: str) -> Fault:
    """Return the fault of a job that cannot run."""
    return Fault(file=job.file, line=job.line, message=f"{job.job_id}: {why}")
