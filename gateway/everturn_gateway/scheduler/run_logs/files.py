"""The run logs: what happened to each job, durably, and how far that makes it, in memory.

They belong to one process, which the lock of the workspace sees to.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.errors import ConflictError, JournalError
from everturn_actors.ports import KeyedStore
from everturn_gateway.errors import Fault, GatewayError
from everturn_gateway.scheduler.definitions.settings import check_job_id
from everturn_gateway.scheduler.jobs import JobState, Run
from everturn_gateway.scheduler.rules.records import Kept, Record, fold_all
from everturn_gateway.scheduler.run_logs.lines import (
    DamagedError,
    Story,
    from_line,
    read_log,
    to_line,
)

logger = logging.getLogger(__name__)

RUNS_FOLDER: Final = "schedules/runs/"  # of keys
LINES_MAX: Final = 100  # a log of more is shortened; each costs some 5 us when a gateway starts
READERS: Final = 2  # one reads while the other decodes, and more get in each other's way
_SUFFIX: Final = ".jsonl"
_AT_ONCE: Final = 250  # logs that are read at a time
_WAY_OUT: Final = "move the file away; the job then begins as if it had never run"


class RunLogError(GatewayError, OSError):
    """A run log cannot be written."""


class DamagedLogError(RunLogError):
    """A run log that cannot be believed is not written to."""


class Appended(Struct, frozen=True, kw_only=True):
    """What an append led to."""

    job_state: JobState
    gone: tuple[Run, ...] = ()
    "The runs that the log names no more, oldest first."


class _Log(Struct, kw_only=True, eq=False):
    """What is known of one log."""

    key: str
    story: Story = field(default_factory=Story)
    fault: Fault | None = None
    "What makes it unfit for use."
    turn: anyio.Lock | None = None
    "Held by whoever writes; made for the first of them."


class RunLogs:
    """The run logs of a gateway; for the event loop alone."""

    def __init__(self, store: KeyedStore, folder: str = RUNS_FOLDER) -> None:
        """Know of nothing yet; see `load`.

        Args:
            store: Where the logs are.
            folder: Of their keys, `<job id>.jsonl`.
        """
        self._store, self._folder = store, folder
        self._logs: dict[str, _Log] = {}
        self._strays: tuple[Fault, ...] = ()
        self._readers = anyio.CapacityLimiter(READERS)

    # --- asking ---

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs that have a log, sorted."""
        logs = self._logs.items()
        return tuple(sorted(job_id for job_id, log in logs if log.story.lines or log.fault))

    def job_state(self, job_id: str) -> JobState:
        """Return how far a job is; `JobState()` where it has no log, or one that is damaged."""
        log = self._logs.get(job_id)
        return JobState() if log is None else log.story.job_state

    def last_change(self, job_id: str) -> datetime | None:
        """Return when something was last written down of a job; None = never, or who knows."""
        log = self._logs.get(job_id)
        return None if log is None else log.story.last_at

    def damage(self, job_id: str) -> str:
        """Return why a job must not run: its log is damaged; empty = it is not."""
        log = self._logs.get(job_id)
        return "" if log is None or log.fault is None else f"its run log is damaged: {log.fault}"

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong with the logs, by file; such jobs must not run."""
        damaged = [log.fault for log in self._logs.values() if log.fault is not None]
        return tuple(sorted((*damaged, *self._strays), key=lambda fault: fault.file))

    # --- reading ---

    async def load(self) -> None:
        """Read all logs; again, where another process writes them.

        One that is damaged is left as it is: see `damage` and `faults`.

        Raises:
            RunLogError: They cannot be listed.
        """
        with _translated():
            keys = await self._store.list(self._folder)
        names = [key.removeprefix(self._folder) for key in keys if key.endswith(_SUFFIX)]
        job_ids = [name.removesuffix(_SUFFIX) for name in names if _is_log(name)]
        self._logs = {each: log for each in job_ids if (log := self._logs.get(each)) is not None}
        self._strays = tuple(
            Fault(
                file=Path(self._store.place(f"{self._folder}{name}")),
                message="its name is not that of a job; move it away",
            )
            for name in names
            if not _is_log(name)
        )
        for stray in self._strays:
            logger.warning("no run log can have this name", extra={"fault": str(stray)})
        async with anyio.create_task_group() as reading:
            for start in range(0, len(job_ids), _AT_ONCE):
                batch = job_ids[start : start + _AT_ONCE]
                reading.start_soon(self._read, batch, name="run logs")

    async def recheck(self) -> None:
        """Look again at the logs that are damaged: somebody may have moved them away."""
        await self._read([job_id for job_id, log in self._logs.items() if log.fault is not None])

    async def _read(self, job_ids: Sequence[str]) -> None:
        if not job_ids:
            return
        async with self._readers:
            read = await self._store.read([self._key(job_id) for job_id in job_ids])
            found = await to_thread.run_sync(self._decoded, job_ids, read)
        for job_id, log in zip(job_ids, found, strict=True):
            known = self._logs.get(job_id)
            if log.fault is not None and (known is None or known.fault != log.fault):
                logger.error("a run log is damaged", extra={"fault": str(log.fault)})
            self._logs[job_id] = log

    # --- writing ---

    async def append(self, job_id: str, *records: Record) -> Appended:
        """Write down what happened to a job; return when it is durable.

        A caller that is cancelled while the disk works waits until that is done: memory and file
        always say the same. There is no deadline for it, for what the disk has begun cannot be
        called off. After a crash the first few of several records may be there without the rest.

        Raises:
            DamagedLogError: The log cannot be believed.
            RunLogError: It could not be written, and nothing has changed.
            ValueError: No job can have this id.
        """
        check_job_id(job_id)
        if not records:
            return Appended(job_state=self.job_state(job_id))
        log = self._logs.get(job_id)
        if log is None:
            log = self._logs[job_id] = _Log(key=self._key(job_id))
        log.turn = log.turn or anyio.Lock()
        async with log.turn:
            if log.fault is not None:
                raise DamagedLogError(str(log.fault))
            lines = tuple(map(to_line, records))
            written = tuple(map(from_line, lines))  # as it will be read: with its errors shortened
            folded = fold_all(log.story.job_state, written)
            after = Story(job_state=folded.job_state, last_at=written[-1].at)
            # A write that has begun is waited for, also when cancelled.
            with _translated():
                log.story = await self._write(log.key, log.story, after, lines)
            return Appended(job_state=folded.job_state, gone=folded.gone)

    async def forget(self, job_id: str) -> None:
        """Remove the log of a job that is gone for long, and what was kept beside it.

        Raises:
            DamagedLogError: It is damaged: it is left to the operator.
            RunLogError: It cannot be removed.
        """
        log = self._logs.get(job_id)
        if log is None:
            return
        turn = log.turn = log.turn or anyio.Lock()
        async with turn:
            if log.fault is not None:
                raise DamagedLogError(str(log.fault))
            with _translated():
                for key in (log.key, self._torn(job_id)):
                    await self._store.delete(key)
            log.story = Story()
            if not turn.statistics().tasks_waiting and self._logs.get(job_id) is log:
                del self._logs[job_id]

    async def _write(self, key: str, before: Story, after: Story, lines: Sequence[bytes]) -> Story:
        """Make `lines` durable behind what is known of a log; return what it says then.

        Args:
            key: Of the log.
            before: What it says now.
            after: What it will say; its length is filled in here.
            lines: What is new.

        Raises:
            JournalError: That failed; what stood there stands there.
        """
        data = b"".join(lines)
        count, size = before.lines, before.size_bytes
        try:
            await self._store.append(key, data, expected_bytes=size)
        except ConflictError:
            kept = _kept(before)
            await self._heal(key, kept + data, before)
            count, size = (1 if kept else 0), len(kept)
        written = replace(after, lines=count + len(lines), size_bytes=size + len(data))
        return await self._shortened(key, written) if written.lines > LINES_MAX else written

    async def _heal(self, key: str, lines: bytes, story: Story) -> None:
        """Write a log anew that is not as it was left, and keep what stood there.

        Raises:
            JournalError: It cannot be kept, and must not be replaced.
        """
        torn = self._torn(key.removeprefix(self._folder).removesuffix(_SUFFIX))
        found, old = await self._store.read([key, torn])
        for each in (found, old):
            if isinstance(each, JournalError):
                raise each
        assert isinstance(found, bytes)
        assert isinstance(old, bytes)
        if found:  # kept first: at no moment is there no log, nor is what stood there lost
            await self._store.rewrite(torn, found, expected_bytes=len(old))
        logger.warning(
            "a run log was not as it was left: a crash cut a write short, or it was changed by "
            "hand; it is written anew from what is known",
            extra={
                "place": self._store.place(key),
                "kept_as": self._store.place(torn) if found else "",
                "found_bytes": len(found),
                "expected_bytes": story.size_bytes,
            },
        )
        await self._store.rewrite(key, lines, expected_bytes=len(found))

    async def _shortened(self, key: str, story: Story) -> Story:
        """Replace a log by one line that says the same; where that fails, it stays long for now."""
        kept = _kept(story)
        try:
            await self._store.rewrite(key, kept, expected_bytes=story.size_bytes)
        except JournalError as error:
            logger.warning("a run log could not be shortened", extra={"error": str(error)})
            return story
        return replace(story, lines=1, size_bytes=len(kept))

    def _decoded(self, job_ids: Sequence[str], read: Sequence[bytes | JournalError]) -> list[_Log]:
        """Return what logs say. Takes a while: not for the event loop."""
        return [self._log(job_id, data) for job_id, data in zip(job_ids, read, strict=True)]

    def _log(self, job_id: str, data: bytes | JournalError) -> _Log:
        key = self._key(job_id)
        try:
            if isinstance(data, JournalError):
                raise data
            return _Log(key=key, story=read_log(data))
        except DamagedError as error:
            line, why = error.line, f"{error.reason}; {_WAY_OUT}"
        except JournalError as error:
            line, why = 0, str(error).removeprefix(f"{self._store.place(key)}: ")
        except ValueError as error:
            line, why = 0, f"{error}; {_WAY_OUT}"
        file = Path(self._store.place(key))
        return _Log(key=key, fault=Fault(file=file, line=line, message=why))

    def _key(self, job_id: str) -> str:
        return f"{self._folder}{job_id}{_SUFFIX}"

    def _torn(self, job_id: str) -> str:
        """Return where a log is kept that was not as it was left."""
        return f"{self._folder}torn/{job_id}{_SUFFIX}"


def _is_log(name: str) -> bool:
    try:
        check_job_id(name.removesuffix(_SUFFIX))
    except ValueError:
        return False
    return True


def _kept(story: Story) -> bytes:
    """Return the line that says all that a log says; nothing for one that says nothing."""
    if story.last_at is None:
        return b""
    return to_line(Kept(at=story.last_at, job_state=story.job_state))


@contextmanager
def _translated() -> Generator[None]:
    """Raise what cannot be read or written as an error of run logs."""
    try:
        yield
    except JournalError as error:
        raise RunLogError(str(error)) from error
