"""Group commit: the one thread through which everything is appended.

What waits is taken in one go, written and synced by the thread; what arrives meanwhile is the next
batch. The writer never waits for a batch to fill: alone, an append costs one write and one sync;
under load, many share them.

The thread is the writer's own, and the event loop hands batches over without a task between: each
turn comes here twice, and a hop through a pool of threads costs it more than the write does.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

import anyio
from msgspec import Struct

from everturn_actors.errors import JournalWriteError, WorkspaceLostError
from everturn_actors.journal.commit import SYNCS_AT_ONCE, Append, Job, Mark, commit
from everturn_actors.journal.places import Places
from everturn_actors.ports import CommitStats

WAITING_JOBS_MAX = 1024  # each is one session's; more sessions than this wait their turn to wait
BATCH_JOBS_MAX = 128  # each holds a file descriptor open while the batch is written
BATCH_BYTES_MAX = 8 * 1024 * 1024  # bounds how long a batch keeps the others waiting

_Batches: TypeAlias = SimpleQueue[Sequence[Job] | None]
"What the thread does, one after the other; None = it ends."


class _Ticket(Struct, kw_only=True, eq=False):
    """A job in the queue."""

    job: Job
    settle: Callable[[], None]
    done: asyncio.Future[None]
    "Cancelled where its caller waits no longer."

    @property
    def size_bytes(self) -> int:
        return len(self.job.data) if isinstance(self.job, Append) else 0


class Writer:
    """Owns the queue of jobs and, while `run` runs, the thread that does them."""

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
        self._room = Places(WAITING_JOBS_MAX)
        self._batch: list[_Ticket] = []
        "What the thread does now."
        self._size_bytes = 0
        "How many bytes of lines that has."
        self._batches: _Batches | None = None
        "Of the thread; None where there is none."
        self._fault: BaseException | None = None
        self._ended = anyio.Event()
        "Set when `run` has nothing more to wait for."
        self._closed = False
        self._why_closed = "the store is closing"

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
        if self._room.free:
            self._room.free -= 1
        else:
            try:
                await self._room.wait()
            except BaseException:
                settle()
                raise
        ticket = _Ticket(job=job, settle=settle, done=asyncio.get_running_loop().create_future())
        if self._closed:
            self._refuse(ticket)
            return
        self._waiting.append(ticket)
        self._hand_over()
        await ticket.done

    def close(self) -> None:
        """Take nothing more; `run` does what waits and ends."""
        self._closed = True
        self._look_whether_ended()

    async def run(self) -> None:
        """Have the queue worked through until it is closed and empty.

        A fault that is none of a job's own ends it: the jobs of that batch are refused, the others
        wait until it is run again, or for `stop`.
        """
        self._fault, self._ended = None, anyio.Event()
        self._batches = SimpleQueue()
        work = (self._batches, asyncio.get_running_loop())
        Thread(target=self._work, args=work, name="journal writer", daemon=True).start()
        try:
            self._hand_over()
            self._look_whether_ended()
            await self._ended.wait()
        finally:
            batches, self._batches, self._ended = self._batches, None, anyio.Event()
            if self._batch:  # outcomes are true, also where this task was cancelled meanwhile
                with anyio.CancelScope(shield=True):
                    await self._ended.wait()
            batches.put(None)
        if self._fault is not None:
            raise self._fault

    def stop(self, why: str = "") -> None:
        """Refuse what waits and whatever comes; `run` is not run again."""
        self._why_closed = why or self._why_closed
        self.close()
        while self._waiting:
            self._refuse(self._waiting.popleft())

    def _hand_over(self) -> None:
        """Give the thread its next batch, where it is free and something waits."""
        if self._batch or self._batches is None or self._fault is not None:
            return
        size_bytes = 0
        while self._waiting and len(self._batch) < BATCH_JOBS_MAX and size_bytes < BATCH_BYTES_MAX:
            self._batch.append(self._waiting.popleft())
            size_bytes += self._batch[-1].size_bytes
        self._size_bytes = size_bytes
        if self._batch:
            self._batches.put([ticket.job for ticket in self._batch])

    def _work(self, batches: _Batches, loop: asyncio.AbstractEventLoop) -> None:
        """Do batches, in the thread, until there are no more."""
        with ThreadPoolExecutor(SYNCS_AT_ONCE - 1, "journal sync") as threads:
            while (jobs := batches.get()) is not None:
                began_s, fault = time.perf_counter(), None
                try:
                    self._commit(jobs, threads)
                except BaseException as error:  # noqa: BLE001 - `run` raises it
                    fault = error
                loop.call_soon_threadsafe(self._done, time.perf_counter() - began_s, fault)
                del jobs  # nobody else may need it until the next batch comes

    def _done(self, took_s: float, fault: BaseException | None) -> None:
        """Settle a batch that the thread is done with."""
        batch, size_bytes, self._batch = self._batch, self._size_bytes, []
        try:
            if fault is None and self._on_batch is not None:
                self._on_batch(
                    CommitStats(jobs=len(batch), size_bytes=size_bytes, duration_s=took_s)
                )
        except Exception as error:  # noqa: BLE001 - `run` raises it
            fault = error
        self._fault = fault
        self._hand_over()  # first: the disk works while those wake that waited for it
        for ticket in batch:
            if _is_done(ticket.job):
                self._settle(ticket)
            else:
                self._refuse(ticket)
        self._look_whether_ended()

    def _look_whether_ended(self) -> None:
        is_empty = not self._batch and (self._batches is None or not self._waiting)
        if self._fault is not None or (is_empty and (self._closed or self._batches is None)):
            self._ended.set()

    def _commit(self, jobs: Sequence[Job], threads: Executor) -> None:
        """Do a batch, in the thread."""
        try:
            self._check()
        except WorkspaceLostError as lost:
            for job in jobs:
                job.error = lost
        else:
            commit(jobs, threads)

    def _settle(self, ticket: _Ticket) -> None:
        self._room.give_back()
        ticket.settle()
        if not ticket.done.done():
            ticket.done.set_result(None)

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
