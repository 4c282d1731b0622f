"""What is wrong with scheduled jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from everturn_actors.errors import CoreError
from everturn_channels.errors import ClientError
from everturn_gateway.clock import SystemClock
from everturn_gateway.doctor.findings import Finding
from everturn_gateway.doctor.subject import JobHealth, Subject
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.definitions.job_store import JobStore
from everturn_gateway.scheduler.places import Places
from everturn_gateway.scheduler.rules.job_state import (
    ALWAYS_THERE,
    by_id,
    stranded,
    waiting,
    why_never,
)
from everturn_gateway.scheduler.rules.rules import is_over
from everturn_gateway.scheduler.run_logs.files import RunLogs
from everturn_gateway.scheduler.scheduler import FOLDER
from everturn_gateway.scheduler.schemas import JobFaultBody
from everturn_gateway.specs import AgentFile


async def schedule_findings(
    subject: Subject, agents: Sequence[AgentFile]
) -> AsyncGenerator[Finding]:
    """Say which definitions are set aside, and which jobs cannot run."""
    try:
        if subject.running is not None:
            health = await subject.running.jobs()
        else:
            health = await _read_jobs(subject, agents, SystemClock().now())
    except (CoreError, ClientError, OSError) as error:
        yield Finding(verdict="problem", subject="schedules", text=str(error))
        return
    for fault in health.faults:
        yield Finding(verdict="problem", subject="schedules", text=_text(fault))
    if health.jobs and not health.faults:
        jobs = "one job" if health.jobs == 1 else f"{health.jobs:,} jobs"
        yield Finding(verdict="ok", subject="schedules", text=f"{jobs}, in order")


async def _read_jobs(subject: Subject, agents: Sequence[AgentFile], now: datetime) -> JobHealth:
    """Look at the files, where no gateway runs; changes nothing.

    Raises:
        OSError: They cannot be read.
    """
    config = subject.config
    folder = config.workspace / FOLDER
    page = await JobStore(folder, timezone=config.schedules.timezone).read()
    async with subject.keyed() as keyed:
        logs = RunLogs(keyed)
        await logs.load()
    jobs = (*page.jobs, *(job for agent in agents for job in agent.jobs))
    found, twins = by_id(jobs)
    names = {agent.spec.name for agent in agents}
    channels = {*ALWAYS_THERE, *(channel.name for channel in config.channels)}
    places = Places(workspace=config.workspace, agents_dir=config.agents_dir)

    def stuck() -> Iterator[Fault]:
        for job in found.values():
            job_state = logs.job_state(job.job_id)
            is_done = job_state.schedule and is_over(job, job_state, now)
            why = stranded(job, names, channels)[1] or why_never(job, job_state, now)
            if why and not is_done and not logs.damage(job.job_id):
                yield waiting(job, why)

    faults = (*page.faults, *twins, *logs.faults(), *stuck())
    return JobHealth(
        jobs=len(jobs), faults=tuple(JobFaultBody.of(fault, places) for fault in faults)
    )


def _text(fault: JobFaultBody) -> str:
    return str(
        Fault(file=Path(fault.file), line=fault.line, field=fault.field, message=fault.message)
    )
