"""What the roles of the file store share: the workspace, its lock, and worker threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from everturn_actors.errors import JournalWriteError
from everturn_actors.journal.commit import Append, Mark
from everturn_actors.journal.disk import use_error
from everturn_actors.journal.handles import SessionHandles
from everturn_actors.journal.health import WriteHealth
from everturn_actors.journal.index.listing import Listing
from everturn_actors.journal.lock import WorkspaceLock
from everturn_actors.journal.log.layout import Layout
from everturn_actors.journal.writer import Writer

T = TypeVar("T")


READERS_MAX = 8  # worker threads that load, list and save at the same time; disks gain no more


class OnFiles:
    """One workspace, as all roles of the store see it."""

    def __init__(
        self,
        layout: Layout,
        writer: Writer,
        lock: WorkspaceLock,
        listing: Listing,
        *,
        results_max_bytes: int,
        media_max_bytes: int,
    ) -> None:
        self._layout = layout
        self._writer = writer
        self._lock = lock
        self._listing = listing
        self._results_max_bytes = results_max_bytes
        self._media_max_bytes = media_max_bytes
        self._handles = SessionHandles(layout.session)
        self._active = set[str]()
        "Sessions whose marker is known to be durable."
        self._threads = anyio.CapacityLimiter(READERS_MAX)
        self.health = WriteHealth(layout.workspace)
        "Whether anything can be written."

    @property
    def waiting(self) -> int:
        """How many appends and marks wait for the disk."""
        return self._writer.waiting

    @property
    def layout(self) -> Layout:
        """Where the files are."""
        return self._layout

    async def alone(self, session_id: str, work: Callable[[], T]) -> T:
        """Do blocking work on the files of a session while nobody else touches them."""
        async with self._handles.at(session_id) as handle:
            handle.tail = handle.shelf = handle.media = None
            return await self._in_thread(work, handle.files.folder)

    def _note(self, job: Append | Mark) -> None:
        """Take note of what became of a job.

        Raises:
            JournalError: It was not done.
        """
        if job.error is None:
            self.health.succeeded()
            return
        if isinstance(job.error, JournalWriteError):
            self.health.failed()
        raise job.error

    async def _in_thread(self, work: Callable[[], T], path: Path) -> T:
        """Do blocking work on `path` in a worker thread, while the workspace is our own."""

        def checked() -> T:
            self._lock.check()
            return work()

        try:
            return await to_thread.run_sync(checked, limiter=self._threads)
        except JournalWriteError:
            self.health.failed()
            raise
        except OSError as error:
            self.health.failed()
            raise use_error(error, Path(error.filename or path)) from error
