"""The lock that keeps a second process out of a workspace. Blocking, and quick.

The lock is advisory and belongs to the open file: the kernel lets go of it when the process ends,
however it ends, so that nothing is left to clean up after a crash.
Source: flock(2), Linux man-pages, read 2026-11-21.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from everturn_actors.errors import WorkspaceLockedError
from everturn_actors.journal.disk import open_for_writing, write_all, write_error

_PID_BYTES = 32  # more than any pid has


def take_lock(path: Path) -> int:
    """Take the lock of a workspace and return what `release_lock` needs.

    Raises:
        WorkspaceLockedError: Another store holds it, in this process or another one.
        JournalWriteError: The lock file cannot be written.
    """
    try:
        fd = open_for_writing(path, create=True)
    except OSError as error:
        raise write_error(error, path) from error
    try:
        _lock(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def release_lock(fd: int) -> None:
    """Let go of a lock. The file stays: removing it would let two processes hold "the" lock."""
    os.close(fd)


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        write_all(fd, b"%d\n" % os.getpid(), 0)
    except BlockingIOError:
        raise WorkspaceLockedError(path, _holder(fd)) from None
    except OSError as error:
        raise write_error(error, path) from error


def _holder(fd: int) -> int:
    text = os.pread(fd, _PID_BYTES, 0).strip()
    return int(text) if text.isdigit() else 0
