"""Small files that are kept whole: readable for their owner alone, and never half written.

Blocking: not for the event loop.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_READ_MAX: Final = 16 * 1024 * 1024  # bytes; what is larger was not written here
_LOCK_STEP_S: Final = 0.02

Stamp: TypeAlias = tuple[int, int, int, int]
"What changes with a file."


def read_kept(path: Path) -> bytes | None:
    """Return what a file holds; None where there is none.

    Raises:
        OSError: It is there and cannot be read.
        ValueError: It is larger than any that is written here.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
            raise OSError(errno.EINVAL, "it is no file", str(path))
        with path.open("rb") as file:
            data = file.read(_READ_MAX + 1)
    except FileNotFoundError:
        return None
    if len(data) > _READ_MAX:
        msg = f"it has more than {_READ_MAX} bytes"
        raise ValueError(msg)
    return data


def replace_kept(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`, durably: after a crash the old stands there or the new.

    Makes its folder where there is none. Two writers of one path would spoil each other's draft:
    the caller lets one finish first.

    Raises:
        OSError: It could not be written; the old file still stands.
    """
    make_folder(path.parent)
    draft = path.with_name(f"{path.name}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    _sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, for this user alone; their names are then durable.

    Raises:
        OSError: It could not be made.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    _sync_folder(path.parent)


def stamp_of(path: Path) -> Stamp:
    """Return what changes with a file: a write of ours gives it another inode, `chmod` a ctime."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0, 0)
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


@contextmanager
def locked(
    path: Path, *, wait_s: float, by: str, error: Callable[[str], Exception]
) -> Generator[None]:
    """Keep other command lines from writing; the lock goes with the process.

    Args:
        path: Of the lock; it is made, with its folder.
        wait_s: How long to wait for whoever has it.
        by: The command that others may have it for, as people type it.
        error: Makes what is raised where the lock cannot be had.
    """
    try:
        make_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
    except OSError as fault:
        msg = f"{path} cannot be opened: {fault.strerror or fault}"
        raise error(msg) from fault
    try:
        give_up_at = time.monotonic() + wait_s
        while not _lock_now(descriptor):
            if time.monotonic() >= give_up_at:
                msg = f"another `{by}` has held {path} for {wait_s:g} s; try again"
                raise error(msg)
            time.sleep(_LOCK_STEP_S)
        yield
    finally:
        os.close(descriptor)


def _lock_now(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def quarantine(path: Path) -> Path:
    """Rename a damaged file to a free name beside it, `NAME.damaged`.

    Returns:
        Its new name, or the old one where it has to stay.
    """
    aside = path.with_name(f"{path.name}.damaged")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{number}")
    try:
        path.rename(aside)
    except OSError:
        return path
    return aside


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
