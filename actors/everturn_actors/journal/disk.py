"""Writing files so that they survive a crash of the machine. Blocking: call it in a worker thread.

A file is durable when its bytes and its name are: the bytes by `fdatasync`, the name by syncing the
directory that holds it.
Source: fsync(2), "Calling fsync() does not necessarily ensure that the entry in the directory
containing the file has also reached disk" (Linux man-pages, read 2026-11-21).
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from everturn_actors.errors import JournalError, JournalWriteError
from everturn_actors.faults import out_of_files

_DIRECTORY_MODE = 0o700  # conversations are private: only the user that runs the gateway
FILE_MODE = 0o600
_NAMES_MAX = 1000  # files set aside with the same stamp; more means that something loops


def write_error(error: OSError, path: Path) -> JournalWriteError:
    """Return `error` in the words of an operator."""
    if (no_files := out_of_files(error, path)) is not None:
        return no_files
    name = errno.errorcode.get(error.errno or 0, "no errno")
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            why = f"the disk is full ({name}); free some space, then try again"
        case errno.EFBIG:
            why = f"the file may not grow any further ({name}); raise the limit on file sizes"
        case errno.EROFS:
            why = f"the disk is read-only ({name}); make it writable, then try again"
        case errno.EACCES | errno.EPERM:
            why = f"this user may not write here ({name}); set owner and permissions right"
        case _:
            why = f"writing failed: {error.strerror or error} ({name})"
    return JournalWriteError(why, path=path)


def use_error(error: OSError, path: Path) -> JournalError:
    """Return `error`, of reading or of looking after files, in the words of an operator."""
    no_files = out_of_files(error, path)
    return no_files or JournalError(f"cannot be used: {error.strerror or error}", path=path)


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all of `data` at `offset`, however many calls that takes."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, offset)
        if written <= 0:
            raise OSError(errno.EIO, "the disk took no bytes")
        rest, offset = rest[written:], offset + written


def make_directory(path: Path) -> None:
    """Create a directory, and those above it; return when their names are durable."""
    if path.is_dir():
        return
    if path.parent != path:
        make_directory(path.parent)
    try:
        path.mkdir(mode=_DIRECTORY_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_for_writing(path: Path, *, create: bool) -> int:
    """Return a descriptor for reading and writing; the caller closes it."""
    return os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), FILE_MODE)


def touch(path: Path) -> None:
    """Create an empty file; its name is durable once the directory is synced."""
    os.close(open_for_writing(path, create=True))


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`: after a crash the old file stands there or the new one."""
    temporary = path.with_name(f"{path.name}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        try:
            write_all(fd, data, 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def cut(path: Path, size_bytes: int) -> None:
    """Shorten a file, durably."""
    fd = open_for_writing(path, create=False)
    try:
        os.ftruncate(fd, size_bytes)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def remove(path: Path) -> None:
    """Remove a file if it is there; not durable before the directory is synced."""
    path.unlink(missing_ok=True)


def quarantine_path(path: Path, why: str) -> Path:
    """Return a free name beside `path`, stamped with the time at which it was last written.

    `events.jsonl` and `torn` give `events.jsonl.torn-20261121T224956123456Z`.
    """
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    name = f"{path.name}.{why}-{written:%Y%m%dT%H%M%S%fZ}"
    for number in range(1, _NAMES_MAX):
        free = path.with_name(name if number == 1 else f"{name}-{number}")
        if not free.exists():
            return free
    raise OSError(errno.EEXIST, f"{_NAMES_MAX} files are set aside as {name}; look into them")
