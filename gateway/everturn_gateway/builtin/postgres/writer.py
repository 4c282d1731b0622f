"""Group commit: all appends that wait become durable in one statement, which is one transaction.

An append compares the end of its log in the database, so that of two writers one is fenced. Where
the connection breaks, nobody knows whether the statement was done: it is made again, and what is
fenced then is looked at: an append whose token stands in the row is ours, and was done.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID, uuid4

import anyio
from msgspec import Struct, field

from everturn_actors.errors import FencedError, JournalError, JournalWriteError
from everturn_actors.ports import CommitStats, SessionSummary
from everturn_gateway.builtin.postgres.database import Attempt, Connection, Database
from everturn_gateway.builtin.postgres.faults import LIBRARY_ERRORS
from everturn_gateway.builtin.postgres.guard import Guard
from everturn_gateway.builtin.postgres.rows import as_text, summary_bytes

BATCH_JOBS_MAX: Final = 256
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
COMMIT_S: Final = 30.0  # longer than any commit takes, a standby's answer included
WAITING_MAX: Final = 10_000  # more than that would wait for longer than anybody does

_COMMIT: Final = """
WITH old AS (
    UPDATE session s SET last_seq = w.last, token = w.token, updated = coalesce(w.at, s.updated)
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::uuid[], $5::timestamptz[])
        AS w (id, expected, last, token, at)
    WHERE s.id = w.id AND s.last_seq = w.expected AND w.expected > 0
    RETURNING s.id
), new AS (
    INSERT INTO session (id, last_seq, token, updated, agent, channel, summary)
    SELECT * FROM unnest($6::text[], $7::bigint[], $8::uuid[], $9::timestamptz[], $10::text[],
        $11::text[], $12::bytea[])
    ON CONFLICT DO NOTHING
    RETURNING id
), seen AS (
    INSERT INTO viewer (principal, session)
    SELECT v.principal, v.id FROM unnest($6::text[], $13::text[]) AS v (id, principal)
    JOIN new ON new.id = v.id WHERE v.principal <> ''
    ON CONFLICT DO NOTHING
), done AS (
    SELECT id FROM old UNION ALL SELECT id FROM new
), lines AS (
    INSERT INTO event (session, seq, line)
    SELECT e.session, e.seq, e.line FROM unnest($14::text[], $15::bigint[], $16::bytea[])
        AS e (session, seq, line)
    JOIN done ON done.id = e.session
), marks AS (
    INSERT INTO active SELECT unnest($17::text[]) ON CONFLICT DO NOTHING
)
SELECT id FROM done
"""
_OURS: Final = """
SELECT s.id FROM session s JOIN unnest($1::text[], $2::uuid[], $3::bigint[]) AS w (id, token, last)
ON s.id = w.id AND s.token = w.token AND s.last_seq = w.last
"""


class Append(Struct, kw_only=True, eq=False):
    """Lines for the end of one log."""

    session_id: str
    lines: list[tuple[int, bytes]]
    "Each with its number, its newline included."
    expected_seq: int
    at: datetime | None
    "When something happened; None = nothing that counts."
    begun: SessionSummary | None
    "The row of a session that begins and is told of."
    token: UUID = field(default_factory=uuid4)

    @property
    def last_seq(self) -> int:
        """The number of the last line."""
        return self.lines[-1][0]

    @property
    def size_bytes(self) -> int:
        """Of its lines."""
        return sum([len(line) for _, line in self.lines])


class Mark(Struct, kw_only=True, eq=False):
    """A session that may have an open turn from now on."""

    session_id: str
    size_bytes: int = 0


Job = Append | Mark


class _Ticket(Struct, eq=False):
    """A job, and who waits for it."""

    job: Job
    done: asyncio.Future[JournalError | None]


class Writer:
    """The task that writes; for one event loop."""

    def __init__(
        self, database: Database, guard: Guard, on_batch: Callable[[CommitStats], None]
    ) -> None:
        """Take nothing yet: `run` does."""
        self._database, self._guard, self._on_batch = database, guard, on_batch
        self._waiting: deque[_Ticket] = deque()
        self._changed = anyio.Event()
        self._connection: Connection | None = None
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many jobs wait for the next batch."""
        return len(self._waiting)

    async def write(self, job: Job) -> None:
        """Do a job with the next batch; return when it is durable.

        A caller who is cancelled does not call the job off.

        Raises:
            FencedError: The log does not end where the caller thinks.
            JournalWriteError: It was not written.
        """
        if self._is_closed:
            raise _closing()
        if len(self._waiting) >= WAITING_MAX:
            msg = f"{WAITING_MAX} writes wait for the database {self._database.place} already"
            raise JournalWriteError(msg)
        ticket = _Ticket(job, asyncio.get_running_loop().create_future())
        self._waiting.append(ticket)
        self._changed.set()
        failure = await ticket.done
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Take nothing more; `run` does what waits and ends."""
        self._is_closed = True
        self._changed.set()

    def stop(self) -> None:
        """Refuse what waits; `run` is not run again."""
        self.close()
        while self._waiting:
            _settle(self._waiting.popleft(), _closing())

    async def run(self) -> None:
        """Work through the queue until it is closed and empty."""
        try:
            while self._waiting or not self._is_closed:
                if not self._waiting:
                    self._changed = anyio.Event()
                    await self._changed.wait()
                    continue
                await self._do(self._next())
        finally:
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None

    def _next(self) -> list[_Ticket]:
        """Take a batch off the queue; no session is in it twice."""
        batch: list[_Ticket] = []
        sessions, size_bytes = set[str](), 0
        while self._waiting and len(batch) < BATCH_JOBS_MAX and size_bytes < BATCH_BYTES_MAX:
            job = self._waiting[0].job
            if isinstance(job, Append):
                if job.session_id in sessions:
                    break
                sessions.add(job.session_id)
            batch.append(self._waiting.popleft())
            size_bytes += job.size_bytes
        return batch

    async def _do(self, batch: Sequence[_Ticket]) -> None:
        """Do a batch, and tell each who waits what became of it."""
        began_s = time.perf_counter()
        try:
            failures = await self._commit([ticket.job for ticket in batch])
        except JournalError as error:
            if len(batch) > 1 and not self._database.fault:  # one of them is refused
                for ticket in batch:
                    await self._do([ticket])
                return
            failures = [error] * len(batch)
        except BaseException:
            msg = "the writer of the database failed; whether this was written is not known"
            for ticket in batch:
                _settle(ticket, JournalWriteError(msg))
            raise
        for ticket, failure in zip(batch, failures, strict=True):
            _settle(ticket, failure)
        stats = CommitStats(
            jobs=len(batch),
            size_bytes=sum([ticket.job.size_bytes for ticket in batch]),
            duration_s=time.perf_counter() - began_s,
        )
        self._on_batch(stats)

    async def _commit(self, jobs: Sequence[Job]) -> list[JournalError | None]:
        """Do jobs; return what each failed of.

        Raises:
            JournalError: Nothing was written, as far as anybody can know.
        """
        appends = [job for job in jobs if isinstance(job, Append)]
        marks = [job.session_id for job in jobs if isinstance(job, Mark)]
        try_once = partial(self._try, appends, _columns(appends, marks))
        done = await self._database.trying(try_once, is_write=True)
        return [
            _fenced(job) if isinstance(job, Append) and job.session_id not in done else None
            for job in jobs
        ]

    async def _try(
        self, appends: Sequence[Append], columns: Sequence[object], attempt: Attempt
    ) -> set[str]:
        """Return the sessions whose lines are durable."""
        await self._guard.hold()
        if self._connection is None:
            self._connection = await self._database.connect("everturn writer")
        connection = self._connection
        try:
            rows = await connection.fetch(_COMMIT, *columns, timeout=COMMIT_S)
            done = {row[0] for row in rows}
            if attempt.is_again and (open_ := [a for a in appends if a.session_id not in done]):
                known = [
                    [each.session_id for each in open_],
                    [each.token for each in open_],
                    [each.last_seq for each in open_],
                ]
                done.update([row[0] for row in await connection.fetch(_OURS, *known)])
        except LIBRARY_ERRORS:
            self._connection = None
            connection.terminate()
            raise
        return done


def _columns(appends: Sequence[Append], marks: Sequence[str]) -> list[object]:
    """Return the parameters of `_COMMIT`, rows by id: two writers never wait for each other."""
    ordered = sorted(appends, key=lambda each: each.session_id)
    old = [each for each in ordered if each.expected_seq]
    new = [each for each in ordered if not each.expected_seq]
    rows = [each.begun for each in new]
    lines = [(each.session_id, seq, line) for each in ordered for seq, line in each.lines]
    return [
        [each.session_id for each in old],
        [each.expected_seq for each in old],
        [each.last_seq for each in old],
        [each.token for each in old],
        [each.at for each in old],
        [each.session_id for each in new],
        [each.last_seq for each in new],
        [each.token for each in new],
        [each.at for each in new],
        [as_text(row.key.agent) if row else None for row in rows],
        [as_text(row.key.channel) if row else "" for row in rows],
        [summary_bytes(row) if row else b"" for row in rows],
        [as_text(row.principal) if row else "" for row in rows],
        *([list(column) for column in zip(*lines, strict=True)] or [[], [], []]),
        sorted(set(marks)),
    ]


def _fenced(job: Append) -> FencedError:
    return FencedError(
        f"the log of session {job.session_id} does not end at event {job.expected_seq}: another"
        " writer was there, or it was deleted"
    )


def _closing() -> JournalWriteError:
    return JournalWriteError("the store is closing; nothing was written")


def _settle(ticket: _Ticket, failure: JournalError | None) -> None:
    if not ticket.done.done():
        ticket.done.set_result(failure)
