"""Logs and snapshots in files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from everturn_actors.events import Event
from everturn_actors.gaps import Gap
from everturn_actors.ids import is_session_id
from everturn_actors.journal.commit import Append
from everturn_actors.journal.files.base import OnFiles
from everturn_actors.journal.handles import SessionHandle
from everturn_actors.journal.loading import inspect_session, load_session
from everturn_actors.journal.log.codec import check_end, check_numbers, encode
from everturn_actors.journal.operations import (
    delete_files,
    explain_files,
    read_files,
    save_files,
    tail_of,
)
from everturn_actors.model import Compaction
from everturn_actors.ports import Loaded
from everturn_actors.state.session_state import SessionState


class FileLogs(OnFiles):
    """`SessionLogs` on plain files; see there for what each method promises."""

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

    async def read(
        self, session_id: str, *, after: int, limit: int, at_least: int = 0
    ) -> tuple[Event, ...]:
        """See `SessionStore.read`."""
        if not is_session_id(session_id):
            check_end(0, at_least)
            return ()
        files = self._layout.session(session_id)
        # What is being appended is not shown before it is durable.
        tail = self._handles.tail(session_id)
        end = tail.size_bytes if tail else None
        events = await self._in_thread(partial(read_files, files, after, limit, end), files.log)
        if (events[-1].seq if events else after) < at_least and len(events) < limit:
            if tail is None:
                tail = await self._in_thread(partial(tail_of, files), files.log)
            check_end(tail.last_seq, at_least)
        return events

    async def explain_gap(self, session_id: str, first: int, last: int) -> tuple[Gap, ...]:
        """See `SessionStore.explain_gap`."""
        files = self._layout.session(session_id)
        return await self._in_thread(partial(explain_files, files, first, last), files.state)

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
