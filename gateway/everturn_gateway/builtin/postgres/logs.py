"""Logs and snapshots in tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from anyio import to_thread

from everturn_actors.errors import FencedError, UnknownSessionError
from everturn_actors.events import Event
from everturn_actors.gaps import Gap, explain_gap, with_gap
from everturn_actors.ids import is_session_id
from everturn_actors.journal.log.archive import ArchiveRecord
from everturn_actors.journal.log.codec import check_end, check_numbers, encode
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.model import Compaction
from everturn_actors.ports import Loaded, SessionSummary
from everturn_actors.state.session_state import SessionState
from everturn_gateway.builtin.postgres.base import OnDatabase, checked, where
from everturn_gateway.builtin.postgres.loading import find, quarantine
from everturn_gateway.builtin.postgres.rows import (
    activity,
    as_text,
    begun,
    events_of,
    gaps_bytes,
    gaps_of,
    summary_bytes,
)
from everturn_gateway.builtin.postgres.writer import Append

_FEW: Final = 20  # events that are read as quickly as a thread is woken

_BEFORE: Final = """
SELECT s.last_seq, coalesce(p.archived_to, 0), coalesce(p.archived_bytes, 0), p.gaps,
    (SELECT min(e.seq) FROM event e WHERE e.session = s.id AND e.seq > coalesce(p.archived_to, 0)),
    (SELECT sum(length(e.line)) FROM event e
     WHERE e.session = s.id AND e.seq > coalesce(p.archived_to, 0) AND e.seq <= $2)::bigint
FROM session s LEFT JOIN snapshot p ON p.session = s.id WHERE s.id = $1
"""
_SAVE: Final = """
WITH saved AS (
    INSERT INTO snapshot (session, seq, archived_to, archived_bytes, gaps, data)
    SELECT id, $2, $3, $4, $5, $6 FROM session WHERE id = $1 AND last_seq >= $2
    ON CONFLICT (session) DO UPDATE SET seq = $2, archived_to = $3, archived_bytes = $4, gaps = $5,
        data = $6 WHERE snapshot.seq <= $2
    RETURNING session
), told AS (
    UPDATE session SET agent = $7, channel = $8, status = $9, pinned = $10, archived = $11,
        summary = $12
    WHERE id = (SELECT session FROM saved)
        AND (agent, channel, status, pinned, archived, summary)
            IS DISTINCT FROM ($7, $8, $9, $10, $11, $12)
), unseen AS (
    DELETE FROM viewer WHERE session = (SELECT session FROM saved) AND principal <> ALL ($13)
), seen AS (
    INSERT INTO viewer SELECT unnest($13::text[]), session FROM saved ON CONFLICT DO NOTHING
), discarded AS (
    DELETE FROM event WHERE session = (SELECT session FROM saved) AND seq > $3 AND seq <= $14
)
SELECT count(*) FROM saved
"""
_READ: Final = "SELECT seq, line FROM event WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3"
_END: Final = "SELECT last_seq FROM session WHERE id = $1"
_GAPS: Final = "SELECT gaps FROM snapshot WHERE session = $1"
DELETE: Final = """
WITH a AS (DELETE FROM event WHERE session = $1), b AS (DELETE FROM snapshot WHERE session = $1),
    c AS (DELETE FROM blob WHERE session = $1), d AS (DELETE FROM active WHERE session = $1),
    e AS (DELETE FROM conversation WHERE session = $1), f AS (DELETE FROM viewer WHERE session = $1)
DELETE FROM session WHERE id = $1
"""


class PostgresLogs(OnDatabase):
    """`SessionLogs` in tables; see there for what each method promises."""

    async def load(self, session_id: str) -> Loaded | None:
        """See `SessionStore.load`."""
        found = await find(self._database, session_id)
        if found is None:
            return None
        if found.bad_snapshot is not None:
            await quarantine(self._database, session_id, found.bad_snapshot)
        return found.loaded

    async def inspect(self, session_id: str) -> Loaded | None:
        """See `SessionStore.inspect`."""
        found = await find(self._database, session_id)
        return None if found is None else found.loaded

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """See `SessionStore.append`."""
        check_numbers(events, expected_seq)
        checked(session_id)
        if not events:
            return
        happened = tuple(events)
        append = Append(
            session_id=session_id,
            lines=[(event.seq, encode(session_id, (event,))) for event in happened],
            expected_seq=expected_seq,
            at=activity(happened) if expected_seq else activity(happened) or happened[0].at,
            begun=None if expected_seq else begun(session_id, happened),
        )
        await self._writer.write(append)

    async def save_snapshot(self, state: SessionState, *, compaction: Compaction) -> None:
        """See `SessionStore.save_snapshot`."""
        session_id, seq = checked(state.session_id), state.last_seq
        row = await self._database.row(_BEFORE, session_id, seq)
        if row is None:
            raise UnknownSessionError(session_id)
        last_seq, archived_to, archived_bytes, gaps, first, size = row
        record = ArchiveRecord(
            last_seq=archived_to,
            size_bytes=archived_bytes,
            gaps=gaps_of(gaps) if gaps is not None else (),
        )
        discarded_to = 0
        if compaction == "archive" and seq > archived_to:
            record = ArchiveRecord(
                last_seq=seq, size_bytes=archived_bytes + (size or 0), gaps=record.gaps
            )
        elif compaction == "discard" and first is not None and first <= seq:
            gap = Gap(first=first, last=seq, cause="discarded")
            record = ArchiveRecord(
                last_seq=archived_to, size_bytes=archived_bytes, gaps=with_gap(record.gaps, gap)
            )
            discarded_to = seq
        data = await to_thread.run_sync(encode_state, state, record)
        summary = SessionSummary.of(state)
        viewers = [as_text(each) for each in {summary.principal, *summary.shared_with} if each]
        values = (
            session_id, seq, record.last_seq, record.size_bytes, gaps_bytes(record.gaps), data,
            as_text(summary.key.agent), as_text(summary.key.channel), summary.status,
            summary.labels.pinned, summary.labels.archived, summary_bytes(summary), sorted(viewers),
            discarded_to,
        )  # fmt: skip
        saved = await self._database.value(_SAVE, *values, is_write=True)
        if not saved:
            msg = (
                f"the log of session {session_id} ends at event {last_seq}, the snapshot at {seq};"
                " or a later one stands already"
            )
            raise FencedError(msg)

    async def read(
        self, session_id: str, *, after: int, limit: int, at_least: int = 0
    ) -> tuple[Event, ...]:
        """See `SessionStore.read`."""
        if not is_session_id(session_id):
            check_end(0, at_least)
            return ()
        values = (session_id, max(after, 0), max(limit, 0))
        rows = await self._database.rows(_READ, *values)
        lines = [(row[0], row[1]) for row in rows]
        if (lines[-1][0] if lines else after) < at_least and len(lines) < limit:
            check_end(await self._database.value(_END, session_id) or 0, at_least)
        work = partial(events_of, session_id, lines, where(self._database, "event", session_id))
        return work() if len(lines) <= _FEW else await to_thread.run_sync(work)

    async def explain_gap(self, session_id: str, first: int, last: int) -> tuple[Gap, ...]:
        """See `SessionStore.explain_gap`."""
        checked(session_id)
        gaps = await self._database.value(_GAPS, session_id)
        return explain_gap(first, last, () if gaps is None else gaps_of(gaps), "lost")

    async def delete(self, session_id: str) -> None:
        """See `SessionStore.delete`."""
        if is_session_id(session_id):
            await self._database.execute(DELETE, session_id)
