"""The file store: plain files in a workspace, one folder for each session.

`open_file_store` is the only way to get one. It holds the workspace's lock, owns the writer task,
and lets go of both at its end.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from everturn_actors.errors import JournalWriteError, UnknownSessionError
from everturn_actors.events import Event
from everturn_actors.gaps import Gap
from everturn_actors.ids import is_session_id
from everturn_actors.journal import results
from everturn_actors.journal.commit import Append, Mark
from everturn_actors.journal.disk import use_error
from everturn_actors.journal.handles import SessionHandle, SessionHandles
from everturn_actors.journal.health import WriteHealth
from everturn_actors.journal.index import entries as index
from everturn_actors.journal.index.listing import BEGINNING, Listing, Place
from everturn_actors.journal.loading import inspect_session, load_session
from everturn_actors.journal.lock import WorkspaceLock
from everturn_actors.journal.log.codec import check_numbers, encode
from everturn_actors.journal.log.layout import Layout
from everturn_actors.journal.operations import delete_files, explain_files, read_files, save_files
from everturn_actors.journal.results import check_result_name, encode_text
from everturn_actors.journal.writer import Writer
from everturn_actors.model import Compaction, ConversationKey
from everturn_actors.ports import ALL_SESSIONS, Loaded, SessionFilter, SessionSummary
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)


T = TypeVar("T")


READERS_MAX = 8  # worker threads that load, list and save at the same time; disks gain no more


class FileStore:
    """`SessionStore` on plain files; see there for what each method promises.

    What the contract leaves open:

    * An append that was queued is written, also where its caller is cancelled meanwhile.
    * A crash in the middle of an append may leave its first events in the log: they were never
      acknowledged, and each prefix of a log is a log.
    * Where a log ends is kept in memory until `mark_passive`, and read from the file again then.
    """

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

    async def load(self, session_id: str) -> Loaded | None:
        """See `SessionStore.load`."""
        if not is_session_id(session_id):
            return None
        async with self._handles.at(session_id) as handle:
            handle.tail = None
            work = partial(load_session, handle.files)
            found = await self._in_thread(work, handle.files.folder)
            if found is None:
                return None
            loaded, handle.tail = found
            return loaded

    async def inspect(self, session_id: str) -> Loaded | None:
        """See `SessionStore.inspect`."""
        if not is_session_id(session_id):
            return None
        async with self._handles.at(session_id) as handle:  # so that no append is seen half done
            work = partial(inspect_session, handle.files)
            return await self._in_thread(work, handle.files.folder)

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """See `SessionStore.append`."""
        check_numbers(events, expected_seq)
        if not events:
            return
        data = encode(session_id, events)
        handle = await self._handles.take(session_id)
        job = Append(
            files=handle.files,
            data=data,
            expected_seq=expected_seq,
            last_seq=events[-1].seq,
            tail=handle.tail,
        )
        await self._writer.write(job, partial(self._appended, handle, job, events))
        self._note(job)

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

    def _appended(self, handle: SessionHandle, job: Append, events: Sequence[Event]) -> None:
        handle.tail = job.written  # after a failure nothing is known: the next one looks
        if job.written is not None:
            self._listing.note(handle.files.session_id, events)
        self._handles.give_back(handle)

    async def save_snapshot(self, state: SessionState, *, compaction: Compaction) -> None:
        """See `SessionStore.save_snapshot`."""
        async with self._handles.at(state.session_id) as handle:
            known, handle.tail = handle.tail, None
            work = partial(save_files, handle.files, state, compaction, known)
            handle.tail = await self._in_thread(work, handle.files.state)

    async def read(self, session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
        """See `SessionStore.read`."""
        if not is_session_id(session_id):
            return ()
        files = self._layout.session(session_id)
        # What is being appended is not shown before it is durable.
        tail = self._handles.tail(session_id)
        end = tail.size_bytes if tail else None
        return await self._in_thread(partial(read_files, files, after, limit, end), files.log)

    async def explain_gap(self, session_id: str, first: int, last: int) -> tuple[Gap, ...]:
        """See `SessionStore.explain_gap`."""
        files = self._layout.session(session_id)
        return await self._in_thread(partial(explain_files, files, first, last), files.state)

    async def sessions(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.sessions`."""
        work = partial(self._listing.page, after=after, limit=limit, wanted=wanted)
        return await self._in_thread(work, self._layout.sessions)

    async def summary(self, session_id: str) -> SessionSummary | None:
        """See `SessionStore.summary`."""
        if not is_session_id(session_id):
            return None
        work = partial(self._listing.summary, session_id)
        return await self._in_thread(work, self._layout.sessions)

    async def agents(self) -> tuple[str, ...]:
        """See `SessionStore.agents`."""
        return await self._in_thread(self._listing.agents, self._layout.sessions)

    async def idle(self, agent: str, *, before: datetime) -> AsyncGenerator[SessionSummary]:
        """See `SessionStore.idle`."""
        place: Place | None = BEGINNING
        while place is not None:
            work = partial(self._listing.idle, agent, before, place)
            rows, place = await self._in_thread(work, self._layout.sessions)
            for row in rows:
                yield row

    async def keep_index(self) -> None:
        """Keep the index of sessions up to date; never returns."""
        await self._listing.run(partial(self._in_thread, path=self._layout.index))

    async def rebuild_list(self) -> None:
        """Forget the index of sessions, so that it is made anew from their files."""
        await self._in_thread(self._listing.rebuild, self._layout.index)

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """See `SessionStore.save_result`."""
        check_result_name(name)
        data = encode_text(text)
        async with self._handles.at(session_id) as handle:
            files, known, handle.shelf = handle.files, handle.shelf, None
            limit = self._results_max_bytes
            work = partial(
                results.save, files, files.results, name, data, max_bytes=limit, shelf=known
            )
            handle.shelf = await self._in_thread(work, files.results)

    async def read_result(self, session_id: str, name: str) -> str | None:
        """See `SessionStore.read_result`."""
        if not is_session_id(session_id):
            return None
        folder = self._layout.session(session_id).results
        return await self._in_thread(partial(results.read_text, folder, name), folder)

    async def save_media(self, session_id: str, name: str, data: bytes) -> None:
        """See `SessionStore.save_media`."""
        check_result_name(name, "a file")
        async with self._handles.at(session_id) as handle:
            files, known, handle.media = handle.files, handle.media, None
            limit = self._media_max_bytes
            work = partial(
                results.save, files, files.media, name, data, max_bytes=limit, shelf=known
            )
            handle.media = await self._in_thread(work, files.media)

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """See `SessionStore.read_media`."""
        if not is_session_id(session_id):
            return None
        folder = self._layout.session(session_id).media
        return await self._in_thread(partial(results.read, folder, name), folder)

    async def delete(self, session_id: str) -> None:
        """See `SessionStore.delete`."""
        if not is_session_id(session_id):
            return
        async with self._handles.at(session_id) as handle:
            handle.tail = handle.shelf = handle.media = None
            self._active.discard(session_id)
            work = partial(delete_files, self._layout, session_id)
            await self._in_thread(work, handle.files.folder)
            self._listing.forget(session_id)

    async def bind(self, key: ConversationKey, session_id: str) -> None:
        """See `SessionStore.bind`."""
        if not is_session_id(session_id):
            raise UnknownSessionError(session_id)
        work = partial(index.bind, self._layout, key, session_id)
        await self._in_thread(work, self._layout.pointer(key))

    async def bound(self, key: ConversationKey) -> str:
        """See `SessionStore.bound`."""
        work = partial(index.bound, self._layout, key)
        return await self._in_thread(work, self._layout.pointer(key))

    async def mark_active(self, session_id: str) -> None:
        """See `SessionStore.mark_active`. Markers share their syncs with each other."""
        path = self._layout.marker(session_id)
        if session_id in self._active:
            return
        job = Mark(path=path)
        await self._writer.write(job, lambda: None)
        self._note(job)
        self._active.add(session_id)

    async def mark_passive(self, session_id: str) -> None:
        """See `SessionStore.mark_passive`. From here on nothing of the session is in memory."""
        if not is_session_id(session_id):
            return
        self._handles.forget(session_id)
        self._active.discard(session_id)
        work = partial(index.mark_passive, self._layout, session_id)
        await self._in_thread(work, self._layout.marker(session_id))

    async def active(self) -> tuple[str, ...]:
        """See `SessionStore.active`."""
        return await self._in_thread(partial(index.active_ids, self._layout), self._layout.active)

    async def alone(self, session_id: str, work: Callable[[], T]) -> T:
        """Do blocking work on the files of a session while nobody else touches them."""
        async with self._handles.at(session_id) as handle:
            handle.tail = handle.shelf = handle.media = None
            return await self._in_thread(work, handle.files.folder)

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
