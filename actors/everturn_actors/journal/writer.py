"""Group commit: the one task through which everything is appended.

What waits is taken in one go, written and synced in one hop to a worker thread; what arrives
meanwhile is the next batch. The writer never waits for a batch to fill: alone, an append costs one
write and one sync; under load, many share them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio import to_thread

from everturn_actors.errors import JournalWriteError, WorkspaceLostError
from everturn_actors.journal.commit import Append, Job, Mark, commit
from everturn_actors.ports import CommitStats

WAITING_JOBS_MAX = 1024  # each is one session's; more sessions than this wait their turn to wait
BATCH_JOBS_MAX = 128  # each holds a file descriptor open while the batch is written
BATCH_BYTES_MAX = 8 * 1024 * 1024  # bounds how long a batch keeps the others waiting


@dataclass(slots=True, kw_only=True, eq=False)
class _Ticket:
    """A job in the queue."""

    job: Job
    settle: Callable[[], None]
    done: anyio.Event

    @property
    def size_bytes(self) -> int:
        return len(self.job.data) if isinstance(self.job, Append) else 0


class Writer:
    """Owns the queue of jobs. `run` is its task; it ends after `close`, when the queue is empty."""

    def __init__(
        self, check: Callable[[], None], on_batch: Callable[[CommitStats], None] | None = None
    ) -> None:
        """Begin with an empty queue.

        Args:
            check: Is called before each batch, in its thread; raises `WorkspaceLostError` where
                nothing may be written any more.
            on_batch: Is told of each batch, on the event loop.
        """
        self._check = check
        self._on_batch = on_batch
        self._waiting: deque[_Ticket] = deque()
        self._room = anyio.Semaphore(WAITING_JOBS_MAX, fast_acquire=True)
        self._wake = anyio.Event()
        self._closed = False
        self._why_closed = "the store is closing"
        # Its own limit: appends do not queue behind reads and whatever else uses worker threads.
        self._thread = anyio.CapacityLimiter(1)

    @property
    def waiting(self) -> int:
        """How many jobs wait for the next batch."""
        return len(self._waiting)

    async def write(self, job: Job, settle: Callable[[], None]) -> None:
        """Do `job` with the next batch and return when its outcome is set on it.

        `settle` is called exactly once, when the job is done or refused. A caller that is cancelled
        before its job is queued takes it back; after that the job is done without it.

        There is no deadline: what the disk has begun cannot be called off, and an append whose
        outcome is unknown must not be reported as failed.
        """
        try:
            await self._room.acquire()
        except BaseException:
            settle()
            raise
        ticket = _Ticket(job=job, settle=settle, done=anyio.Event())
        if self._closed:
            self._refuse(ticket)
            return
        self._waiting.append(ticket)
        self._wake.set()
        await ticket.done.wait()

    def close(self) -> None:
        """Take nothing more; `run` does what waits and ends."""
        self._closed = True
        self._wake.set()

    async def run(self) -> None:
        """Work through the queue until it is closed and empty.

        A fault that is none of a job's own ends it: the jobs of that batch are refused, the others
        wait until it is run again, or for `stop`.
        """
        while self._waiting or not self._closed:
            if self._waiting:
                await self._write_batch()
            else:
                self._wake = anyio.Event()
                await self._wake.wait()

    def stop(self, why: str = "") -> None:
        """Refuse what waits and whatever comes; `run` is not run again."""
        self._why_closed = why or self._why_closed
        self.close()
        while self._waiting:
            self._refuse(self._waiting.popleft())

    async def _write_batch(self) -> None:
        batch: list[_Ticket] = []
        size = 0
        while self._waiting and len(batch) < BATCH_JOBS_MAX and size < BATCH_BYTES_MAX:
            batch.append(self._waiting.popleft())
            size += batch[-1].size_bytes
        began_s = time.perf_counter()
        try:
            jobs = [ticket.job for ticket in batch]
            await to_thread.run_sync(self._commit, jobs, limiter=self._thread)
            took_s = time.perf_counter() - began_s
            if self._on_batch is not None:
                self._on_batch(CommitStats(jobs=len(batch), size_bytes=size, duration_s=took_s))
        finally:
            # The thread has ended also where this task was cancelled meanwhile: outcomes are true.
            for ticket in batch:
                if _is_done(ticket.job):
                    self._settle(ticket)
                else:
                    self._refuse(ticket)

    def _commit(self, jobs: Sequence[Job]) -> None:
        """Do a batch in a worker thread."""
        try:
            self._check()
        except WorkspaceLostError as lost:
            for job in jobs:
                job.error = lost
        else:
            commit(jobs)

    def _settle(self, ticket: _Ticket) -> None:
        self._room.release()
        ticket.settle()
        ticket.done.set()

    def _refuse(self, ticket: _Ticket) -> None:
        ticket.job.error = JournalWriteError(f"{self._why_closed}; nothing was written")
        self._settle(ticket)


def _is_done(job: Job) -> bool:
    """Return whether the outcome of a job is known."""
    match job:
        case Append():
            return job.written is not None or job.error is not None
        case Mark():
            return job.is_durable or job.error is not None
