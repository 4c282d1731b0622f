"""What `everturn doctor` finds wrong with scheduled jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio

from everturn_gateway.client.schedules import open_http_schedules
from everturn_gateway.commands.running import Running
from everturn_gateway.commands.settings import api_token
from everturn_gateway.config import Config
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.bodies import JobFaultBody, Places
from everturn_gateway.scheduler.book import JobBook
from everturn_gateway.scheduler.jobs import Job, ToChat
from everturn_gateway.scheduler.roster import ALWAYS_THERE
from everturn_gateway.scheduler.rules import is_over
from everturn_gateway.scheduler.runlog import RunLogs
from everturn_gateway.scheduler.scheduler import FOLDER, RUNS_FOLDER
from everturn_gateway.specs import AgentFile


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHealth:
    """How the jobs of a workspace fare."""

    jobs: int
    faults: tuple[JobFaultBody, ...]


async def ask_jobs(config: Config, running: Running) -> JobHealth:
    """Ask the gateway that runs.

    Raises:
        CoreError, DoorError: It refuses, or cannot be reached.
    """
    admin_token = config.server.admin_token
    async with open_http_schedules(
        running.url, token=api_token(config), admin_token=admin_token
    ) as desk:
        found = await desk.all()
    return JobHealth(jobs=len(found.schedules), faults=found.faults)


async def read_jobs(config: Config, agents: Sequence[AgentFile], now: datetime) -> JobHealth:
    """Look at the files, where no gateway runs; changes nothing.

    Raises:
        OSError: They cannot be read.
    """
    folder = config.workspace / FOLDER
    page = await JobBook(folder, timezone=config.schedules.timezone).read()
    logs = RunLogs(folder / RUNS_FOLDER)
    if await anyio.Path(folder / RUNS_FOLDER).is_dir():
        await logs.load()
    jobs = (*page.jobs, *(job for agent in agents for job in agent.jobs))
    to_come = [job for job in jobs if not is_over(job, logs.standing(job.job_id), now)]
    names = [agent.spec.name for agent in agents]
    channels = {*ALWAYS_THERE, *(channel.name for channel in config.channels)}
    places = Places(workspace=config.workspace, agents_dir=config.agents_dir)
    faults = (
        *page.faults,
        *_twice(jobs),
        *logs.faults(),
        *_stranded(to_come, names, channels),
    )
    return JobHealth(
        jobs=len(jobs), faults=tuple(JobFaultBody.of(fault, places) for fault in faults)
    )


def _twice(jobs: Iterable[Job]) -> Iterator[Fault]:
    """Yield a fault for each job whose id another one has."""
    first: dict[str, Job] = {}
    for job in jobs:
        if first.setdefault(job.job_id, job) is not job:
            other = first[job.job_id].file
            message = f"{job.job_id} is also the id of the job in {other}"
            yield Fault(file=job.file, line=job.line, message=message)


def _stranded(
    jobs: Iterable[Job], agents: Sequence[str], channels: Iterable[str]
) -> Iterator[Fault]:
    """Yield a fault for each job that could not run."""
    known = sorted(channels)
    for job in jobs:
        why = ""
        if job.agent not in agents:
            why = f"there is no agent {job.agent!r}; there are: {', '.join(agents) or 'none'}"
        elif isinstance(job.to, ToChat) and job.to.channel not in known:
            why = f"there is no channel {job.to.channel!r}; there are: {', '.join(known)}"
        if why:
            yield Fault(file=job.file, line=job.line, message=f"{job.job_id}: {why}")
