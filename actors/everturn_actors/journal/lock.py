"""The lock that keeps a second process out of a workspace. Blocking, and quick.

A lock is advisory and belongs to the open file: the kernel lets go of it when the process ends,
however it ends, so that nothing is left to clean up after a crash. It also belongs to the file and
not to its name: who removes the file and makes another one can lock that. So the folder is locked
as well, whose name nobody removes in passing, and the holder looks whether the names still lead to
what it has locked.
Source: flock(2), Linux man-pages, read 2026-11-21.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from everturn_actors.errors import WorkspaceLockedError, WorkspaceLostError
from everturn_actors.journal.disk import open_for_writing, write_all, write_error

logger = logging.getLogger(__name__)

_PID_BYTES = 32  # more than any pid has


class WorkspaceLock:
    """A workspace that this process holds."""

    def __init__(self, held: Iterable[tuple[Path, int]]) -> None:
        """Only `take_lock` makes one, of paths and the descriptors that are locked."""
        self._held = tuple(held)
        # An open descriptor stays at its file, so each look needs no more than the path's.
        self._places = tuple((path, str(path), _identity(os.fstat(fd))) for path, fd in self._held)
        self._lost_path: Path | None = None

    def check(self) -> None:
        """Do nothing while the workspace is still the one that was locked.

        Once it was not, it never is again: another process may have been here meanwhile.

        Raises:
            WorkspaceLostError: What was locked has been removed or replaced.
        """
        if self._lost_path is None:
            for path, place, identity in self._places:
                if not _is_at(place, identity):
                    self._lost_path = path
                    break
        if self._lost_path is not None:
            raise WorkspaceLostError(self._lost_path)

    def release(self) -> None:
        """Let go. The file stays: removing it would let two processes hold "the" lock."""
        _close(self._held)


def take_lock(workspace: Path, path: Path) -> WorkspaceLock:
    """Take the lock of a workspace.

    Args:
        workspace: The folder; it exists.
        path: The lock file in it, which names the process.

    Raises:
        WorkspaceLockedError: Another store holds it, in this process or another one.
        JournalWriteError: The lock file cannot be written.
    """
    held: list[tuple[Path, int]] = []
    try:
        # First: where it is taken, no new lock file is left behind.
        folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
        held.append((workspace, folder))
        _lock_folder(folder, workspace, path)
        file = open_for_writing(path, create=True)
        held.append((path, file))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        write_all(file, b"%d\n" % os.getpid(), 0)
    except BaseException as error:
        _close(held)
        if isinstance(error, BlockingIOError):
            raise WorkspaceLockedError(path, _holder(path)) from None
        if isinstance(error, OSError):
            raise write_error(error, path) from error
        raise
    return WorkspaceLock(held)


def _lock_folder(fd: int, workspace: Path, path: Path) -> None:
    """Lock the folder where its file system can do that; on NFS only the file is locked.

    Source: flock(2), NFS details: "to place an exclusive lock, fd must be open for writing"
    (Linux man-pages, read 2026-11-22); a folder cannot be.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        logger.info(
            "this file system does not lock folders; only the lock file keeps others out",
            extra={"workspace": str(workspace), "path": str(path), "error": str(error)},
        )


def _close(held: Iterable[tuple[Path, int]]) -> None:
    for _, fd in held:
        os.close(fd)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_at(place: str, identity: tuple[int, int]) -> bool:
    """Return whether `place` still leads to the file of that identity. Each batch asks."""
    try:
        status = os.stat(place)  # a `Path` makes its text anew with each look
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # the disk fails: that proves nothing, and whoever writes will see it
        return True
    return (status.st_dev, status.st_ino) == identity


def _holder(path: Path) -> int:
    """Return the process that a lock file names; 0 where there is none."""
    text = b""
    with suppress(OSError), path.open("rb") as file:
        text = file.read(_PID_BYTES).strip()
    return int(text) if text.isdigit() else 0
