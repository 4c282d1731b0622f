"""The scheduler: when each job is due, and that every run runs once.

What a job is stands in its definition, how far it is in its run log; memory holds both and
nothing else. A run is written down before it is begun, and everything that it does is
named by it, so that a kill at any moment is answered by doing the open step again.
"""

from __future__ import annotations

import logging
import secrets as random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.ports import Clock, KeyedStore
from everturn_actors.state.serialization import utc_text
from everturn_actors.supervisor import Supervisor
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.admission import check_armed, check_new, check_session, field_fault
from everturn_gateway.scheduler.definition_reload import DefinitionReload
from everturn_gateway.scheduler.definitions.job_store import JobStore
from everturn_gateway.scheduler.definitions.kept_jobs import KeptJobs
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.dispatcher import DISK_RETRY_S, Dispatcher
from everturn_gateway.scheduler.errors import (
    JobFixedError,
    JobRefusedError,
    UnknownJobError,
)
from everturn_gateway.scheduler.housekeeping import delete_sessions, tidy
from everturn_gateway.scheduler.job_changes import JobChanges
from everturn_gateway.scheduler.job_registry import JobNeeds, JobRegistry
from everturn_gateway.scheduler.job_runner import JobRunner, Poster
from everturn_gateway.scheduler.jobs import (
    WRITTEN,
    Job,
    JobState,
    JobView,
    Made,
    Run,
    ToSession,
)
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.job_state import counts_from
from everturn_gateway.scheduler.rules.records import Paused, Resumed
from everturn_gateway.scheduler.run_logs.files import RunLogs

logger = logging.getLogger(__name__)


FOLDER: Final = "schedules"
_FIXED: Final = frozenset(("agent", "heartbeat"))
_ID_BYTES: Final = 4


class JobStorage(Struct, frozen=True, kw_only=True):
    """Where jobs and what became of them are kept."""

    folder: Path
    "Of the job files: `schedules` in the gateway's workspace."
    keyed: KeyedStore
    "Where their run logs are."
    timezone: str = ""
    "Of jobs that name none; empty = they have to."
    is_shared: bool = False
    "Whether other machines open `keyed`: then jobs that programs make are kept there, too."

    def jobs(self) -> JobStore:
        """Return the definitions."""
        if self.is_shared:
            return KeptJobs(self.folder, self.keyed, timezone=self.timezone)
        return JobStore(self.folder, timezone=self.timezone)

    def logs(self) -> RunLogs:
        """Return what became of their runs."""
        return RunLogs(self.keyed)


class SchedulerParts(Struct, frozen=True, kw_only=True):
    """What a scheduler stands on."""

    storage: JobStorage
    runner: JobRunner
    needs: JobNeeds
    clock: Clock
    supervisor: Supervisor
    "Runs what watches the definitions."


class Scheduler:
    """Implements `SchedulerClient`. Made by `open_scheduler`."""

    def __init__(self, parts: SchedulerParts, tasks: TaskGroup) -> None:
        """Only `open_scheduler` makes one."""
        self._storage, self._runner = parts.storage, parts.runner
        self._service, self._needs = parts.runner.service, parts.needs
        self._clock, self._supervisor = parts.clock, parts.supervisor
        self._adding = anyio.Lock()
        self._loading = anyio.Lock()
        self._is_running = parts.needs.is_running
        self.changes = JobChanges()
        "Which jobs changed, for whoever shows them."
        self._forget_all(tasks)

    def _forget_all(self, tasks: TaskGroup) -> None:
        """Know of no job; what is begun from now on runs in `tasks`."""

        def plan(job_id: str) -> None:
            self.dispatcher.plan(job_id)  # it is made below, of the registry that calls this

        self._is_loaded = False
        self._logs = self._storage.logs()
        self._registry = JobRegistry(
            store=self._storage.jobs(),
            logs=self._logs,
            needs=self._needs,
            clock=self._clock,
            changed=plan,
            let_go=partial(delete_sessions, self._service),
            changes=self.changes,
        )
        self.dispatcher = Dispatcher(
            registry=self._registry, runner=self._runner, clock=self._clock, tasks=tasks
        )
        self._definitions = DefinitionReload(
            registry=self._registry,
            agents=self._needs.agents,
            clock=self._clock,
            beside=self.dispatcher.begin,
        )

    # --- asking ---

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs; see `SchedulerClient`."""
        return self._registry.ids()

    def jobs(self) -> tuple[JobView, ...]:
        """Return all jobs, by id; see `SchedulerClient`."""
        return tuple(map(self.job, self._registry.ids()))

    def job(self, job_id: str) -> JobView:
        """Return one job; see `SchedulerClient`."""
        entry = self._registry.entry(job_id)
        return self._registry.view(entry, self.dispatcher.next_at(job_id))

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong; see `SchedulerClient`."""
        return self._registry.faults()

    def coming(self, job_id: str, *, count: int) -> tuple[datetime, ...]:
        """Return when a job is due next; see `SchedulerClient`."""
        job, job_state = self._registry.entry(job_id).job, self._registry.job_state(job_id)
        now = self._clock.now()
        most = count if job.max_runs is None else min(count, job.max_runs - job_state.ran)
        return _coming(job, job_state, after=max(job_state.cursor or now, now), most=most)

    async def preview(
        self, section: JobSettings, *, count: int
    ) -> tuple[Job, tuple[datetime, ...]]:
        """Return when a job would be due that is made now; see `SchedulerClient`."""

        def look() -> tuple[Job, tuple[datetime, ...]]:
            now = self._clock.now()
            dated = self._registry.store.dated(section, now=now)
            made = Made(by="http", at=now)
            job = self._registry.store.job_of(dated, job_id="preview", made=made)
            armed = JobState(schedule=rules.schedule_name(job), anchor=counts_from(job, now))
            most = min(count, job.max_runs or count)
            return job, _coming(job, armed, after=now, most=most)

        return await to_thread.run_sync(look)  # times may be centuries away

    async def wait(self, job_id: str, scheduled_at: datetime) -> Run:
        """Wait for the end of a run; see `SchedulerClient`."""
        while True:
            entry, job_state = self._registry.entry(job_id), self._registry.job_state(job_id)
            for run in reversed(job_state.recent):
                if run.scheduled_at == scheduled_at:
                    return run
            if all(run.scheduled_at != scheduled_at for run in job_state.open):
                name = f"{job_id} at {utc_text(scheduled_at)}"
                raise UnknownJobError(name, self._registry.ids())
            await entry.news.wait()

    async def until_news(self, job_id: str) -> None:
        """Wait until something about a job has changed. The caller sets the deadline.

        Raises:
            UnknownJobError: There is none of this id.
        """
        await self._registry.entry(job_id).news.wait()

    # --- changing ---

    async def add(
        self, section: JobSettings, *, job_id: str = "", made: Made, max_jobs: int | None = None
    ) -> JobView:
        """Make a job; see `SchedulerClient`."""
        await self.load()
        async with self._adding:
            made = made if made.at else replace(made, at=self._clock.now())
            job_id = job_id or section.id or f"job-{random.token_hex(_ID_BYTES)}"
            date = partial(self._registry.store.dated, section, now=self._clock.now())
            section = await to_thread.run_sync(date)  # it may read the file of a time zone
            read = partial(self._registry.store.job_of, section, job_id=job_id, made=made)
            job = await to_thread.run_sync(read)
            check_new(self._registry, job, now=self._clock.now(), max_jobs=max_jobs)
            if isinstance(job.to, ToSession):
                await check_session(self._service, job.to.session_id)
            try:
                await self._registry.store.write(job_id, section, made)
            except FileExistsError as error:
                raise JobRefusedError(faults=[field_fault("id", f"{job_id!r} is taken")]) from error
            await self._registry.read()
            await check_armed(self._registry, job_id)
        return self.job(job_id)

    async def cancel(self, job_id: str) -> None:
        """Call a job off; see `SchedulerClient`."""
        await self.load()
        await self._cancel(job_id)

    async def _cancel(self, job_id: str) -> None:
        job = self._registry.entry(job_id).job
        if job.made.by in _FIXED:
            msg = f"{job_id} is defined in {job.file}:{job.line}: take it out there, or pause it"
            raise JobFixedError(msg)
        await self._registry.store.put_away(job.file)
        await self._registry.read()

    async def pause(self, job_id: str) -> None:
        """Let nothing of a job run; see `SchedulerClient`."""
        await self.load()
        self._registry.entry(job_id)
        if not self._registry.job_state(job_id).paused:
            await self._registry.write(job_id, Paused(at=self._clock.now()))
        self.dispatcher.plan(job_id)

    async def resume(self, job_id: str) -> None:
        """Let a paused job go on; see `SchedulerClient`."""
        await self.load()
        job = self._registry.entry(job_id).job
        if job.paused:
            msg = f"{job_id} is paused in its definition, {job.file}:{job.line}"
            raise JobFixedError(msg)
        if self._registry.job_state(job_id).paused:
            await self._registry.write(job_id, Resumed(at=self._clock.now()))
        self.dispatcher.plan(job_id)

    async def run_now(self, job_id: str) -> Run:
        """Run a job once, now; see `SchedulerClient`."""
        await self.load()
        entry = self._registry.entry(job_id)
        if entry.why:
            msg = f"{job_id} cannot run: {entry.why}"
            raise JobRefusedError(msg)
        return await self.dispatcher.run_now(entry)

    async def process_ended(self, handle: str) -> None:
        """Call off every job that Everturn tied to a background process; the others wait.

        Raises:
            OSError: It cannot be written.
        """
        tied = [entry for entry in self._registry.entries() if entry.job.process == handle]
        for entry in tied:
            if entry.job.made.by in WRITTEN:
                with suppress(UnknownJobError):  # somebody called it off in this moment
                    await self._cancel(entry.job_id)
        if tied:  # what people wrote stays, and waits
            self._registry.invalidate()
            await self._registry.read()

    # --- life ---

    async def load(self) -> None:
        """Read all jobs and run logs, once; nothing runs before `serve`.

        Raises:
            OSError: The folder cannot be used.
        """
        async with self._loading:
            if self._is_loaded:
                return
            await self._logs.load()
            await self._registry.read()
            self._is_loaded = True
            for entry in self._registry.entries():
                process = entry.job.process
                if process and entry.job.made.by in WRITTEN and not self._is_running(process):
                    await self._cancel(entry.job_id)  # it ended while nothing ran

    async def reconfigure(self, *, timezone: str, poster: Poster) -> None:
        """Go on with other settings.

        Args:
            timezone: Of jobs that name none; empty = they have to.
            poster: Sends results to addresses.
        """
        self._runner.poster = poster
        self._storage = replace(self._storage, timezone=timezone)
        if self._registry.store.use_timezone(timezone):
            self._registry.invalidate()
            await self._definitions.reload()

    async def serve(self) -> NoReturn:
        """Go on with what was begun, and run what is due; until cancelled."""
        await _load_at_last(self, self._clock)
        for job_id in self._logs.ids():
            is_gone = self._registry.find(job_id) is None
            if is_gone and self._registry.job_state(job_id).cancelled:  # and not only set aside
                await self.dispatcher.call_off(job_id)
        async with anyio.create_task_group() as watching:
            files = partial(self._registry.store.watch, self._definitions.reload)
            self._supervisor.start(watching, "schedules:files", files)
            self._supervisor.start(watching, "schedules:agents", self._definitions.watch_agents)
            tidying = partial(
                tidy, self._registry, self._logs, service=self._service, clock=self._clock
            )
            self._supervisor.start(watching, "schedules:tidy", tidying)
            await self.dispatcher.serve()
        msg = "it runs until it is cancelled"
        raise AssertionError(msg)


def _coming(job: Job, job_state: JobState, *, after: datetime, most: int) -> tuple[datetime, ...]:
    """Return the next instants of a job that is so far, at most `most`."""
    found: list[datetime] = []
    while len(found) < most:
        scheduled_at = rules.next_unresolved(job, job_state, after=after)
        if scheduled_at is None:
            break
        found.append(scheduled_at)
        after = scheduled_at
    return tuple(found)


async def _load_at_last(scheduler: Scheduler, clock: Clock) -> None:
    """Load the jobs, as soon as the disk lets that be."""
    while True:
        try:
            return await scheduler.load()
        except OSError as error:
            logger.error("the scheduler cannot begin", extra={"error": str(error)})
        await clock.sleep(DISK_RETRY_S)


@asynccontextmanager
async def open_scheduler(
    storage: JobStorage,
    *,
    runner: JobRunner,
    needs: JobNeeds,
    clock: Clock,
    supervisor: Supervisor | None = None,
    kind: type[Scheduler] = Scheduler,
) -> AsyncGenerator[Scheduler]:
    """Open the scheduler of a workspace; nothing runs before `Scheduler.serve`.

    What runs when the block ends goes on at the next start.

    Args:
        storage: Where jobs and their run logs are kept.
        runner: Does what they say.
        needs: What jobs need to run; its agents have jobs of their own.
        clock: The time.
        supervisor: Runs what watches the definitions; by default one of its own.
        kind: Of gateways that share the store, or of one that is alone.
    """
    parts = SchedulerParts(
        storage=storage,
        runner=runner,
        needs=needs,
        clock=clock,
        supervisor=supervisor or Supervisor(clock),
    )
    async with anyio.create_task_group() as tasks:
        yield kind(parts, tasks)
        tasks.cancel_scope.cancel()
