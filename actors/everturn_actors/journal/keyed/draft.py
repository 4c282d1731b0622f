"""The draft of a file: what takes its place, and the lock of whoever writes. Blocking.

Several processes write to a workspace: the gateway, and commands beside it. Each writer makes the
same draft and locks it; the lock goes with the process, however it ends, and the draft becomes the
file or is removed, so that nothing is left to clean up.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from everturn_actors.errors import JournalWriteError
from everturn_actors.journal.disk import (
    FILE_MODE,
    make_directory,
    sync_directory,
    write_all,
)

LOCK_WAIT_S: Final = 5.0  # a write takes milliseconds
_LOOK_S: Final = 0.02
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Draft:
    """What will stand in the place of a file. Made by `draft_of`."""

    def __init__(self, path: Path, draft: Path, fd: int) -> None:
        self._path, self._draft, self._fd = path, draft, fd

    def publish(self, data: bytes) -> None:
        """Put `data` in the place of the file; return when that is durable.

        Raises:
            OSError: That failed; what stood there stands there.
        """
        os.ftruncate(self._fd, 0)  # what a crash left of another draft
        write_all(self._fd, data, 0)
        os.fsync(self._fd)
        self._draft.replace(self._path)
        sync_directory(self._path.parent)


@contextmanager
def draft_of(path: Path, *, makes_folder: bool = True) -> Generator[Draft]:
    """Keep all other writers from a file while the block runs.

    Args:
        path: The file, which need not be there.
        makes_folder: Make its folder where there is none. Not where the file has to be there: the
            disk is away then, and a new folder would look as if nothing had ever been kept.

    Raises:
        JournalWriteError: Somebody else has written to it for too long.
        OSError: The draft cannot be made.
    """
    if makes_folder:
        make_directory(path.parent)
    draft = path.with_name(f"{path.name}.tmp")
    fd = _locked(draft, path)
    try:
        yield Draft(path, draft, fd)
    finally:
        try:
            # The name first: what is open under it while it is locked is nobody else's.
            with suppress(OSError):
                if _is_at(draft, fd):
                    draft.unlink()
        finally:
            os.close(fd)


def _locked(draft: Path, path: Path) -> int:
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while True:
        fd = os.open(draft, _FLAGS, FILE_MODE)
        try:
            is_locked = _lock_now(fd)
            if is_locked and _is_at(draft, fd):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() >= give_up_at:
            why = f"another process has been writing to it for {LOCK_WAIT_S:g} s; try again"
            raise JournalWriteError(why, path=path)
        if not is_locked:  # else the one before has just given it its name
            time.sleep(_LOOK_S)


def _lock_now(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True


def _is_at(draft: Path, fd: int) -> bool:
    """Say whether a file that is open still has this name."""
    try:
        found = draft.lstat()
    except FileNotFoundError:
        return False
    own = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)
