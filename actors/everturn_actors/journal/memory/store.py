"""A store in memory, with the semantics of the one on disk."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import chain, islice
from pathlib import Path

from anyio.lowlevel import checkpoint

from everturn_actors.errors import (
    FencedError,
    JournalWriteError,
    UnknownSessionError,
    WorkspaceLockedError,
)
from everturn_actors.events import Event, SessionStarted
from everturn_actors.gaps import Gap
from everturn_actors.ids import is_session_id
from everturn_actors.journal.disk import write_error
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.journal.log.codec import check_end, check_numbers
from everturn_actors.journal.memory.disk import ALL, Failure, MemoryDisk, PowerLostError, Stored
from everturn_actors.journal.results import (
    MEDIA_MAX_BYTES,
    RESULTS_MAX_BYTES,
    check_result_name,
    decode_text,
    encode_text,
)
from everturn_actors.model import Compaction, ConversationKey, Labels
from everturn_actors.ports import ALL_SESSIONS, Loaded, Place, SessionFilter, SessionSummary
from everturn_actors.state.session_state import SessionState

_NOWHERE = Path("memory/workspace.lock")


def _keep(shelf: dict[str, bytes], name: str, data: bytes, *, max_bytes: int) -> None:
    """Keep a file under a name; the oldest others go until all fit."""
    shelf.pop(name, None)
    shelf[name] = data
    total = sum(map(len, shelf.values()))
    for oldest in [*shelf][:-1]:
        if total <= max_bytes:
            break
        total -= len(shelf.pop(oldest))


class _OnDisk:
    """A disk in memory, as all roles of the store see it."""

    def __init__(
        self,
        disk: MemoryDisk,
        *,
        results_max_bytes: int,
        media_max_bytes: int = MEDIA_MAX_BYTES,
    ) -> None:
        self._disk = disk
        self.keyed = MemoryKeyedStore(disk.values)
        "What is kept beside sessions."
        self._results_max_bytes = results_max_bytes
        self._media_max_bytes = media_max_bytes

    async def _powered(self) -> MemoryDisk:
        """Return the disk, after the pause that a real one would cause too."""
        await checkpoint()
        if self._disk.user is not self:
            raise PowerLostError
        return self._disk


class _Logs(_OnDisk):
    """`SessionLogs` in memory."""

    async def load(self, session_id: str) -> Loaded | None:
        """See `SessionStore.load`."""
        stored = (await self._powered()).sessions.get(session_id)
        if stored is None:
            return None
        loaded = _loaded(stored)
        stored.is_torn = False
        return loaded

    async def inspect(self, session_id: str) -> Loaded | None:
        """See `SessionStore.inspect`."""
        stored = (await self._powered()).sessions.get(session_id)
        return None if stored is None else _loaded(stored)

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """See `SessionStore.append`."""
        _check(session_id)
        check_numbers(events, expected_seq)
        disk = await self._powered()
        if not events:
            return
        if disk.stalled is not None:
            await disk.stalled.wait()
        disk.appends += 1
        failure = disk.failures.pop(disk.appends, None)
        if failure is not None and failure.error:
            raise _write_error(failure, session_id)
        stored = disk.sessions.get(session_id) or Stored()
        if stored.is_torn or stored.last_seq != expected_seq:
            message = f"the log ends at event {stored.last_seq}, not at {expected_seq}"
            raise FencedError(message)
        disk.sessions[session_id] = stored
        if failure is not None:
            stored.write(events[: failure.kept_events])
            stored.is_torn = failure.tear
            disk.lose_power()
            raise PowerLostError
        stored.write(events)

    async def save_snapshot(self, state: SessionState, *, compaction: Compaction) -> None:
        """See `SessionStore.save_snapshot`."""
        stored = (await self._powered()).sessions.get(_check(state.session_id))
        if stored is None:
            raise UnknownSessionError(state.session_id)
        if stored.is_torn or state.last_seq > stored.last_seq:
            message = f"the log ends at event {stored.last_seq}, the snapshot at {state.last_seq}"
            raise FencedError(message)
        stored.snapshot = state
        if compaction == "disabled":
            return
        behind = [event for event in stored.log if event.seq <= state.last_seq]
        if compaction == "archive":
            stored.archive += behind
        del stored.log[: len(behind)]

    async def read(
        self, session_id: str, *, after: int, limit: int, at_least: int = 0
    ) -> tuple[Event, ...]:
        """See `SessionStore.read`."""
        stored = (await self._powered()).sessions.get(session_id)
        check_end(stored.last_seq if stored else 0, at_least)
        if stored is None:
            return ()
        events = (event for event in chain(stored.archive, stored.log) if event.seq > after)
        return tuple(islice(events, max(limit, 0)))

    async def explain_gap(self, session_id: str, first: int, last: int) -> tuple[Gap, ...]:
        """See `SessionStore.explain_gap`. What is in memory is let go only on purpose."""
        await self._powered()
        _check(session_id)
        return (Gap(first=first, last=last, cause="discarded"),)

    async def delete(self, session_id: str) -> None:
        """See `SessionStore.delete`."""
        disk = await self._powered()
        disk.active.pop(session_id, None)
        stored = disk.sessions.pop(session_id, None)
        if stored is not None and stored.first is not None:
            body = stored.first.body
            if isinstance(body, SessionStarted) and disk.pointers.get(body.key) == session_id:
                del disk.pointers[body.key]


class _Index(_OnDisk):
    """`SessionIndex` in memory."""

    async def sessions(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.sessions`."""
        stored = (await self._powered()).sessions
        ids = sorted((i for i in stored if not after or i < after), reverse=True)
        summaries = (_summary(session_id, stored[session_id]) for session_id in ids)
        found = (s for s in summaries if s is not None and wanted.admits(s))
        return tuple(islice(found, max(limit, 0)))

    async def recent(
        self, *, before: Place | None, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.recent`."""
        rows = await self.sessions(after="", limit=ALL, wanted=wanted)
        placed = sorted(((row.updated_at, row.session_id), row) for row in rows)
        found = (row for place, row in reversed(placed) if before is None or place < before)
        return tuple(islice(found, max(limit, 0)))

    async def summary(self, session_id: str) -> SessionSummary | None:
        """See `SessionStore.summary`."""
        stored = (await self._powered()).sessions.get(session_id)
        return None if stored is None else _summary(session_id, stored)

    async def agents(self) -> tuple[str, ...]:
        """See `SessionStore.agents`."""
        rows = await self.sessions(after="", limit=ALL)
        return tuple({row.key.agent for row in rows if row.status != "ended"})

    async def idle(self, agent: str, *, before: datetime) -> AsyncGenerator[SessionSummary]:
        """See `SessionStore.idle`."""
        for row in await self.sessions(after="", limit=ALL):
            if row.key.agent == agent and row.status != "ended" and row.updated_at < before:
                yield row

    async def bind(
        self, key: ConversationKey, session_id: str, *, instead_of: str | None = None
    ) -> str:
        """See `SessionStore.bind`."""
        _check(session_id)
        pointers = (await self._powered()).pointers
        if instead_of is None or pointers.get(key, "") == instead_of:
            pointers[key] = session_id
        return pointers.get(key, "")

    async def bound(self, key: ConversationKey) -> str:
        """See `SessionStore.bound`."""
        return (await self._powered()).pointers.get(key, "")

    async def mark_active(self, session_id: str) -> None:
        """See `SessionStore.mark_active`."""
        (await self._powered()).active[_check(session_id)] = None

    async def mark_passive(self, session_id: str) -> None:
        """See `SessionStore.mark_passive`."""
        (await self._powered()).active.pop(session_id, None)

    async def active(self) -> tuple[str, ...]:
        """See `SessionStore.active`."""
        return tuple(sorted((await self._powered()).active))


class _Blobs(_OnDisk):
    """`SessionBlobs` in memory."""

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """See `SessionStore.save_result`."""
        check_result_name(name)
        disk = await self._powered()
        stored = disk.sessions.get(_check(session_id))
        if stored is None:
            raise UnknownSessionError(session_id)
        disk.saved_results += 1
        failure = disk.result_failures.pop(disk.saved_results, None)
        if failure is not None and failure.error:
            raise _write_error(failure, session_id)
        if failure is None or failure.kept_events:
            _keep(stored.results, name, encode_text(text), max_bytes=self._results_max_bytes)
        if failure is not None:
            disk.lose_power()
            raise PowerLostError

    async def read_result(self, session_id: str, name: str) -> str | None:
        """See `SessionStore.read_result`."""
        stored = (await self._powered()).sessions.get(session_id)
        data = None if stored is None else stored.results.get(name)
        return None if data is None else decode_text(data)

    async def save_media(self, session_id: str, name: str, data: bytes) -> None:
        """See `SessionStore.save_media`."""
        check_result_name(name, "a file")
        stored = (await self._powered()).sessions.get(_check(session_id))
        if stored is None:
            raise UnknownSessionError(session_id)
        _keep(stored.media, name, data, max_bytes=self._media_max_bytes)

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """See `SessionStore.read_media`."""
        stored = (await self._powered()).sessions.get(session_id)
        return None if stored is None else stored.media.get(name)


class MemoryStore(_Logs, _Index, _Blobs):
    """`SessionStore` in memory; see there for what each method promises."""


@asynccontextmanager
async def open_memory_store(
    disk: MemoryDisk | None = None,
    *,
    results_max_bytes: int = RESULTS_MAX_BYTES,
    media_max_bytes: int = MEDIA_MAX_BYTES,
) -> AsyncGenerator[MemoryStore]:
    """Open a store on `disk`, or on one of its own that is gone at the end.

    Args:
        disk: What outlives the store.
        results_max_bytes: How much `save_result` keeps of each session.
        media_max_bytes: How much `save_media` keeps of each session.

    Raises:
        WorkspaceLockedError: Another store uses this disk.
    """
    disk = disk or MemoryDisk()
    if disk.user is not None:
        raise WorkspaceLockedError(_NOWHERE, os.getpid())
    store = disk.user = MemoryStore(
        disk, results_max_bytes=results_max_bytes, media_max_bytes=media_max_bytes
    )
    try:
        yield store
    finally:
        if disk.user is store:
            disk.user = None


def _check(session_id: str) -> str:
    if not is_session_id(session_id):
        raise UnknownSessionError(session_id)
    return session_id


def _loaded(stored: Stored) -> Loaded | None:
    after = stored.snapshot.last_seq if stored.snapshot else 0
    events = tuple(event for event in stored.log if event.seq > after)
    if stored.snapshot is None and not events:
        return None
    repairs = ("the last line was not whole; it was cut off",) if stored.is_torn else ()
    return Loaded(snapshot=stored.snapshot, events=events, repairs=repairs)


def _write_error(failure: Failure, session_id: str) -> JournalWriteError:
    error = OSError(failure.error, os.strerror(failure.error))
    return write_error(error, Path("memory", session_id))


def _summary(session_id: str, stored: Stored) -> SessionSummary | None:
    first, updated_at = stored.first, stored.updated_at
    if first is None or updated_at is None or not isinstance(first.body, SessionStarted):
        return None
    return SessionSummary(
        session_id=session_id,
        key=first.body.key,
        status=stored.snapshot.status if stored.snapshot else "active",
        labels=stored.snapshot.labels if stored.snapshot else Labels(),
        created_at=first.at,
        updated_at=updated_at,
        principal=first.body.principal,
        shared_with=stored.snapshot.shared_with if stored.snapshot else (),
    )
