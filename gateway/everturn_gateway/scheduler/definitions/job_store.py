"""The folder of job files: read, watched, and written to.

What people wrote is never changed: new jobs are new files, and a file that is called off is moved.
Nothing in these files is expanded: the texts of tools and callers stay what they are, `${NAME}`
too.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_gateway.errors import ConfigError, Fault, UnreadableNowError, printable
from everturn_gateway.folders import make_folder, sync_folder
from everturn_gateway.scheduler.definitions.making import Source, dated, job_of
from everturn_gateway.scheduler.definitions.reading import file_time
from everturn_gateway.scheduler.definitions.settings import (
    JobSettings,
    check_job_id,
    made_section,
    section_text,
)
from everturn_gateway.scheduler.jobs import Job, Made
from everturn_gateway.yaml_files import check, read_document
from everturn_gateway.yaml_files.watching import POLL_MS, WatchFilter, watch_folder

logger = logging.getLogger(__name__)

MAX_FILE_BYTES: Final = 256 * 1024  # several times the longest text that a job may have
CANCELLED: Final = "cancelled"
CANCELLED_KEPT: Final = 200  # files there, the newest
_SUFFIXES: Final = (".yaml", ".yml")

_Stamp: TypeAlias = tuple[int, int, int, int]
"What changes with every change of a file: two times, size, inode."


class Page(Struct, frozen=True, kw_only=True):
    """All that stands in the folder at one moment."""

    jobs: tuple[Job, ...] = ()
    "By the name of their file; no two have one id."
    faults: tuple[Fault, ...] = ()
    "Why files, or fields in them, are set aside; by the name of the file."
    quarantined: frozenset[str] = frozenset()
    "The ids of jobs that may be meant by what is set aside."
    may_pass: bool = False
    "Whether something of it could only not be read now: it has to be looked at again."


class _Leaf(Struct, frozen=True, kw_only=True):
    """One file as it was read."""

    stamp: _Stamp | None = None
    "None: it is looked at each time."
    ids: frozenset[str]
    "The id of its job; of a file that is set aside, every one that it may be meant to have."
    job: Job | None = None
    faults: tuple[Fault, ...] = ()
    may_pass: bool = False
    "Whether it could only not be read now."


class _Leaves(Struct, frozen=True, kw_only=True):
    """What is known of the folder; replaced as a whole."""

    by_name: Mapping[str, _Leaf] = field(default_factory=dict[str, _Leaf])
    owners: Mapping[str, str] = field(default_factory=dict[str, str])
    "By job id: the name of the file it comes from."
    page: Page = field(default_factory=Page)


class JobStore:
    """The job files in one folder."""

    def __init__(self, folder: Path, *, timezone: str = "") -> None:
        """Make a book of a folder, which need not be there.

        Args:
            folder: `schedules` in the workspace, absolute.
            timezone: Of the workspace, for jobs that name none; empty = there is none.
        """
        self._folder, self._timezone = folder, timezone
        self._leaves = _Leaves()
        self._using = anyio.Lock()

    def job_of(self, section: JobSettings, *, job_id: str, made: Made) -> Job:
        """Return the job that a section describes, which stands in no file yet.

        Raises:
            JobRefusedError: With every fault, by field.
        """
        return job_of(section, job_id=job_id, timezone=self._timezone, made=made)

    def dated(self, section: JobSettings, *, now: datetime) -> JobSettings:
        """Return a section with dates for what is counted from now.

        Raises:
            JobRefusedError: With every fault, by field.
        """
        return dated(section, now=now, timezone=self._timezone)

    def use_timezone(self, timezone: str) -> bool:
        """Read jobs that name no zone in this one from now on; return whether that is another."""
        if timezone == self._timezone:
            return False
        self._timezone = timezone
        self._leaves = _Leaves(
            by_name={
                name: replace(leaf, stamp=None) for name, leaf in self._leaves.by_name.items()
            },
            owners=self._leaves.owners,
            page=self._leaves.page,
        )
        return True

    def look_again(self) -> None:
        """Let the next `read` see what other gateways keep, too; here it always does."""

    async def read(self) -> Page:
        """Read what has changed since the last time, and return all that stands there.

        It is the same object as before where nothing has changed.

        Raises:
            OSError: The folder cannot be read, or is not there any more.
        """
        async with self._using:
            self._leaves = leaves = await anyio.to_thread.run_sync(
                partial(_read_folder, self._folder, self._timezone, self._leaves),
                abandon_on_cancel=True,  # it changes nothing
            )
        return leaves.page

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    async def write(self, job_id: str, section: JobSettings, made: Made) -> str:
        """Write a new job to a file of its own; return its text when it is durable.

        Raises:
            FileExistsError: There is a file of this id, be it one that is set aside.
            ValueError: It can be no id.
            OSError: It cannot be written.
        """
        section = section.model_copy(update={"id": None, "made": made_section(made)})
        text = section_text(section)
        await self.restore(job_id, text)
        return text

    async def restore(self, job_id: str, text: str) -> None:
        """Write the file of a job as it stood; otherwise as `write`."""
        async with self._using:
            self._leaves = await anyio.to_thread.run_sync(
                partial(_write, self._folder, self._timezone, self._leaves, job_id, text)
            )

    async def put_away(self, file: Path) -> None:
        """Move a job's file to `cancelled`, in the place of an older one.

        Return when it is durable. One that is gone already is no error.

        Raises:
            OSError: It cannot be moved.
        """
        async with self._using:
            await anyio.to_thread.run_sync(_put_away, self._folder, file.name)

    async def watch(
        self,
        on_change: Callable[[], Awaitable[object]],
        *,
        poll_ms: int = POLL_MS,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Call `on_change` at first, and whenever a job file changes, until cancelled.

        Args:
            on_change: Reads the book.
            poll_ms: How often to look whether the folder is there; and to call `on_change`, where
                the system cannot tell of changes.
            task_status: Of `TaskGroup.start`; started when no later change can be missed.
        """
        await watch_folder(
            self._folder,
            on_change,
            wanted=_job_files,
            recursive=False,
            poll_ms=poll_ms,
            task_status=task_status,
        )


# --- reading, in a thread ------------------------------------------------------------------------


def _job_files(_root: Path) -> WatchFilter:
    return lambda _change, path: _is_job_file(os.path.basename(path))


def _is_job_file(name: str) -> bool:
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def _page(folder: Path, by_name: Mapping[str, _Leaf], owners: Mapping[str, str]) -> Page:
    jobs: list[Job] = []
    faults: list[Fault] = []
    for name, leaf in by_name.items():
        faults += leaf.faults
        if leaf.job is None:
            continue
        owner = owners[leaf.job.job_id]
        if owner == name:
            jobs.append(leaf.job)
        else:
            message = f"{leaf.job.job_id} is also the id of {folder / owner}"
            faults.append(Fault(file=folder / name, line=1, field="id", message=message))
    quarantined = frozenset(
        job_id for leaf in by_name.values() if leaf.job is None for job_id in leaf.ids
    )
    passes = any(leaf.may_pass for leaf in by_name.values())
    return Page(jobs=tuple(jobs), faults=tuple(faults), quarantined=quarantined, may_pass=passes)


def _read_folder(folder: Path, timezone: str, before: _Leaves) -> _Leaves:
    """Return what stands in the folder; files that did not change are as before."""
    try:
        with os.scandir(folder) as entries:
            found = sorted((e for e in entries if _is_job_file(e.name)), key=lambda e: e.name)
    except FileNotFoundError:
        if before.by_name:  # a disk that is away does not call jobs off
            raise
        return before
    reader = _Reader(folder=folder, real=folder.resolve(), timezone=timezone)
    by_name: dict[str, _Leaf] = {}
    for entry in found:
        leaf = reader.leaf(entry, before.by_name.get(entry.name))
        if leaf is not None:
            by_name[entry.name] = leaf
    if by_name == before.by_name:
        return before
    owners = _owners(by_name, before.owners)
    return _Leaves(by_name=by_name, owners=owners, page=_page(folder, by_name, owners))


def _owners(by_name: Mapping[str, _Leaf], before: Mapping[str, str]) -> dict[str, str]:
    """Return which file each job comes from.

    The one it came from keeps it while it is there, be it set aside for now; or else the first.
    """
    owners = {
        job_id: name
        for job_id, name in before.items()
        if name in by_name and job_id in by_name[name].ids
    }
    for name, leaf in by_name.items():
        if leaf.job is not None:
            owners.setdefault(leaf.job.job_id, name)
    return owners


class _Reader(Struct, frozen=True, kw_only=True):
    """Reads the files of one folder."""

    folder: Path
    real: Path
    "The folder, its links resolved."
    timezone: str

    def leaf(self, entry: os.DirEntry[str], known: _Leaf | None) -> _Leaf | None:
        """Return what a file says; None where it has gone in the meantime."""
        is_link = entry.is_symlink()
        try:
            if is_link and (problem := self._link_problem(entry.name)):
                return self._quarantined(entry.name, problem)
            found = entry.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._quarantined(entry.name, f"cannot be read: {error.strerror or error}")
        stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        if known is not None and known.stamp == stamp:
            return known
        if found.st_size > MAX_FILE_BYTES:
            message = f"is larger than {MAX_FILE_BYTES // 1024} KiB, which no job is"
            return self._quarantined(entry.name, message)
        return self._read(entry.name, stamp, known)

    def _quarantined(self, name: str, message: str) -> _Leaf:
        file = self.folder / name
        return _Leaf(ids=frozenset((file.stem,)), faults=(Fault(file=file, message=message),))

    def _link_problem(self, name: str) -> str:
        """Return why a link is not followed; empty where it may be."""
        try:
            target = (self.folder / name).resolve(strict=True)
        except FileNotFoundError:
            return "is a link that leads nowhere"
        except RuntimeError:
            return "is a link that leads to itself"
        return "" if target.parent == self.real else "is a link that leads out of its folder"

    def _read(self, name: str, stamp: _Stamp, known: _Leaf | None) -> _Leaf | None:
        file = self.folder / name
        # What it was called before it could not be read any more is still its name.
        ids = {file.stem} if known is None else {file.stem, *known.ids}
        try:
            job = self._job(file, file_time(stamp[0]), ids)
        except UnreadableNowError as error:
            return _Leaf(ids=frozenset(ids), faults=error.faults, may_pass=True)
        except ConfigError as error:
            if not os.path.lexists(file):
                return None
            return _Leaf(stamp=stamp, ids=frozenset(ids), faults=error.faults)
        except Exception as error:  # the boundary around one file
            logger.exception("a job cannot be read", extra={"file": printable(str(file))})
            message = f"cannot be read, by a fault of Everturn ({type(error).__name__})"
            return self._quarantined(name, message)
        return _Leaf(stamp=stamp, ids=frozenset((job.job_id,)), job=job)

    def _job(self, file: Path, written_at: datetime | None, ids: set[str]) -> Job:
        """Return the job in a file.

        Adds the id that it gives itself to `ids`, whatever else is wrong.

        Raises:
            ConfigError: With every fault.
        """
        document = read_document(file, None)
        if isinstance(own := document.data.get("id"), str):
            ids.add(own)
        section, faults = check(document, JobSettings)
        if section is None:
            raise ConfigError(faults=faults)
        if section.id is None:
            try:
                check_job_id(file.stem)
            except ValueError as error:
                message = f"is by default the name of the file, {file.stem!r}, and {error}"
                raise ConfigError(faults=[document.fault(("id",), message)]) from None
        return job_of(
            section,
            job_id=section.id or file.stem,
            timezone=self.timezone,
            source=Source(document=document, written_at=written_at),
        )


# --- writing, in a thread ------------------------------------------------------------------------


def _write(folder: Path, timezone: str, before: _Leaves, job_id: str, text: str) -> _Leaves:
    """Write a file durably; return what stands in the folder besides."""
    check_job_id(job_id)  # only such a text may be part of a path
    # What has changed since it was read is seen soon; what has the same name is seen here.
    leaves = before if before.by_name else _read_folder(folder, timezone, before)
    make_folder(folder)
    for name, leaf in leaves.by_name.items():
        if job_id in leaf.ids:
            raise FileExistsError(errno.EEXIST, "its id is that of the job", str(folder / name))
    file, draft = folder / f"{job_id}.yaml", folder / f".{job_id}.yaml.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        _publish(draft, file)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    sync_folder(folder)
    return leaves


def _publish(draft: Path, file: Path) -> None:
    """Give a file its name, as a whole, and never in the place of another one."""
    try:
        os.link(draft, file)
    except FileExistsError:
        raise
    except OSError:  # some file systems have no such links
        if os.path.lexists(file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file)) from None
        draft.rename(file)


def read_text(file: Path) -> str:
    """Return what a job file holds. For a thread.

    Raises:
        OSError: It cannot be read.
    """
    return file.read_text(encoding="utf-8")


def _put_away(folder: Path, name: str) -> None:
    away = folder / CANCELLED
    make_folder(away)
    try:
        (folder / name).replace(away / name)
    except FileNotFoundError:
        return
    sync_folder(away)
    sync_folder(folder)
    with os.scandir(away) as entries:
        files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    found = sorted(files, key=lambda entry: entry.stat(follow_symlinks=False).st_ctime_ns)
    for entry in found[:-CANCELLED_KEPT]:
        os.unlink(entry.path)
