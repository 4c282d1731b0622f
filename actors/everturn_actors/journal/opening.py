"""A workspace on disk: taken, kept by one process, given back."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from everturn_actors.errors import WorkspaceLostError
from everturn_actors.journal.disk import make_directory, sync_directory, write_error
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.index.listing import Listing
from everturn_actors.journal.lock import WorkspaceLock, take_lock
from everturn_actors.journal.log.files import REPAIR_HINT
from everturn_actors.journal.log.layout import Layout
from everturn_actors.journal.results import MEDIA_MAX_BYTES, RESULTS_MAX_BYTES
from everturn_actors.journal.writer import Writer
from everturn_actors.ports import CommitStats
from everturn_actors.supervisor import Backoff, RestartPolicy, Supervisor, attempt, contain

logger = logging.getLogger(__name__)

LOCK_LOOK_S = 1.0  # how often an idle process looks whether the workspace is still its own


# Those who wrote wait for it: it does not pause for long, and soon says that it is down.
_WRITER = RestartPolicy(restart="transient", backoff=Backoff(first_s=0.05, longest_s=2.0))


@asynccontextmanager
async def open_file_store(
    workspace: Path,
    *,
    results_max_bytes: int = RESULTS_MAX_BYTES,
    media_max_bytes: int = MEDIA_MAX_BYTES,
    on_batch: Callable[[CommitStats], None] | None = None,
    keeps_index: bool = True,
    supervisor: Supervisor | None = None,
) -> AsyncGenerator[FileStore]:
    """Open the workspace, creating it where it is missing, and keep others out until the end.

    At the end everything that was queued is written; after that every append is refused.

    Args:
        workspace: The folder.
        results_max_bytes: How much `save_result` keeps of each session.
        media_max_bytes: How much `save_media` keeps of each session.
        on_batch: Is told of each group commit, on the event loop; never raises.
        keeps_index: Keep the index of sessions up to date; whoever only looks leaves it.
        supervisor: Starts the task anew that writes, where it fails; None = it is given up then,
            and every append is refused.

    Raises:
        WorkspaceLockedError: Another process, or another store of this one, has it open.
        WorkspaceLostError: The lock was removed or replaced meanwhile; the block is cancelled.
        JournalWriteError: The workspace cannot be written.
    """
    layout = Layout(workspace=workspace)
    # Before anything is read: nobody else writes from here on.
    lock = await to_thread.run_sync(_enter, layout)
    listing = Listing(layout)
    try:
        writer = Writer(lock.check, on_batch)
        watching, indexing = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_write_on, writer, supervisor, name="journal writer")
            tasks.start_soon(_watch, lock, watching, name="workspace lock")
            try:
                store = FileStore(
                    layout,
                    writer,
                    lock,
                    listing,
                    results_max_bytes=results_max_bytes,
                    media_max_bytes=media_max_bytes,
                )
                if keeps_index:
                    tasks.start_soon(_list_on, store, supervisor, indexing, name="session index")
                yield store
            finally:
                writer.close()  # what waits is still written; then the task group ends
                watching.cancel()
                indexing.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_leave, listing, lock)


async def _watch(lock: WorkspaceLock, scope: anyio.CancelScope) -> None:
    """Look from time to time whether the workspace is still the one that was locked.

    Ends when `scope` is cancelled.

    Raises:
        WorkspaceLostError: It is not.
    """
    look = partial(to_thread.run_sync, lock.check)
    with scope:
        while True:
            await anyio.sleep(LOCK_LOOK_S)
            failure = await attempt(look)
            if isinstance(failure, WorkspaceLostError):
                raise failure
            if failure is not None:  # the next look may succeed, and each batch looks by itself
                logger.error("the lock of the workspace cannot be checked", exc_info=failure)


async def _list_on(
    store: FileStore, supervisor: Supervisor | None, scope: anyio.CancelScope
) -> None:
    """Keep the index of sessions up to date until `scope` is cancelled."""
    with scope:
        if supervisor is None:
            await contain("session index", store.keep_index)
        else:
            await supervisor.run("session index", store.keep_index)


async def _write_on(writer: Writer, supervisor: Supervisor | None) -> None:
    """Keep the writer at work until it is closed or given up; then refuse the rest."""
    try:
        if supervisor is None:
            await contain("journal writer", writer.run)
        else:
            await supervisor.run("journal writer", writer.run, policy=_WRITER, is_needed=True)
    finally:
        writer.stop()  # whoever still waits for a write is told that none comes


def _enter(layout: Layout) -> WorkspaceLock:
    """Make the workspace what it has to be, and lock it."""
    if layout.sessions.is_dir() and not layout.active.is_dir():
        logger.warning(
            "the index of open turns is missing: a turn that was open goes on with the next"
            " message of its session, not by itself; `%s` rebuilds the index",
            REPAIR_HINT,
            extra={"path": str(layout.active)},
        )
    try:
        for folder in layout.folders:
            make_directory(folder)
        for folder in (layout.workspace, *layout.folders):
            sync_directory(folder)  # names that a process gave that was killed before it could
    except OSError as error:
        raise write_error(error, Path(error.filename or layout.workspace)) from error
    lock = take_lock(layout.workspace, layout.lock)
    try:
        for folder in layout.deleted.iterdir():  # what a crash left of deleted sessions
            shutil.rmtree(folder)
    except OSError as error:
        lock.release()
        raise write_error(error, layout.deleted) from error
    return lock


def _leave(listing: Listing, lock: WorkspaceLock) -> None:
    try:
        lock.check()
        listing.write_behind()  # what the cache knows is of use to the next start
    except WorkspaceLostError:
        pass  # whoever is here now has an index of their own
    finally:
        listing.close()
        lock.release()
