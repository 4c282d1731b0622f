"""A `SessionStore` that is timed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime

from everturn_actors.errors import JournalError
from everturn_actors.events import Event
from everturn_actors.gaps import Gap
from everturn_actors.model import Compaction, ConversationKey
from everturn_actors.ports import (
    ALL_SESSIONS,
    CommitStats,
    Loaded,
    Place,
    SessionFilter,
    SessionStore,
    SessionSummary,
)
from everturn_actors.state.session_state import SessionState
from everturn_gateway.telemetry.instruments import Instruments


class _Measured:
    """A store, and where what it does is counted."""

    def __init__(self, store: SessionStore, instruments: Instruments) -> None:
        self._store = store
        self._to = instruments

    @contextmanager
    def _counting(self, operation: str) -> Generator[None]:
        try:
            yield
        except JournalError:
            self._to.journal_errors.add(operation)
            raise


class _Logs(_Measured):
    """`SessionLogs` that are timed."""

    async def load(self, session_id: str) -> Loaded | None:
        """See `SessionStore.load`."""
        began_s = time.perf_counter()
        with self._counting("load"):
            loaded = await self._store.load(session_id)
        if loaded is not None:
            self._to.load_seconds.add(time.perf_counter() - began_s)
        return loaded

    async def inspect(self, session_id: str) -> Loaded | None:
        """See `SessionStore.inspect`."""
        with self._counting("load"):
            return await self._store.inspect(session_id)

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """See `SessionStore.append`."""
        began_s = time.perf_counter()
        try:  # as `_counting` does, without what it costs: each turn comes here twice
            await self._store.append(session_id, events, expected_seq=expected_seq)
        except JournalError:
            self._to.journal_errors.add("append")
            raise
        self._to.append_seconds.add(time.perf_counter() - began_s)

    async def save_snapshot(self, state: SessionState, *, compaction: Compaction) -> None:
        """See `SessionStore.save_snapshot`."""
        began_s = time.perf_counter()
        with self._counting("snapshot"):
            await self._store.save_snapshot(state, compaction=compaction)
        self._to.snapshot_seconds.add(time.perf_counter() - began_s)

    async def read(
        self, session_id: str, *, after: int, limit: int, at_least: int = 0
    ) -> tuple[Event, ...]:
        """See `SessionStore.read`."""
        return await self._store.read(session_id, after=after, limit=limit, at_least=at_least)

    async def explain_gap(self, session_id: str, first: int, last: int) -> tuple[Gap, ...]:
        """See `SessionStore.explain_gap`."""
        return await self._store.explain_gap(session_id, first, last)

    async def delete(self, session_id: str) -> None:
        """See `SessionStore.delete`."""
        await self._store.delete(session_id)


class _Index(_Measured):
    """`SessionIndex` whose failures are counted."""

    async def sessions(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.sessions`."""
        return await self._store.sessions(after=after, limit=limit, wanted=wanted)

    async def recent(
        self, *, before: Place | None, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.recent`."""
        return await self._store.recent(before=before, limit=limit, wanted=wanted)

    async def summary(self, session_id: str) -> SessionSummary | None:
        """See `SessionStore.summary`."""
        return await self._store.summary(session_id)

    async def agents(self) -> tuple[str, ...]:
        """See `SessionStore.agents`."""
        return await self._store.agents()

    def idle(self, agent: str, *, before: datetime) -> AsyncGenerator[SessionSummary]:
        """See `SessionStore.idle`."""
        return self._store.idle(agent, before=before)

    async def bind(
        self, key: ConversationKey, session_id: str, *, instead_of: str | None = None
    ) -> str:
        """See `SessionStore.bind`."""
        with self._counting("bind"):  # where a new session is refused
            return await self._store.bind(key, session_id, instead_of=instead_of)

    async def bound(self, key: ConversationKey) -> str:
        """See `SessionStore.bound`."""
        return await self._store.bound(key)

    async def mark_active(self, session_id: str) -> None:
        """See `SessionStore.mark_active`."""
        try:  # as `append`: each conversation comes here often
            await self._store.mark_active(session_id)
        except JournalError:
            self._to.journal_errors.add("mark")
            raise

    async def mark_passive(self, session_id: str) -> None:
        """See `SessionStore.mark_passive`."""
        await self._store.mark_passive(session_id)

    async def active(self) -> tuple[str, ...]:
        """See `SessionStore.active`."""
        return await self._store.active()


def count_batch(instruments: Instruments, batch: CommitStats) -> None:
    """Take note of a group commit."""
    instruments.commit_seconds.add(batch.duration_s)
    instruments.commit_jobs.add(batch.jobs)
    instruments.written_bytes.add(amount=batch.size_bytes)


class _Blobs(_Measured):
    """`SessionBlobs` whose failures are counted."""

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """See `SessionStore.save_result`."""
        with self._counting("result"):
            await self._store.save_result(session_id, name, text)

    async def read_result(self, session_id: str, name: str) -> str | None:
        """See `SessionStore.read_result`."""
        with self._counting("result"):
            return await self._store.read_result(session_id, name)

    async def save_media(self, session_id: str, name: str, data: bytes) -> None:
        """See `SessionStore.save_media`."""
        with self._counting("media"):
            await self._store.save_media(session_id, name, data)

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """See `SessionStore.read_media`."""
        with self._counting("media"):
            return await self._store.read_media(session_id, name)


class MeasuredStore(_Logs, _Index, _Blobs):
    """Passes everything on to a store; see `SessionStore` for what each method promises."""
