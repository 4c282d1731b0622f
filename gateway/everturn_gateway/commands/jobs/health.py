"""What `everturn doctor` finds wrong with scheduled jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from everturn_gateway.app import open_keyed
from everturn_gateway.client import open_api
from everturn_gateway.client.schedules import ScheduleClient
from everturn_gateway.commands.shared.running import Running
from everturn_gateway.commands.shared.settings import api_token
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.job_store import JobStore
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


class JobHealth(Struct, frozen=True, kw_only=True):
    """How the jobs of a workspace fare."""

    jobs: int
    faults: tuple[JobFaultBody, ...]


async def ask_jobs(config: Config, running: Running) -> JobHealth:
    """Ask the gateway that runs.

    Raises:
        CoreError, ClientError: It refuses, or cannot be reached.
    """
    async with open_api(running.url, token=api_token(config)) as api:
        found = await ScheduleClient(api).all()
    return JobHealth(jobs=len(found.schedules), faults=found.faults)


async def read_jobs(config: Config, agents: Sequence[AgentFile], now: datetime) -> JobHealth:
    """Look at the files, where no gateway runs; changes nothing.

    Raises:
        OSError: They cannot be read.
    """
    folder = config.workspace / FOLDER
    page = await JobStore(folder, timezone=config.schedules.timezone).read()
    async with open_keyed(config, is_change=False) as keyed:
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
