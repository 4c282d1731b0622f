"""One run, tried until it is done or given up.

What is tried is written down before, and how it ended after it, so that a kill at any moment is
answered by doing the open step again.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import anyio

from everturn_actors.errors import ActorStoppedError
from everturn_actors.faults import first_cause
from everturn_actors.ports import Clock
from everturn_actors.state.serialization import utc_text
from everturn_actors.supervisor import attempt
from everturn_gateway.scheduler.errors import NotWrittenError
from everturn_gateway.scheduler.job_registry import JobRegistry
from everturn_gateway.scheduler.job_runner import Ended, JobRunner, name_of
from everturn_gateway.scheduler.jobs import Job, JobState, Run, RunTask
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.records import Accepted, Began, Finished

logger = logging.getLogger(__name__)

RUNNING_TASKS: Final = 32  # begin at the same time; those beyond wait, written down as begun
PLACE_S: Final = 60.0  # after which one that still runs makes room for another


class RunAttempts:
    """Tries runs; knows which of them are tried at this moment."""

    def __init__(
        self,
        *,
        registry: JobRegistry,
        runner: JobRunner,
        clock: Clock,
        beside: Callable[[str, Callable[[], Awaitable[None]]], None],
    ) -> None:
        """Begin with none in hand.

        Args:
            registry: The jobs, and the writer of their run logs.
            runner: Does what a job says, once.
            clock: The time.
            beside: Starts something under a name, beside whatever runs.
        """
        self._registry, self._runner, self._clock = registry, runner, clock
        self._beside = beside
        self._room = anyio.Semaphore(RUNNING_TASKS)
        self._in_hand: set[tuple[str, datetime]] = set()

    def is_in_hand(self, job_id: str, scheduled_at: datetime) -> bool:
        """Whether a run is tried at this moment."""
        return (job_id, scheduled_at) in self._in_hand

    def left_open(self, job_id: str) -> tuple[Run, ...]:
        """Return what was begun and is in nobody's hands, oldest first."""
        runs = self._registry.job_state(job_id).open
        return tuple(run for run in runs if not self.is_in_hand(job_id, run.scheduled_at))

    async def begin_by_hand(self, job: Job) -> Run:
        """Write down that a run begins now that a person asked for; `finish` does the rest.

        Raises:
            OSError: It cannot be written.
        """
        now = self._clock.now()
        self._in_hand.add((job.job_id, now))  # nobody else finds it left open
        try:
            return await self._begin(job, scheduled_at=now, number=1, by_hand=True)
        except BaseException:
            self._in_hand.discard((job.job_id, now))
            raise

    async def run_due(self, job: Job, scheduled_at: datetime) -> None:
        """Begin the run of a scheduled time, and finish it; raises what `finish` does."""
        run = await self._begin(job, scheduled_at=scheduled_at, number=1, by_hand=False)
        await self.finish(job, run)

    async def _begin(self, job: Job, *, scheduled_at: datetime, number: int, by_hand: bool) -> Run:
        now = self._clock.now()
        began = Began(at=now, scheduled_at=scheduled_at, attempt=number, by_hand=by_hand)
        return _open_run(await self._registry.write(job.job_id, began), scheduled_at)

    async def finish(self, job: Job, run: Run) -> None:
        """Try a run until it is done or given up, and write down which.

        Raises:
            ActorStoppedError: The gateway stops; the next start goes on with it.
            OSError: It cannot be written down; doing it again does no harm.
        """
        name = (job.job_id, run.scheduled_at)
        self._in_hand.add(name)  # else the next look would find it left open, and run it twice
        try:
            await self._try_until_done(job, run)
        finally:
            self._in_hand.discard(name)

    async def _try_until_done(self, job: Job, run: Run) -> None:
        # People are told of the first failure in a row.
        failed_before = _is_failing(self._registry.job_state(job.job_id))
        ended, tries = await self._try(job, run), run.attempt
        while ended.outcome == "failed" and ended.may_retry and tries <= job.retries.most:
            logger.info(
                "a scheduled job is tried again",
                extra={"job": job.job_id, "tries": tries, "error": ended.error},
            )
            name = name_of(job, run.scheduled_at)
            await self._clock.sleep(rules.backoff_s(job.retries, tries, name))
            entry = self._registry.find(job.job_id)
            if entry is None and self._registry.job_state(job.job_id).cancelled:
                ended = Ended(outcome="cancelled", error="the job was called off")
                break
            if entry is None or (self._registry.is_held(entry) and not run.by_hand):
                return  # it stays open, and goes on when it may
            if job.is_once and entry.job.when != job.when:
                ended = Ended(outcome="cancelled", error="the job was moved to another time")
                break
            job = entry.job  # somebody may have set right what failed
            tries += 1
            # Only its delivery failed: the agent is not asked twice.
            is_same = ended.is_answered or ended.is_open
            run = self._present(job, run) if is_same else await self._again(job, run)
            ended = await self._try(job, run)
        if ended.outcome == "failed" and (job.is_once or not failed_before):
            after = f" after {tries} tries" if tries > 1 else ""
            error = f"it failed{after}: {ended.error}"
            run = self._present(job, run)
            await self._runner.report(job, run, error, turn=ended.turn)
        done = Finished(
            at=self._clock.now(),
            scheduled_at=run.scheduled_at,
            outcome=ended.outcome,
            turn=ended.turn,
            error=ended.error,
        )
        await self._registry.write(job.job_id, done)
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
        return _open_run(self._registry.job_state(job.job_id), run.scheduled_at)

    async def _again(self, job: Job, run: Run) -> Run:
        """Begin the next try of a run, with a task that is asked anew."""
        return await self._begin(
            job, scheduled_at=run.scheduled_at, number=run.attempt + 1, by_hand=run.by_hand
        )

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
                await self._registry.write(job.job_id, record)
            except OSError as error:
                # The task must not go on: nobody would know its session.
                raise NotWrittenError(str(error)) from error

        async def perform() -> None:
            nonlocal ended
            if not isinstance(job.payload, RunTask):
                ended = await self._runner.perform(job, run, accepted)
                return
            async with self._place():  # messages take no place: nothing is worked on for them
                ended = await self._runner.perform(job, run, accepted)

        failure = await attempt(perform)
        if failure is None and ended is not None:
            return ended
        if isinstance(failure, NotWrittenError | ActorStoppedError):
            raise failure
        fields = {"job": job.job_id, "scheduled_at": utc_text(run.scheduled_at)}
        logger.error("a scheduled job failed unexpectedly", extra=fields, exc_info=failure)
        # No retry: it would most likely fail the same way.
        return Ended(outcome="failed", error=unexpected(failure))

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

        self._beside("schedules", give_back)  # beside: its end gives the place back, too
        try:
            yield
        finally:
            held.cancel()


def _open_run(job_state: JobState, scheduled_at: datetime) -> Run:
    return next(run for run in job_state.open if run.scheduled_at == scheduled_at)


def unexpected(error: Exception | None) -> str:
    """Return what people are told of a fault of ours; the log says more."""
    kind = type(first_cause(error)).__name__ if error is not None else "no outcome"
    return f"an unexpected fault ({kind}); the gateway's log says more"


def _is_failing(job_state: JobState) -> bool:
    """Return whether the newest run that was tried failed."""
    tried = (run for run in reversed(job_state.recent) if run.outcome != "misfired")
    return any(run.outcome == "failed" for run in [*tried][:1])
