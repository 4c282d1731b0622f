"""Whether the workspace can be written: learnt from what failed, and tried out where in doubt."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread

from everturn_actors.errors import JournalWriteError
from everturn_actors.journal.disk import FILE_MODE, write_all, write_error
from everturn_actors.supervisor import Backoff

PROBE_NAME = "write-probe"
_PROBE = bytes(4096)  # a block of most file systems: less may fit where nothing else does
_FREE_DOUBT_BYTES = 1 << 20  # with less free, a write may fail before one has
_BACKOFF = Backoff(first_s=1.0, longest_s=30.0, jitter=0.0)


class WriteHealth:
    """What is known of writing to one workspace.

    A write that failed leaves a doubt: it may have been one session's own. The next `check` tries a
    small synced write, and while that fails again and again, less and less often.
    """

    def __init__(self, workspace: Path, *, now: Callable[[], float] = anyio.current_time) -> None:
        """Begin without a doubt.

        Args:
            workspace: The folder.
            now: The time in seconds; it never goes back.
        """
        self._workspace = workspace
        self._now = now
        self._is_in_doubt = False
        self._fault = ""
        self._failures = 0
        self._not_before = 0.0
        self._checking = anyio.Lock()

    def failed(self) -> None:
        """Take note that something could not be written."""
        self._is_in_doubt = True

    def succeeded(self) -> None:
        """Take note that something was written, durably."""
        if self._is_in_doubt or self._fault:
            self._is_in_doubt, self._fault, self._failures = False, "", 0
            self._not_before = 0.0

    async def check(self) -> str:
        """Return why nothing can be written, in words for the operator; empty where it can."""
        async with self._checking:
            if not self._is_in_doubt:
                self._is_in_doubt = await to_thread.run_sync(_is_nearly_full, self._workspace)
            if self._is_in_doubt and self._now() >= self._not_before:
                try:
                    await to_thread.run_sync(_probe, self._workspace / PROBE_NAME)
                except JournalWriteError as error:
                    self._failures += 1
                    pause_s = _BACKOFF.pause_s(self._failures, 1.0)
                    self._fault, self._not_before = str(error), self._now() + pause_s
                else:
                    self.succeeded()
                    self._not_before = self._now() + _BACKOFF.first_s
            return self._fault


def _is_nearly_full(workspace: Path) -> bool:
    try:
        found = os.statvfs(workspace)
    except OSError:
        return True
    return found.f_bavail * found.f_frsize < _FREE_DOUBT_BYTES


def _probe(path: Path) -> None:
    """Write a small file durably, and remove it.

    Raises:
        JournalWriteError: That failed.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE_MODE)
        try:
            write_all(fd, _PROBE, 0)
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise write_error(error, path) from error
    finally:
        with suppress(OSError):
            path.unlink()
