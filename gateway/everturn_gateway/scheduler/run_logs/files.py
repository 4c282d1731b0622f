"""The run logs: what happened to each job, on disk, and how far that makes it, in memory.

The folder belongs to one process, which the lock of the workspace sees to.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from everturn_channels.files import make_folder, read_kept, replace_kept
from everturn_gateway.errors import Fault, GatewayError
from everturn_gateway.scheduler.jobs import JobState, Run
from everturn_gateway.scheduler.rules.records import Kept, Record, fold_all
from everturn_gateway.scheduler.run_logs.lines import (
    DamagedError,
    Story,
    from_line,
    read_log,
    to_line,
)
from everturn_gateway.scheduler.settings import check_job_id

logger = logging.getLogger(__name__)

LINES_MAX: Final = 100  # a log of more is shortened; each costs some 5 us when a gateway starts
WRITERS: Final = 8  # threads, each with one log
READERS: Final = 2  # threads; one reads while the other decodes, and more get in each other's way
_SUFFIX: Final = ".jsonl"
_TORN: Final = ".torn"
_DRAFT: Final = ".tmp"
_AT_ONCE: Final = 250  # logs that one thread reads before it looks whether it is to stop
_BYTES_MAX: Final = 16 * 1024 * 1024  # of a log; the longest that is written has a tenth of it
_WAY_OUT: Final = "move the file away; the job then begins as if it had never run"


class DamagedLogError(GatewayError, OSError):
    """A run log that cannot be believed is not written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append led to."""

    job_state: JobState
    gone: tuple[Run, ...] = ()
    "The runs that the log names no more, oldest first."


@dataclass(slots=True, kw_only=True, eq=False)
class _Log:
    """What is known of one log."""

    path: Path
    story: Story = field(default_factory=Story)
    fault: Fault | None = None
    "What makes it unfit for use."
    turn: anyio.Lock | None = None
    "Held by whoever writes; made for the first of them."


class RunLogs:
    """The run logs of a workspace; for the event loop alone."""

    def __init__(self, folder: Path) -> None:
        """Know of nothing yet; see `load`.

        Args:
            folder: Where the logs are, `<job id>.jsonl`.
        """
        self._folder = folder
        self._logs: dict[str, _Log] = {}
        self._strays: tuple[Fault, ...] = ()
        self._writers = anyio.CapacityLimiter(WRITERS)
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
        """Read all logs, once, and make their folder where there is none.

        One that is damaged is left as it is: see `damage` and `faults`.

        Raises:
            OSError: The folder cannot be made or listed.
        """
        job_ids, self._strays = await to_thread.run_sync(_list, self._folder)
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
        paths = [self._path(job_id) for job_id in job_ids]
        found = await to_thread.run_sync(_read_logs, paths, limiter=self._readers)
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
            DamagedLogError: The log cannot be believed; an OSError, too.
            OSError: It could not be written, and nothing has changed.
            ValueError: No job can have this id.
        """
        check_job_id(job_id)
        if not records:
            return Appended(job_state=self.job_state(job_id))
        log = self._logs.get(job_id)
        if log is None:
            log = self._logs[job_id] = _Log(path=self._path(job_id))
        log.turn = log.turn or anyio.Lock()
        async with log.turn:
            if log.fault is not None:
                raise DamagedLogError(str(log.fault))
            lines = tuple(map(to_line, records))
            written = tuple(map(from_line, lines))  # as it will be read: with its errors shortened
            folded = fold_all(log.story.job_state, written)
            after = Story(job_state=folded.job_state, last_at=written[-1].at)
            # A write that has begun is waited for, also when cancelled.
            log.story = await to_thread.run_sync(
                _write, log.path, log.story, after, lines, limiter=self._writers
            )
            return Appended(job_state=folded.job_state, gone=folded.gone)

    async def forget(self, job_id: str) -> None:
        """Remove the log of a job that is gone for long, and what was kept beside it.

        Raises:
            DamagedLogError: It is damaged: it is left to the operator.
            OSError: It cannot be removed.
        """
        log = self._logs.get(job_id)
        if log is None:
            return
        turn = log.turn = log.turn or anyio.Lock()
        async with turn:
            if log.fault is not None:
                raise DamagedLogError(str(log.fault))
            await to_thread.run_sync(_remove, log.path, limiter=self._writers)
            log.story = Story()
            if not turn.statistics().tasks_waiting and self._logs.get(job_id) is log:
                del self._logs[job_id]

    def _path(self, job_id: str) -> Path:
        return self._folder / f"{job_id}{_SUFFIX}"


# --- blocking, in a thread -----------------------------------------------------------------------


def _list(folder: Path) -> tuple[list[str], tuple[Fault, ...]]:
    """Return the ids of the jobs that have a log, and what is wrong with other names."""
    make_folder(folder)
    job_ids: list[str] = []
    strays: list[Fault] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(_SUFFIX):
                continue
            try:
                job_ids.append(_job_id(entry))
            except ValueError as error:
                strays.append(Fault(file=folder / entry.name, message=f"{error}; move it away"))
    return job_ids, tuple(strays)


def _job_id(entry: os.DirEntry[str]) -> str:
    """Return the job whose log this is.

    Raises:
        ValueError: It is no log; the text says why.
    """
    try:
        is_file = entry.is_file()
    except OSError as error:  # a link to itself
        raise ValueError(error.strerror) from error
    if not is_file:
        msg = "it is no file"
        raise ValueError(msg)
    try:
        return check_job_id(entry.name.removesuffix(_SUFFIX))
    except ValueError as error:
        msg = "its name is not that of a job"
        raise ValueError(msg) from error


def _read_logs(paths: Sequence[Path]) -> list[_Log]:
    return list(map(_read_one, paths))


def _read_one(path: Path) -> _Log:
    try:
        return _Log(path=path, story=read_log(_bytes_of(path)))
    except DamagedError as error:
        line, why = error.line, f"{error.reason}; {_WAY_OUT}"
    except OSError as error:
        line, why = 0, f"it cannot be read: {error.strerror or error}"
    except ValueError as error:
        line, why = 0, f"{error}; {_WAY_OUT}"
    return _Log(path=path, fault=Fault(file=path, line=line, message=why))


def _bytes_of(path: Path) -> bytes:
    """Return what a file holds; nothing where there is none.

    Raises:
        OSError: It is there and cannot be read.
        ValueError: It is larger than any log.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size > _BYTES_MAX:
                msg = f"it has {size} bytes, more than any run log"
                raise ValueError(msg)
            return file.readall()
    except FileNotFoundError:
        return b""


def _write(path: Path, before: Story, after: Story, lines: Sequence[bytes]) -> Story:
    """Make `lines` durable behind what is known of a log; return what it says then.

    Args:
        path: The log.
        before: What it says now.
        after: What it will say; its length is filled in here.
        lines: What is new.

    Raises:
        OSError: That failed; what stood there stands there.
    """
    data = b"".join(lines)
    if before.lines and _extend(path, before.size_bytes, data):
        count, size = before.lines, before.size_bytes
    else:
        jobs = path.parent.parent
        if not jobs.is_dir():  # a new one would look as if all jobs were called off
            raise FileNotFoundError(errno.ENOENT, "the folder of the jobs is gone", str(jobs))
        _keep_found(path, before)
        kept = _kept(before)
        replace_kept(path, kept + data)
        count, size = (1 if kept else 0), len(kept)
    written = replace(after, lines=count + len(lines), size_bytes=size + len(data))
    return _shortened(path, written) if written.lines > LINES_MAX else written


def _extend(path: Path, size_bytes: int, data: bytes) -> bool:
    """Append to a log of this size, durably; return False where it has another size, or is gone.

    Raises:
        OSError: That failed; the log is cut back to where it was.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        if os.fstat(descriptor).st_size != size_bytes:
            return False
        try:
            _write_all(descriptor, data, size_bytes)
            os.fdatasync(descriptor)
        except OSError:
            _cut(path, descriptor, size_bytes)
            raise
    finally:
        os.close(descriptor)
    return True


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        if written <= 0:
            raise OSError(errno.EIO, "the disk took no bytes")
        rest, offset = rest[written:], offset + written


def _cut(path: Path, descriptor: int, size_bytes: int) -> None:
    try:
        os.ftruncate(descriptor, size_bytes)
        os.fdatasync(descriptor)
    except OSError as error:  # the next append sees that the log is too long, and sets it right
        logger.warning(
            "a failed append could not be undone", extra={"path": str(path), "error": str(error)}
        )


def _keep_found(path: Path, story: Story) -> None:
    """Keep a log that is not as it was left, beside it.

    Raises:
        OSError: It cannot be kept, and must not be replaced.
    """
    try:
        found = read_kept(path)
    except ValueError as error:
        raise OSError(errno.EFBIG, f"{error}; move it away", str(path)) from error
    if not found and not story.lines:
        return
    aside = path.with_name(f"{path.name}{_TORN}")
    if found:
        replace_kept(aside, found)
    logger.warning(
        "a run log was not as it was left: a crash cut a write short, or it was changed by hand; "
        "it is written anew from what is known",
        extra={
            "path": str(path),
            "kept_as": str(aside) if found else "",
            "found_bytes": len(found or b""),
            "expected_bytes": story.size_bytes,
        },
    )


def _kept(story: Story) -> bytes:
    """Return the line that says all that a log says; nothing for one that says nothing."""
    if story.last_at is None:
        return b""
    return to_line(Kept(at=story.last_at, job_state=story.job_state))


def _shortened(path: Path, story: Story) -> Story:
    """Replace a log by one line that says the same; where that fails, it stays long for now."""
    kept = _kept(story)
    try:
        replace_kept(path, kept)
    except OSError as error:
        logger.warning(
            "a run log could not be shortened", extra={"path": str(path), "error": str(error)}
        )
        return story
    return replace(story, lines=1, size_bytes=len(kept))


def _remove(path: Path) -> None:
    """Remove a log and what stands beside it; after a crash it may be there again."""
    for name in (path.name, f"{path.name}{_TORN}", f"{path.name}{_DRAFT}"):
        path.with_name(name).unlink(missing_ok=True)
