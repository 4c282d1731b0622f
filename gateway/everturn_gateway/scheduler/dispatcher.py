"""Which job is looked at when: what is due runs, what is too late is passed over.

The timetable holds one moment for each job. At that moment what was begun of the job goes on, what
is due first is settled, and the job is planned anew.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Final, NoReturn

import anyio.lowlevel
from anyio.abc import TaskGroup

from everturn_actors.errors import ActorStoppedError
from everturn_actors.ports import Clock
from everturn_actors.state.serialization import utc_text
from everturn_actors.supervisor import PERMANENT, contain
from everturn_gateway.scheduler.job_registry import AT_ONCE, Entry, JobRegistry
from everturn_gateway.scheduler.job_runner import JobRunner
from everturn_gateway.scheduler.jobs import Job, Run
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.records import Finished, Misfire, Record
from everturn_gateway.scheduler.rules.timetable import Timetable, later
from everturn_gateway.scheduler.run_attempts import RunAttempts, unexpected

logger = logging.getLogger(__name__)

DISK_RETRY_S: Final = 30.0  # before a job is looked at again that could not be written down


class Dispatcher:
    """Runs what is due. Plans nothing before `serve`."""

    def __init__(
        self, *, registry: JobRegistry, runner: JobRunner, clock: Clock, tasks: TaskGroup
    ) -> None:
        """Begin with an empty timetable.

        Args:
            registry: The jobs, and the writer of their run logs.
            runner: Does what a job says, once.
            clock: The time.
            tasks: In which all that runs is started.
        """
        self._registry, self._runner, self._clock = registry, runner, clock
        self._tasks = tasks
        self._table = Timetable(clock)
        self._is_serving = False
        self._busy: set[str] = set()
        "Jobs whose times are being worked off, be they replaced meanwhile."
        self.attempts = RunAttempts(
            registry=registry, runner=runner, clock=clock, beside=self.begin
        )

    def is_busy(self, job_id: str) -> bool:
        """Whether what is due of a job is being worked off."""
        return job_id in self._busy

    def next_at(self, job_id: str) -> datetime | None:
        """Return when a job is looked at next; None where it never has to be."""
        # A command looks without serving.
        return self._table.at(job_id) if self._is_serving else self._due_at(job_id)

    async def serve(self) -> NoReturn:
        """Run what is due, until cancelled."""
        self._is_serving = True
        await self._plan_all()
        await self._table.run(self._fire, self._clock_jumped)

    def plan(self, job_id: str) -> None:
        """Put a job on the timetable where it belongs now."""
        entry = self._registry.find(job_id)
        if entry is None:
            self._table.put(job_id, None)  # it was called off: nobody looks at it any more
            return
        if self._is_serving and job_id not in self._busy:
            try:
                due_at = self._due_at(job_id)
            except Exception as error:  # the boundary around one job
                logger.exception("the times of a job cannot be told", extra={"job": job_id})
                self._halt(entry, error)
                due_at = None
            self._table.put(job_id, due_at)
        self._registry.news_of(entry)

    def _due_at(self, job_id: str) -> datetime | None:
        """Return when a job has to be looked at next; None where it never has to be."""
        entry, now = self._registry.entry(job_id), self._clock.now()
        if self._registry.is_held(entry):
            return None
        if self.attempts.left_open(job_id):
            return now  # a run that a kill cut short goes on at once
        if self._registry.job_state(job_id).anchor is None:
            return None
        planned = rules.plan(entry.job, self._registry.job_state(job_id), now=now)
        return now if planned.run or planned.misfired else planned.next_at

    def _clock_jumped(self) -> None:
        self.begin("schedules", self._plan_all)  # every time of every job may be another one now

    async def _plan_all(self) -> None:
        for number, entry in enumerate(self._registry.entries(), 1):
            if number % AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            await self._rebase(entry)
            self.plan(entry.job_id)

    async def _rebase(self, entry: Entry) -> None:
        """Where the clock was set back, what is settled in the future is no more."""
        job_state = self._registry.job_state(entry.job_id)
        rebased = rules.rebased(entry.job, job_state, self._clock.now())
        if rebased is not None:
            await self.note(entry.job_id, rebased)

    def _fire(self, job_id: str) -> None:
        entry = self._registry.find(job_id)
        if entry is not None and job_id not in self._busy:
            self._busy.add(job_id)  # a job is worked on by one task at a time
            self.begin(f"job:{job_id}", partial(self._work_off, entry), entry)

    async def _work_off(self, entry: Entry) -> None:
        """Go on with what was begun of a job, and with what is due first; then plan it anew."""
        pause_s = 0.0
        try:
            for run in self.attempts.left_open(entry.job_id):
                if not self._registry.is_held(entry):
                    await self.attempts.finish(entry.job, run)
            await self._settle(entry)
        except ActorStoppedError:
            return  # what is open goes on at the next start
        except OSError as error:
            pause_s = DISK_RETRY_S
            logger.warning(
                "a scheduled job cannot be written down, and waits",
                extra={"job": entry.job_id, "error": str(error)},
            )
        finally:
            self._busy.discard(entry.job_id)
        entry.faults = 0  # in a row is what counts
        await self._rebase(entry)  # what began before it was set back was written after that
        self.plan(entry.job_id)
        if pause_s and self._table.at(entry.job_id) is not None:
            self._table.put(entry.job_id, later(self._clock.now(), pause_s))

    async def _settle(self, entry: Entry) -> None:
        """Settle what is due first; what is left is due at once, and planned anew."""
        job, job_id, now = entry.job, entry.job_id, self._clock.now()
        job_state = self._registry.job_state(job_id)
        is_loaded = self._registry.find(job_id) is entry
        if not is_loaded or self._registry.is_held(entry) or job_state.anchor is None:
            return
        planned = rules.plan(job, job_state, now=now)
        if planned.misfired is not None:
            await self._miss(job, planned.misfired, ran_instead=bool(planned.run))
        elif planned.run:
            await self.attempts.run_due(job, planned.run[0])

    async def _miss(self, job: Job, missed: rules.Misfire, *, ran_instead: bool) -> None:
        """Write down what is passed over; a single run that is, is reported."""
        why = "a later one runs in its place" if ran_instead else "it was too late to run"
        if missed.is_more:
            why += "; there were more than these"
        now = self._clock.now()
        if job.is_once:  # before it is written down: what is settled is not looked at again
            run = Run(scheduled_at=missed.last, started_at=now)
            # Of a recurring one the next run tells enough.
            await self._runner.report(job, run, f"it was not run: {why}.")
        await self._registry.write(
            job.job_id,
            Misfire(
                at=now,
                first=missed.first,
                scheduled_at=missed.last,
                count=missed.count,
                error=why,
            ),
        )
        logger.warning(
            "runs of a scheduled job were missed",
            extra={
                "job": job.job_id,
                "scheduled_at": utc_text(missed.last),
                "count": missed.count,
                "why": why,
            },
        )

    async def run_now(self, entry: Entry) -> Run:
        """Begin a run that a person asked for; return when that is durable.

        Raises:
            OSError: It cannot be written.
        """
        run = await self.attempts.begin_by_hand(entry.job)
        self.begin(f"job:{entry.job_id}", partial(self._by_hand, entry.job, run), entry)
        return run

    async def _by_hand(self, job: Job, run: Run) -> None:
        try:
            await self.attempts.finish(job, run)
        except ActorStoppedError:
            return
        except OSError as error:
            logger.warning(
                "a scheduled job cannot be written down",
                extra={"job": job.job_id, "error": str(error)},
            )
            self._table.put(job.job_id, later(self._clock.now(), DISK_RETRY_S))

    def begin(
        self, what: str, body: Callable[[], Awaitable[None]], entry: Entry | None = None
    ) -> None:
        """Start something beside the timetable; where it fails unexpectedly, nothing else does."""

        async def contained() -> None:
            failure: Exception | None = None

            def failed(error: Exception) -> None:
                nonlocal failure
                failure = error

            await contain(what, body, on_error=failed)
            if failure is not None and entry is not None:
                await contain(what, partial(self._take_fault, entry, failure))

        self._tasks.start_soon(contained, name=what)

    async def _take_fault(self, entry: Entry, error: Exception) -> None:
        """Close what a job had begun as failed, and try what is due next after a pause.

        What was begun is not begun again: it would fail at each start.
        """
        job_id = entry.job_id
        entry.faults += 1
        if entry.faults >= PERMANENT.failures_max:
            self._halt(entry, error)
        for run in self.attempts.left_open(job_id):
            at, why = self._clock.now(), unexpected(error)
            failed = Finished(at=at, scheduled_at=run.scheduled_at, outcome="failed", error=why)
            await self.note(job_id, failed)  # it would be found open at each start, and fail again
        self.plan(job_id)
        if self._table.at(job_id) is not None:
            # A later one each time: others need the disk and the log.
            pause_s = DISK_RETRY_S * entry.faults
            self._table.put(job_id, later(self._clock.now(), pause_s))

    def _halt(self, entry: Entry, error: Exception) -> None:
        """Try nothing more of a job until its definition changes, or the gateway is started."""
        why = unexpected(error)
        entry.halted = f"its handling failed again and again: {why}"
        logger.error("a scheduled job stays down", extra={"job": entry.job_id, "error": why})

    async def call_off(self, job_id: str) -> None:
        """Close what was begun of a job that is no more."""
        for run in self._registry.job_state(job_id).open:
            now = self._clock.now()
            error = "the job was removed"
            await self.note(
                job_id,
                Finished(at=now, scheduled_at=run.scheduled_at, outcome="cancelled", error=error),
            )

    async def note(self, job_id: str, record: Record) -> None:
        """Write a record; where the disk refuses it, the log says so."""
        try:
            await self._registry.write(job_id, record)
        except OSError as error:
            logger.warning(
                "a scheduled job cannot be written down",
                extra={"job": job_id, "error": str(error)},
            )
