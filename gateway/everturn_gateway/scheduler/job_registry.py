"""Which jobs there are, and how far each is: definitions from all sources, and their run logs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime
from functools import partial
from typing import Final, Protocol

import anyio
import anyio.lowlevel
from msgspec import Struct, field

from everturn_actors.ports import Clock
from everturn_actors.supervisor import contain
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.definitions.job_store import JobStore, Page
from everturn_gateway.scheduler.errors import UnknownJobError
from everturn_gateway.scheduler.job_changes import JobChanges
from everturn_gateway.scheduler.jobs import Job, JobState, JobView, Run
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.job_state import (
    ALWAYS_THERE,
    by_id,
    counts_from,
    is_armed,
    stranded,
    waiting,
    why_never,
)
from everturn_gateway.scheduler.rules.records import (
    Armed,
    Cancelled,
    Paused,
    Record,
    Resumed,
    fold_all,
)
from everturn_gateway.scheduler.run_logs.files import RunLogs

logger = logging.getLogger(__name__)

AT_ONCE: Final = 50  # jobs that are looked at before others get their turn: some milliseconds


_IN_AGENTS: Final = ("spec.schedules", "spec.heartbeat")
"What fields of an `agent.yaml` begin with that are about jobs."


class AgentShelf(Protocol):
    """The agents of a gateway, as far as their jobs go."""

    @property
    def version(self) -> int:
        """How many times something has changed."""
        ...

    def names(self) -> tuple[str, ...]:
        """Return the names of all agents."""
        ...

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs that stand in the agents' own files."""
        ...

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong in the agents folder."""
        ...

    async def wait_beyond(self, version: int) -> None:
        """Wait until `version` has passed."""
        ...


class JobNeeds(Struct, frozen=True, kw_only=True):
    """What has to be there for a job to run."""

    agents: AgentShelf
    "Who works."
    channels: frozenset[str]
    "The names of the channels that are set up."
    is_running: Callable[[str], bool]
    "Whether a background process still runs, by its handle."


class Entry(Struct):
    """One job that is loaded."""

    job: Job
    why: str = ""
    "Why it cannot run now; empty = it can."
    halted: str = ""
    "Why nothing of it is tried until its definition changes: its handling failed too often."
    faults: int = 0
    "How often its handling failed unexpectedly, in a row."
    error: OSError | None = None
    "Why it could not be armed; that is tried again."
    news: anyio.Event = field(default_factory=anyio.Event)
    "Set when something about it has changed."

    def notify(self) -> None:
        """Wake whoever waits for news of it."""
        self.news.set()
        self.news = anyio.Event()

    @property
    def job_id(self) -> str:
        """Its id."""
        return self.job.job_id


class JobRegistry:
    """The jobs of a gateway, and the one writer of their run logs."""

    def __init__(
        self,
        *,
        store: JobStore,
        logs: RunLogs,
        needs: JobNeeds,
        clock: Clock,
        changed: Callable[[str], None],
        let_go: Callable[[tuple[Run, ...]], Awaitable[None]],
        changes: JobChanges,
    ) -> None:
        """Begin with nothing; see `load`.

        Args:
            store: Definitions in files of their own.
            logs: What was done.
            needs: What jobs need to run; its agents have definitions in their own files.
            clock: The time.
            changed: Told the id of each job that is new, changed or gone.
            let_go: Given the runs that a run log no longer names.
            changes: Is told what changes, for whoever looks on.
        """
        self.is_reader = False
        "Whether another gateway writes the run logs, and this one only shows what they say."
        self.store = store
        self._logs, self._agents, self._clock = logs, needs.agents, clock
        self._channels = needs.channels | ALWAYS_THERE
        self._is_running = needs.is_running
        self._told, self._let_go = changed, let_go
        self.changes = changes
        self._entries: dict[str, Entry] = {}
        self._faults: tuple[Fault, ...] = ()
        self._page: Page = Page()
        "The job files that were taken over last."
        self._beside: tuple[int, tuple[Fault, ...]] = (0, ())
        "And what stood beside them: the version of the agents, damaged run logs."
        self.is_current = False
        """Whether all definitions are taken over, as they stood at the last look, and armed."""
        self._reading = anyio.Lock()

    def _changed(self, job_id: str) -> None:
        self.changes.record(job_id)
        self._told(job_id)

    # --- asking ---

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs, sorted."""
        return tuple(sorted(self._entries))

    def entries(self) -> tuple[Entry, ...]:
        """Return all jobs."""
        return tuple(self._entries.values())

    def find(self, job_id: str) -> Entry | None:
        """Return one job; None where there is none of this id."""
        return self._entries.get(job_id)

    def entry(self, job_id: str) -> Entry:
        """Return one job.

        Raises:
            UnknownJobError: There is none of this id.
        """
        entry = self._entries.get(job_id)
        if entry is None:
            raise UnknownJobError(job_id, self._entries)
        return entry

    def job_state(self, job_id: str) -> JobState:
        """Return how far a job is."""
        return self._logs.job_state(job_id)

    def is_held(self, entry: Entry) -> bool:
        """Whether nothing of a job may be tried now."""
        return (
            bool(entry.why or entry.halted)
            or entry.job.paused
            or self.job_state(entry.job_id).paused
        )

    def is_over(self, entry: Entry) -> bool:
        """Return whether nothing of a job is to come."""
        job_state = self.job_state(entry.job_id)
        return not job_state.open and rules.is_over(entry.job, job_state, self._clock.now())

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong with definitions and run logs, and which jobs cannot run."""
        stuck = (
            waiting(each.job, each.why or each.halted)
            for each in self._entries.values()
            if (each.why or each.halted)
            and not self._logs.damage(each.job_id)
            # One that was armed once and is over waits for nothing.
            and not (self.job_state(each.job_id).schedule and self.is_over(each))
        )
        of_agents = (each for each in self._agents.faults() if each.field.startswith(_IN_AGENTS))
        return (*self._faults, *of_agents, *self._logs.faults(), *stuck)

    def view(self, entry: Entry, next_at: datetime | None) -> JobView:
        """Return a job as people see it; `next_at` is when it is due."""
        job_state = self.job_state(entry.job_id)
        job, why = entry.job, entry.why or entry.halted
        if job_state.open:
            return JobView(job=job, state="running", why=why, next_at=next_at, job_state=job_state)
        if self.is_over(entry):
            return JobView(job=job, state="done", why=why, job_state=job_state)
        if why:
            return JobView(job=job, state="waiting", why=why, job_state=job_state)
        if job.paused or job_state.paused:
            return JobView(job=job, state="paused", job_state=job_state)
        return JobView(job=job, state="scheduled", next_at=next_at, job_state=job_state)

    def why_not(self, job: Job) -> tuple[str, str]:
        """Return why a job cannot run now, behind the field at fault; empty where it can."""
        if damage := self._logs.damage(job.job_id):
            return "id", damage  # what its log says is not known, so it could run twice
        if job.process and not self._is_running(job.process):
            return "process", f"no background process {job.process!r} runs"
        return stranded(job, self._agents.names(), self._channels)

    def news_of(self, entry: Entry) -> None:
        """Tell whoever waits that something about a job has changed."""
        entry.notify()
        self.changes.record(entry.job_id)

    # --- writing down ---

    async def write(self, job_id: str, *records: Record) -> JobState:
        """Write down what happened to a job; return how far it is, when that is durable.

        Raises:
            OSError: It was not written, and nothing has changed.
        """
        gone = fold_all(self.job_state(job_id), records).gone
        if gone:  # before the log forgets them: after a kill in between it is done again
            await self._let_go(gone)
        appended = await self._logs.append(job_id, *records)
        entry = self._entries.get(job_id)
        if entry is not None:
            self.news_of(entry)
        return appended.job_state

    # --- definitions ---

    def invalidate(self) -> None:
        """Let the next look judge all jobs again: something else has changed."""
        self.is_current = False

    async def read(self) -> None:
        """Take over all definitions as they stand, and arm what is new.

        Raises:
            OSError: The folder of job files cannot be read.
        """
        async with self._reading:
            await self._logs.recheck()
            page = await self.store.read()
            beside = (self._agents.version, self._logs.faults())
            if self.is_current and page is self._page and beside == self._beside:
                return  # nothing has changed
            self.is_current, self._page, self._beside = False, page, beside
            found, twins = by_id((*page.jobs, *self._agents.jobs()))
            faults = (*page.faults, *twins)
            _log_new(faults, set(self._faults))
            self._faults = faults
            gone = [each for each in self._entries if each not in found]
            for job_id in gone:
                del self._entries[job_id]  # its log stays: the file may come back
                self._changed(job_id)
            for job_id in dict.fromkeys((*gone, *self._logs.ids())):
                if job_id not in found and not self._may_come_back(job_id, page):
                    await self._forget(job_id)
            self.is_current = not page.may_pass  # unless one of them cannot be armed
            async with anyio.create_task_group() as arming:
                for number, job in enumerate(found.values(), 1):
                    if number % AT_ONCE == 0:
                        await anyio.lowlevel.checkpoint()
                    entry = self._entries.get(job.job_id)
                    job_state, now = self.job_state(job.job_id), self._clock.now()
                    why = self.why_not(job)[1] or why_never(job, job_state, now)
                    if entry is not None and entry.job == job and entry.why == why:
                        entry.job = job  # what is not compared may differ: where it stands
                        continue
                    if entry is None:
                        entry = self._entries[job.job_id] = Entry(job)
                    if entry.job != job:
                        entry.halted, entry.faults = "", 0  # what is another job may work
                    if why and entry.why != why:
                        fields = {"job": job.job_id, "file": str(job.file), "line": job.line}
                        logger.warning("a scheduled job waits", extra={**fields, "why": why})
                    entry.job, entry.why = job, why
                    arm = partial(self._arm, entry)
                    # Side by side: each writes a log of its own.
                    arming.start_soon(contain, f"job:{entry.job_id}", arm)

    def _may_come_back(self, job_id: str, page: Page) -> bool:
        """Return whether a job that is missing may stand in something that is only set aside."""
        agent, dot, _ = job_id.partition(".")
        is_loaded = agent in {name.lower() for name in self._agents.names()}
        return job_id in page.quarantined or bool(dot and self._agents.faults() and not is_loaded)

    async def _forget(self, job_id: str) -> None:
        """Write down that a job is no more."""
        if self.is_reader:
            return
        if not self.job_state(job_id).cancelled and not self._logs.damage(job_id):
            await self.write(job_id, Cancelled(at=self._clock.now()))

    async def _arm(self, entry: Entry) -> None:
        """Let a job that is new, or that has changed, run at its times from now on."""
        try:
            if not self.is_reader:
                await self._write_arming(entry)
        except OSError as error:
            entry.error = error
            entry.why = f"its run log cannot be written: {error.strerror or error}"
            self.is_current = False
        else:
            entry.error = None
        self._changed(entry.job_id)

    async def _write_arming(self, entry: Entry) -> None:
        job, now = entry.job, self._clock.now()
        job_state = self.job_state(job.job_id)
        if is_armed(job, job_state):
            rebased = rules.rebased(job, job_state, now)
            if rebased is not None:
                logger.warning("the clock was set back", extra={"job": job.job_id})
                await self.write(job.job_id, rebased)
        elif not why_never(job, job_state, now):
            schedule, since = rules.schedule_name(job), counts_from(job, now)
            await self.write(job.job_id, Armed(at=now, schedule=schedule, since=since))
        if job.paused and not job_state.paused_in_file:
            await self.write(job.job_id, Paused(at=now, in_file=True))
        elif job_state.paused_in_file and not job.paused:  # what came due meanwhile is left out
            await self.write(job.job_id, Resumed(at=now, in_file=True))


def _log_new(faults: Iterable[Fault], known: Collection[Fault]) -> None:
    for fault in faults:
        if fault not in known:
            logger.warning("a scheduled job is set aside", extra={"fault": str(fault)})
