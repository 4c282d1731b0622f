"""The scheduler: when each job is due, and that every run runs once.

What a job is stands in its definition, how far it is in its run log; memory holds both and
nothing else. A run is written down before it is begun, and everything that it does is
named by it, so that a kill at any moment is answered by doing the open step again.
"""

from __future__ import annotations

import logging
import secrets as random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import anyio
import anyio.lowlevel
from anyio import to_thread
from anyio.abc import TaskGroup

from everturn_actors.errors import ActorStoppedError, CoreError, UnknownSessionError
from everturn_actors.faults import first_cause
from everturn_actors.ports import Clock
from everturn_actors.service import TurnService
from everturn_actors.state.serialization import utc_text
from everturn_actors.supervisor import PERMANENT, Supervisor, attempt, contain
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.errors import (
    JobFixedError,
    JobRefusedError,
    NotWrittenError,
    UnknownJobError,
)
from everturn_gateway.scheduler.job_registry import AT_ONCE, AgentShelf, Entry, JobRegistry
from everturn_gateway.scheduler.job_runner import Ended, JobRunner, Poster, name_of
from everturn_gateway.scheduler.job_store import JobStore
from everturn_gateway.scheduler.jobs import (
    ISOLATED,
    At,
    Job,
    JobState,
    JobView,
    Made,
    Run,
    RunTask,
    ToSession,
)
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.records import (
    Accepted,
    Began,
    Finished,
    Misfire,
    Paused,
    Record,
    Resumed,
)
from everturn_gateway.scheduler.rules.timetable import Timetable, later
from everturn_gateway.scheduler.runlog import RunLogs
from everturn_gateway.scheduler.settings import JobSection

logger = logging.getLogger(__name__)

FOLDER: Final = "schedules"
RUNS_FOLDER: Final = "runs"
RUNNING_TASKS: Final = 32  # begin at the same time; those beyond wait, written down as begun
PLACE_S: Final = 60.0  # after which one that still runs makes room for another
DISK_RETRY_S: Final = 30.0  # before a job is looked at again that could not be written down
DONE_KEPT: Final = timedelta(days=7)  # of a job that a program made, when nothing of it is to come
GONE_KEPT: Final = timedelta(days=30)  # of the run log of a job that is no more
TIDY_S: Final = 3600.0
_FIXED: Final = frozenset(("agent", "heartbeat"))
_WRITTEN: Final = frozenset(("tool", "cli", "http"))
_ID_BYTES: Final = 4


class Scheduler:
    """Implements `SchedulerClient`. Made by `open_scheduler`."""

    def __init__(
        self,
        *,
        book: JobStore,
        logs: RunLogs,
        performer: JobRunner,
        service: TurnService,
        agents: AgentShelf,
        channels: frozenset[str],
        clock: Clock,
        tasks: TaskGroup,
        is_running: Callable[[str], bool],
        supervisor: Supervisor,
    ) -> None:
        """Only `open_scheduler` makes one."""
        self._logs, self._performer, self._service = logs, performer, service
        self._agents, self._clock, self._tasks = agents, clock, tasks
        self._supervisor = supervisor
        self._table = Timetable(clock)
        self._room = anyio.Semaphore(RUNNING_TASKS)
        self._adding = anyio.Lock()
        self._loading = anyio.Lock()
        self._is_running = is_running
        self._is_loaded = self._is_serving = False
        self._reads_again = False
        self._unread = ""
        "Why definitions could not be read the last time."
        self._in_hand: set[tuple[str, datetime]] = set()
        "Runs that are tried at this moment."
        self._busy: set[str] = set()
        "Jobs whose times are being worked off, be they replaced meanwhile."
        self._roster = JobRegistry(
            book=book,
            logs=logs,
            agents=agents,
            channels=channels,
            clock=clock,
            is_running=is_running,
            changed=self._plan,
            let_go=self._delete_sessions,
        )

    # --- asking ---

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs; see `SchedulerClient`."""
        return self._roster.ids()

    def jobs(self) -> tuple[JobView, ...]:
        """Return all jobs, by id; see `SchedulerClient`."""
        return tuple(map(self.job, self._roster.ids()))

    def job(self, job_id: str) -> JobView:
        """Return one job; see `SchedulerClient`."""
        entry = self._roster.entry(job_id)
        next_at = self._table.at(job_id) if self._is_serving else self._due_at(job_id)
        return self._roster.view(entry, next_at)

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong; see `SchedulerClient`."""
        return self._roster.faults()

    def coming(self, job_id: str, *, count: int) -> tuple[datetime, ...]:
        """Return when a job is due next; see `SchedulerClient`."""
        job, job_state = self._roster.entry(job_id).job, self._roster.job_state(job_id)
        now = self._clock.now()
        after = max(job_state.cursor or now, now)
        most = count if job.max_runs is None else min(count, job.max_runs - job_state.ran)
        found: list[datetime] = []
        while len(found) < most:
            scheduled_at = rules.next_unsettled(job, job_state, after=after)
            if scheduled_at is None:
                break
            found.append(scheduled_at)
            after = scheduled_at
        return tuple(found)

    async def wait(self, job_id: str, scheduled_at: datetime) -> Run:
        """Wait for the end of a run; see `SchedulerClient`."""
        while True:
            entry, job_state = self._roster.entry(job_id), self._roster.job_state(job_id)
            for run in reversed(job_state.recent):
                if run.scheduled_at == scheduled_at:
                    return run
            if all(run.scheduled_at != scheduled_at for run in job_state.open):
                name = f"{job_id} at {utc_text(scheduled_at)}"
                raise UnknownJobError(name, self._roster.ids())
            await entry.news.wait()

    async def until_news(self, job_id: str) -> None:
        """Wait until something about a job has changed. The caller sets the deadline.

        Raises:
            UnknownJobError: There is none of this id.
        """
        await self._roster.entry(job_id).news.wait()

    # --- changing ---

    async def add(
        self, section: JobSection, *, job_id: str = "", made: Made, max_jobs: int | None = None
    ) -> JobView:
        """Make a job; see `SchedulerClient`."""
        await self.load()
        async with self._adding:
            made = made if made.at else replace(made, at=self._clock.now())
            job_id = job_id or section.id or f"job-{random.token_hex(_ID_BYTES)}"
            read = partial(self._roster.book.job_of, section, job_id=job_id, made=made)
            job = await to_thread.run_sync(read)  # it may read the file of a time zone
            self._check_new(job, max_jobs)
            if isinstance(job.to, ToSession):
                await self._check_session(job.to.session_id)
            try:
                await self._roster.book.write(job_id, section, made)
            except FileExistsError as error:
                raise JobRefusedError(faults=[_fault("id", f"{job_id!r} is taken")]) from error
            await self._roster.read()
            await self._check_armed(job_id)
        return self.job(job_id)

    async def _check_armed(self, job_id: str) -> None:
        """Take a new job back that would not run.

        Raises:
            OSError: It could not be armed.
        """
        entry = self._roster.find(job_id)
        if entry is not None and entry.error is not None:
            error = entry.error
            await self._roster.book.put_away(entry.job.file)
            await self._roster.read()
            raise error

    async def _check_session(self, session_id: str) -> None:
        """Refuse a session in which nothing can be said.

        Raises:
            JobRefusedError: There is none of this id, or it has ended.
        """
        try:
            state = await self._service.view(session_id)
        except CoreError as error:
            raise JobRefusedError(faults=[_fault("to.session", str(error))]) from error
        if state.status == "ended":
            message = f"session {session_id!r} has ended ({state.ended_reason})"
            raise JobRefusedError(faults=[_fault("to.session", message)])

    def _check_new(self, job: Job, max_jobs: int | None) -> None:
        """Refuse a job that could not run.

        Raises:
            JobRefusedError: With the reason.
        """
        now = self._clock.now()
        if self._roster.find(job.job_id) is not None:
            raise JobRefusedError(faults=[_fault("id", f"{job.job_id!r} is taken")])
        if (missing := self._roster.why_not(job))[1]:
            raise JobRefusedError(faults=[_fault(*missing)])
        if isinstance(job.when, At) and job.when.scheduled_at <= now:
            message = f"is in the past: it is {now:%Y-%m-%d %H:%M:%S} UTC now"
            raise JobRefusedError(faults=[_fault("at", message)])
        if rules.next_scheduled_time(job, after=now, anchor=now) is None:
            msg = "none of its times is to come: see its end, and its quiet hours"
            raise JobRefusedError(msg)
        alike = [
            entry
            for entry in self._roster.entries()
            if (entry.job.made.by, entry.job.agent) == (job.made.by, job.agent)
            and not self._roster.is_over(entry)
        ]
        if max_jobs is not None and len(alike) >= max_jobs:
            msg = f"{len(alike)} jobs of this agent are scheduled, which is its limit"
            raise JobRefusedError(msg)

    async def cancel(self, job_id: str) -> None:
        """Call a job off; see `SchedulerClient`."""
        await self.load()
        await self._cancel(job_id)

    async def _cancel(self, job_id: str) -> None:
        job = self._roster.entry(job_id).job
        if job.made.by in _FIXED:
            msg = f"{job_id} is defined in {job.file}:{job.line}: take it out there, or pause it"
            raise JobFixedError(msg)
        await self._roster.book.put_away(job.file)
        await self._roster.read()

    async def pause(self, job_id: str) -> None:
        """Let nothing of a job run; see `SchedulerClient`."""
        await self.load()
        self._roster.entry(job_id)
        if not self._roster.job_state(job_id).paused:
            await self._roster.write(job_id, Paused(at=self._clock.now()))
        self._plan(job_id)

    async def resume(self, job_id: str) -> None:
        """Let a paused job go on; see `SchedulerClient`."""
        await self.load()
        job = self._roster.entry(job_id).job
        if job.paused:
            msg = f"{job_id} is paused in its definition, {job.file}:{job.line}"
            raise JobFixedError(msg)
        if self._roster.job_state(job_id).paused:
            await self._roster.write(job_id, Resumed(at=self._clock.now()))
        self._plan(job_id)

    async def run_now(self, job_id: str) -> Run:
        """Run a job once, now; see `SchedulerClient`."""
        await self.load()
        entry = self._roster.entry(job_id)
        if entry.why:
            msg = f"{job_id} cannot run: {entry.why}"
            raise JobRefusedError(msg)
        now = self._clock.now()
        began = Began(at=now, scheduled_at=now, attempt=1, by_hand=True)
        self._in_hand.add((job_id, now))  # nobody else finds it left open
        try:
            run = _open_run(await self._roster.write(job_id, began), now)
        except BaseException:
            self._in_hand.discard((job_id, now))
            raise
        self._begin(f"job:{job_id}", partial(self._by_hand, entry.job, run), entry)
        return run

    async def process_ended(self, handle: str) -> None:
        """Call off every job that Everturn tied to a background process; the others wait.

        Raises:
            OSError: It cannot be written.
        """
        tied = [entry for entry in self._roster.entries() if entry.job.process == handle]
        for entry in tied:
            if entry.job.made.by in _WRITTEN:
                with suppress(UnknownJobError):  # somebody called it off in this moment
                    await self._cancel(entry.job_id)
        if tied:  # what people wrote stays, and waits
            self._roster.unsettle()
            await self._roster.read()

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
            await self._roster.read()
            self._is_loaded = True
            for entry in self._roster.entries():
                process = entry.job.process
                if process and entry.job.made.by in _WRITTEN and not self._is_running(process):
                    await self._cancel(entry.job_id)  # it ended while nothing ran

    async def reconfigure(self, *, timezone: str, poster: Poster) -> None:
        """Go on with other settings.

        Args:
            timezone: Of jobs that name none; empty = they have to.
            poster: Sends results to addresses.
        """
        self._performer.poster = poster
        if self._roster.book.use_timezone(timezone):
            self._roster.unsettle()
            await self._reload()

    async def serve(self) -> NoReturn:
        """Go on with what was begun, and run what is due; until cancelled."""
        await self._load_at_last()
        self._is_serving = True
        await self._plan_all()
        for job_id in self._logs.ids():
            is_gone = self._roster.find(job_id) is None
            if is_gone and self._roster.job_state(job_id).cancelled:  # and not only set aside
                await self._call_off(job_id)
        async with anyio.create_task_group() as watching:
            files = partial(self._roster.book.watch, self._reload)
            self._supervisor.start(watching, "schedules:files", files)
            self._supervisor.start(watching, "schedules:agents", self._watch_agents)
            self._supervisor.start(watching, "schedules:tidy", self._tidy)
            await self._table.run(self._fire, self._clock_jumped)
        msg = "it runs until it is cancelled"
        raise AssertionError(msg)

    async def _load_at_last(self) -> None:
        while True:
            try:
                return await self.load()
            except OSError as error:
                logger.error(  # noqa: TRY400 - the words say it all
                    "the scheduler cannot begin", extra={"error": str(error)}
                )
            await self._clock.sleep(DISK_RETRY_S)

    async def _call_off(self, job_id: str) -> None:
        """Close what was begun of a job that is no more."""
        for run in self._roster.job_state(job_id).open:
            now = self._clock.now()
            error = "the job was removed"
            await self._note(
                job_id,
                Finished(at=now, scheduled_at=run.scheduled_at, outcome="cancelled", error=error),
            )

    async def _watch_agents(self) -> NoReturn:
        version = self._agents.version
        while True:
            await self._agents.wait_beyond(version)
            version = self._agents.version
            await self._reload()

    async def _reload(self) -> None:
        why = ""
        try:
            await self._roster.read()
        except OSError as error:
            why = str(error)
            if why != self._unread:  # a folder that is missing is looked for again and again
                logger.warning("scheduled jobs cannot be read", extra={"error": why})
        self._unread = why
        if not self._roster.is_settled and not self._reads_again:
            self._reads_again = True
            self._begin("schedules", self._read_again)

    async def _read_again(self) -> None:
        await self._clock.sleep(DISK_RETRY_S)
        self._reads_again = False
        await self._reload()

    # --- times ---

    def _plan(self, job_id: str) -> None:
        """Put a job on the timetable where it belongs now."""
        entry = self._roster.find(job_id)
        if entry is None:
            self._table.put(job_id, None)
            return
        if self._is_serving and job_id not in self._busy:
            try:
                due_at = self._due_at(job_id)
            except Exception as error:  # the boundary around one job
                logger.exception("the times of a job cannot be told", extra={"job": job_id})
                self._halt(entry, error)
                due_at = None
            self._table.put(job_id, due_at)
        entry.tell()

    def _due_at(self, job_id: str) -> datetime | None:
        """Return when a job has to be looked at next; None where it never has to be."""
        entry, now = self._roster.entry(job_id), self._clock.now()
        if self._is_held(entry):
            return None
        if self._left_open(job_id):
            return now
        if self._roster.job_state(job_id).anchor is None:
            return None
        planned = rules.plan(entry.job, self._roster.job_state(job_id), now=now)
        return now if planned.run or planned.missed else planned.next_at

    def _clock_jumped(self) -> None:
        self._begin("schedules", self._plan_all)

    async def _plan_all(self) -> None:
        for number, entry in enumerate(self._roster.entries(), 1):
            if number % AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            await self._rebase(entry)
            self._plan(entry.job_id)

    async def _rebase(self, entry: Entry) -> None:
        """Where the clock was set back, what is settled in the future is no more."""
        job_state = self._roster.job_state(entry.job_id)
        rebased = rules.rebased(entry.job, job_state, self._clock.now())
        if rebased is not None:
            await self._note(entry.job_id, rebased)

    # --- runs ---

    def _fire(self, job_id: str) -> None:
        entry = self._roster.find(job_id)
        if entry is not None and job_id not in self._busy:
            self._busy.add(job_id)
            self._begin(f"job:{job_id}", partial(self._work_off, entry), entry)

    async def _work_off(self, entry: Entry) -> None:
        """Go on with what was begun of a job, and with what is due first; then plan it anew."""
        pause_s = 0.0
        try:
            for run in self._left_open(entry.job_id):
                if not self._is_held(entry):
                    await self._finish(entry.job, run)
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
        entry.faults = 0
        await self._rebase(entry)  # what began before it was set back was written after that
        self._plan(entry.job_id)
        if pause_s and self._table.at(entry.job_id) is not None:
            self._table.put(entry.job_id, later(self._clock.now(), pause_s))

    def _left_open(self, job_id: str) -> tuple[Run, ...]:
        """Return what was begun and is in nobody's hands, oldest first."""
        runs = self._roster.job_state(job_id).open
        return tuple(run for run in runs if (job_id, run.scheduled_at) not in self._in_hand)

    async def _settle(self, entry: Entry) -> None:
        """Settle what is due first; what is left is due at once, and planned anew."""
        job, job_id, now = entry.job, entry.job_id, self._clock.now()
        job_state = self._roster.job_state(job_id)
        is_loaded = self._roster.find(job_id) is entry
        if not is_loaded or self._is_held(entry) or job_state.anchor is None:
            return
        planned = rules.plan(job, job_state, now=now)
        if planned.missed is not None:
            await self._miss(job, planned.missed, ran_instead=bool(planned.run))
        elif planned.run:
            scheduled_at = planned.run[0]
            began = Began(at=now, scheduled_at=scheduled_at, attempt=1, by_hand=False)
            await self._finish(
                job, _open_run(await self._roster.write(job_id, began), scheduled_at)
            )

    def _is_held(self, entry: Entry) -> bool:
        """Whether nothing of a job may be tried now."""
        return (
            bool(entry.why or entry.halted)
            or entry.job.paused
            or self._roster.job_state(entry.job_id).paused
        )

    async def _miss(self, job: Job, missed: rules.Misfire, *, ran_instead: bool) -> None:
        """Write down what is passed over; a single run that is, is reported."""
        why = "a later one runs in its place" if ran_instead else "it was too late to run"
        if missed.is_more:
            why += "; there were more than these"
        now = self._clock.now()
        if job.is_once:  # before it is written down: what is settled is not looked at again
            run = Run(scheduled_at=missed.last, started_at=now)
            await self._performer.report(job, run, f"it was not run: {why}.")
        await self._roster.write(
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

    async def _finish(self, job: Job, run: Run) -> None:
        """Try a run until it is done or given up, and write down which.

        Raises:
            ActorStoppedError: The gateway stops; the next start goes on with it.
            OSError: It cannot be written down; doing it again does no harm.
        """
        name = (job.job_id, run.scheduled_at)
        self._in_hand.add(name)
        try:
            await self._try_until_done(job, run)
        finally:
            self._in_hand.discard(name)

    async def _try_until_done(self, job: Job, run: Run) -> None:
        failed_before = _is_failing(self._roster.job_state(job.job_id))
        ended, tries = await self._try(job, run), run.attempt
        while ended.outcome == "failed" and ended.may_retry and tries <= job.retries.most:
            logger.info(
                "a scheduled job is tried again",
                extra={"job": job.job_id, "tries": tries, "error": ended.error},
            )
            name = name_of(job, run.scheduled_at)
            await self._clock.sleep(rules.backoff_s(job.retries, tries, name))
            entry = self._roster.find(job.job_id)
            if entry is None and self._roster.job_state(job.job_id).cancelled:
                ended = Ended(outcome="cancelled", error="the job was called off")
                break
            if entry is None or (self._is_held(entry) and not run.by_hand):
                return  # it stays open, and goes on when it may
            if job.is_once and entry.job.when != job.when:
                ended = Ended(outcome="cancelled", error="the job was moved to another time")
                break
            job = entry.job  # somebody may have set right what failed
            tries += 1
            is_same = ended.is_answered or ended.is_open
            run = self._present(job, run) if is_same else await self._again(job, run)
            ended = await self._try(job, run)
        if ended.outcome == "failed" and (job.is_once or not failed_before):
            after = f" after {tries} tries" if tries > 1 else ""
            error = f"it failed{after}: {ended.error}"
            run = self._present(job, run)
            await self._performer.report(job, run, error, turn=ended.turn)
        done = Finished(
            at=self._clock.now(),
            scheduled_at=run.scheduled_at,
            outcome=ended.outcome,
            turn=ended.turn,
            error=ended.error,
        )
        await self._roster.write(job.job_id, done)
        logger.log(
            logging.WARNING if ended.outcome == "failed" else logging.INFO,
            "a scheduled job has run",
            extra={
                "job": job.job_id,
                "scheduled_at": utc_text(run.scheduled_at),
                "outcome": ended.outcome,
                "tries": tries,
                "error": ended.error,
            },
        )

    def _present(self, job: Job, run: Run) -> Run:
        """Return an open run as it stands now: its task may have been accepted meanwhile."""
        return _open_run(self._roster.job_state(job.job_id), run.scheduled_at)

    async def _again(self, job: Job, run: Run) -> Run:
        """Begin the next try of a run, with a task that is asked anew."""
        again = Began(
            at=self._clock.now(),
            scheduled_at=run.scheduled_at,
            attempt=run.attempt + 1,
            by_hand=run.by_hand,
        )
        return _open_run(await self._roster.write(job.job_id, again), run.scheduled_at)

    async def _try(self, job: Job, run: Run) -> Ended:
        """Try a run once; whatever unexpected goes wrong, the job failed and no other.

        Raises:
            ActorStoppedError: The gateway stops.
            NotWrittenError: It cannot be written down that a session has taken it.
        """
        ended: Ended | None = None

        async def accepted(session_id: str, seq: int) -> None:
            at = self._clock.now()
            record = Accepted(at=at, scheduled_at=run.scheduled_at, session_id=session_id, seq=seq)
            try:
                await self._roster.write(job.job_id, record)
            except OSError as error:
                raise NotWrittenError(str(error)) from error

        async def perform() -> None:
            nonlocal ended
            if not isinstance(job.payload, RunTask):
                ended = await self._performer.perform(job, run, accepted)
                return
            async with self._place():
                ended = await self._performer.perform(job, run, accepted)

        failure = await attempt(perform)
        if failure is None and ended is not None:
            return ended
        if isinstance(failure, NotWrittenError | ActorStoppedError):
            raise failure
        fields = {"job": job.job_id, "scheduled_at": utc_text(run.scheduled_at)}
        logger.error("a scheduled job failed unexpectedly", extra=fields, exc_info=failure)
        return Ended(outcome="failed", error=_unexpected(failure))

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[None]:
        """Hold one of the places for tasks, for as long as a turn works, and a minute at most.

        One that waits for a person, or behind another turn of its chat, keeps nobody else waiting.
        """
        await self._room.acquire()
        held = anyio.CancelScope()

        async def give_back() -> None:
            try:
                with held:
                    await self._clock.sleep(PLACE_S)
            finally:
                self._room.release()

        self._begin("schedules", give_back)
        try:
            yield
        finally:
            held.cancel()

    async def _by_hand(self, job: Job, run: Run) -> None:
        try:
            await self._finish(job, run)
        except ActorStoppedError:
            return
        except OSError as error:
            logger.warning(
                "a scheduled job cannot be written down",
                extra={"job": job.job_id, "error": str(error)},
            )
            self._table.put(job.job_id, later(self._clock.now(), DISK_RETRY_S))

    # --- faults ---

    def _begin(
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
        for run in self._left_open(job_id):
            at, why = self._clock.now(), _unexpected(error)
            failed = Finished(at=at, scheduled_at=run.scheduled_at, outcome="failed", error=why)
            await self._note(job_id, failed)
        self._plan(job_id)
        if self._table.at(job_id) is not None:
            pause_s = DISK_RETRY_S * entry.faults
            self._table.put(job_id, later(self._clock.now(), pause_s))

    def _halt(self, entry: Entry, error: Exception) -> None:
        """Try nothing more of a job until its definition changes, or the gateway is started."""
        why = _unexpected(error)
        entry.halted = f"its handling failed again and again: {why}"
        logger.error("a scheduled job stays down", extra={"job": entry.job_id, "error": why})

    # --- upkeep ---

    async def _note(self, job_id: str, record: Record) -> None:
        try:
            await self._roster.write(job_id, record)
        except OSError as error:
            logger.warning(
                "a scheduled job cannot be written down",
                extra={"job": job_id, "error": str(error)},
            )

    async def _delete_sessions(self, runs: tuple[Run, ...]) -> None:
        """Delete the sessions that tasks had of their own, when no run log names them any more."""
        for session_id in {run.session_id for run in runs} - {""}:
            try:
                state = await self._service.view(session_id)
                if state.key.channel == ISOLATED:
                    await self._service.delete(session_id)
            except UnknownSessionError:
                continue
            except CoreError as error:
                logger.warning(
                    "the session of an old task cannot be deleted",
                    extra={"session_id": session_id, "error": str(error)},
                )

    async def _tidy(self) -> NoReturn:
        """Put away what programs made and is long done, and forget what is long gone."""
        while True:
            now = self._clock.now()
            try:
                for number, entry in enumerate(self._roster.entries(), 1):
                    if number % AT_ONCE == 0:
                        await anyio.lowlevel.checkpoint()
                    last = self._roster.job_state(entry.job_id).last
                    ended_at = last.finished_at if last else entry.job.made.at
                    is_old = ended_at is not None and now - ended_at > DONE_KEPT
                    if is_old and entry.job.made.by in _WRITTEN and self._roster.is_over(entry):
                        await self._roster.book.put_away(entry.job.file)
                for job_id in self._logs.ids():
                    changed = self._logs.last_change(job_id)
                    is_old = changed is not None and now - changed > GONE_KEPT
                    if is_old and self._roster.find(job_id) is None:
                        await self._delete_sessions(self._roster.job_state(job_id).recent)
                        await self._logs.forget(job_id)
            except OSError as error:
                logger.warning("old jobs cannot be put away", extra={"error": str(error)})
            await self._clock.sleep(TIDY_S)


def _open_run(job_state: JobState, scheduled_at: datetime) -> Run:
    return next(run for run in job_state.open if run.scheduled_at == scheduled_at)


def _unexpected(error: Exception | None) -> str:
    """Return what people are told of a fault of ours; the log says more."""
    kind = type(first_cause(error)).__name__ if error is not None else "no outcome"
    return f"an unexpected fault ({kind}); the gateway's log says more"


def _is_failing(job_state: JobState) -> bool:
    """Return whether the newest run that was tried failed."""
    tried = (run for run in reversed(job_state.recent) if run.outcome != "missed")
    return any(run.outcome == "failed" for run in [*tried][:1])


def _fault(field: str, message: str) -> Fault:
    return Fault(file=Path(), field=field, message=message)


@asynccontextmanager
async def open_scheduler(
    folder: Path,
    *,
    timezone: str,
    service: TurnService,
    agents: AgentShelf,
    channels: frozenset[str],
    poster: Poster,
    clock: Clock,
    is_running: Callable[[str], bool],
    supervisor: Supervisor | None = None,
) -> AsyncGenerator[Scheduler]:
    """Open the scheduler of a workspace; nothing runs before `Scheduler.serve`.

    What runs when the block ends goes on at the next start.

    Args:
        folder: Of the jobs: `schedules` in the gateway's workspace.
        timezone: Of jobs that name none; empty = they have to.
        service: The entry point to the conversations.
        agents: Who works, and their own jobs.
        channels: The names of the channels that are set up.
        poster: Sends results to addresses.
        clock: The time.
        is_running: Whether a background process still runs.
        supervisor: Runs what watches the definitions; by default one of its own.
    """
    async with anyio.create_task_group() as tasks:
        yield Scheduler(
            book=JobStore(folder, timezone=timezone),
            logs=RunLogs(folder / RUNS_FOLDER),
            performer=JobRunner(service, poster),
            service=service,
            agents=agents,
            channels=channels,
            clock=clock,
            tasks=tasks,
            is_running=is_running,
            supervisor=supervisor or Supervisor(clock),
        )
        tasks.cancel_scope.cancel()
