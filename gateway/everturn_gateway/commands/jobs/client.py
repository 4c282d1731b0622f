"""How `everturn schedule` gets to the jobs: through the running gateway, or by opening one.

Both ways give the bodies of the HTTP API, so that a command prints the same either way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from typing import Protocol

from everturn_gateway.client.schedules import open_http_schedules
from everturn_gateway.commands.clients import reach
from everturn_gateway.commands.shared.running import Running
from everturn_gateway.commands.shared.settings import admin_token, api_token
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.private_environ import process_environ, seal_process
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.scheduler.jobs import Made
from everturn_gateway.scheduler.schemas import (
    ComingList,
    JobBody,
    JobDetail,
    JobFaultBody,
    JobList,
    Places,
    RunBody,
)
from everturn_gateway.scheduler.settings import JobSection


class JobClient(Protocol):
    """The scheduled jobs, for commands. What is refused is a `GatewayError` or a `CoreError`."""

    async def agents(self) -> tuple[str, ...]:
        """Return the names of the agents."""
        ...

    async def all(self) -> JobList:
        """Return all jobs, by id, and what is wrong with definitions."""
        ...

    async def job(self, job_id: str) -> JobDetail:
        """Return one job and its newest runs."""
        ...

    async def coming(self, job_id: str, *, count: int) -> ComingList:
        """Return when a job is due next."""
        ...

    async def add(self, fields: Mapping[str, object]) -> JobBody:
        """Make a job of what its file would say.

        Raises:
            JobRefusedError: It cannot be as it is described, by field.
        """
        ...

    async def cancel(self, job_id: str) -> None:
        """Call a job off."""
        ...

    async def pause(self, job_id: str) -> JobBody:
        """Let nothing of a job run until it is resumed."""
        ...

    async def resume(self, job_id: str) -> JobBody:
        """Let a paused job go on."""
        ...

    async def run(self, job_id: str) -> RunBody:
        """Run a job once, now; return when that is durable."""
        ...

    async def wait(self, job_id: str, run: RunBody) -> RunBody:
        """Return how a run came out, when it has. The caller sets the deadline."""
        ...


@asynccontextmanager
async def open_job_client(config: Config, *, resume: bool = False) -> AsyncGenerator[JobClient]:
    """Open the way to the scheduled jobs of the workspace.

    Args:
        config: Names the workspace.
        resume: Where no gateway runs: let what was open go on, and jobs run. Without it this is a
            short look.

    Raises:
        WorkspaceLockedError: Another process has the workspace, and serves nobody.
    """

    def over_http(running: Running) -> AbstractAsyncContextManager[JobClient]:
        return open_http_schedules(
            running.url, token=api_token(config), admin_token=admin_token(config)
        )

    async with reach(config, over_http, partial(_open_here, config, resume=resume)) as jobs:
        yield jobs


@asynccontextmanager
async def _open_here(
    config: Config, secrets: SecretRegistry, *, resume: bool
) -> AsyncGenerator[JobClient]:
    # The whole gateway is loaded only where there is none to talk to.
    from everturn_gateway.app import open_gateway  # noqa: PLC0415 - as said

    seal_process()
    async with open_gateway(
        config, environ=process_environ(), watch=False, resume=resume, secrets=secrets
    ) as gateway:
        places = Places(workspace=config.workspace, agents_dir=config.agents_dir)
        yield LocalJobClient(gateway.schedules, gateway.library.names, places)


class LocalJobClient:
    """The scheduled jobs of a gateway in this process."""

    def __init__(
        self, jobs: SchedulerClient, agents: Callable[[], tuple[str, ...]], places: Places
    ) -> None:
        self._desk = jobs
        self._agents = agents
        self._places = places

    async def agents(self) -> tuple[str, ...]:
        """Return the names of the agents."""
        return self._agents()

    async def all(self) -> JobList:
        """Return all jobs, by id, and what is wrong with definitions."""
        return JobList(
            schedules=tuple(JobBody.of(view, self._places) for view in self._desk.jobs()),
            next=None,
            faults=tuple(JobFaultBody.of(fault, self._places) for fault in self._desk.faults()),
        )

    async def job(self, job_id: str) -> JobDetail:
        """Return one job and its newest runs."""
        return JobDetail.whole(self._desk.job(job_id), self._places)

    async def coming(self, job_id: str, *, count: int) -> ComingList:
        """Return when a job is due next."""
        job = self._desk.job(job_id).job
        return ComingList.of(job, self._desk.coming(job_id, count=count))

    async def add(self, fields: Mapping[str, object]) -> JobBody:
        """Make a job of what its file would say; see `JobClient`."""
        section = JobSection.model_validate(fields)
        with _written():
            return JobBody.of(await self._desk.add(section, made=Made(by="cli")), self._places)

    async def cancel(self, job_id: str) -> None:
        """Call a job off."""
        with _written():
            await self._desk.cancel(job_id)

    async def pause(self, job_id: str) -> JobBody:
        """Let nothing of a job run until it is resumed."""
        with _written():
            await self._desk.pause(job_id)
        return await self._body(job_id)

    async def resume(self, job_id: str) -> JobBody:
        """Let a paused job go on."""
        with _written():
            await self._desk.resume(job_id)
        return await self._body(job_id)

    async def run(self, job_id: str) -> RunBody:
        """Run a job once, now; return when that is durable."""
        with _written():
            return RunBody.of(await self._desk.run_now(job_id))

    async def wait(self, job_id: str, run: RunBody) -> RunBody:
        """Return how a run came out, when it has. The caller sets the deadline."""
        return RunBody.of(await self._desk.wait(job_id, datetime.fromisoformat(run.scheduled_at)))

    async def _body(self, job_id: str) -> JobBody:
        return JobBody.of(self._desk.job(job_id), self._places)


@contextmanager
def _written() -> Generator[None]:
    """Say in a line that the disk did not take something.

    Raises:
        GatewayError: It did not.
    """
    try:
        yield
    except GatewayError:
        raise
    except OSError as error:
        msg = f"it could not be written to disk: {error}"
        raise GatewayError(msg) from error
