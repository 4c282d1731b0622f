"""What the tables hold of one session, read and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import CorruptJournalError, UnknownFormatError
from everturn_actors.ids import is_session_id
from everturn_actors.journal.log.files import parse_log
from everturn_actors.journal.snapshot.reader import BadSnapshotError, decode_state
from everturn_actors.ports import Loaded
from everturn_actors.state.session_state import SessionState
from everturn_gateway.builtin.postgres.base import where
from everturn_gateway.builtin.postgres.database import Database

_LOAD: Final = """
SELECT s.last_seq, p.data, (
    SELECT string_agg(e.line, ''::bytea ORDER BY e.seq) FROM event e
    WHERE e.session = s.id AND ($2 OR e.seq > coalesce(p.seq, 0))
)
FROM session s LEFT JOIN snapshot p ON p.session = s.id WHERE s.id = $1
"""
_QUARANTINE: Final = """
WITH gone AS (DELETE FROM snapshot WHERE session = $1 AND data = $2 RETURNING data)
INSERT INTO damaged (name, data) SELECT 'snapshot of session ' || $1, data FROM gone RETURNING id
"""


class Found(Struct, frozen=True, kw_only=True):
    """What the tables hold of one session."""

    loaded: Loaded
    bad_snapshot: bytes | None = None
    "A snapshot that cannot be read, where the log gives the session without it."


class _Rows(Struct, frozen=True, kw_only=True):
    """The same as bytes."""

    last_seq: int
    snapshot: bytes | None
    lines: bytes


async def find(database: Database, session_id: str) -> Found | None:
    """Return what is stored of a session; None where there is none. Changes nothing.

    Raises:
        CorruptJournalError: It is damaged.
        UnknownFormatError: It is of another version.
    """
    rows = await _rows(database, session_id, is_all=False)
    if rows is None:
        return None
    try:
        return Found(loaded=await to_thread.run_sync(_decoded, database, session_id, rows))
    except BadSnapshotError as error:
        fault = str(error)
    whole = await _rows(database, session_id, is_all=True)
    if whole is None:
        return None
    bare = _Rows(last_seq=whole.last_seq, snapshot=None, lines=whole.lines)
    try:
        loaded = await to_thread.run_sync(_decoded, database, session_id, bare)
    except CorruptJournalError as error:
        why = f"the snapshot is damaged ({fault}), and so is the log: {error}"
        raise CorruptJournalError(why) from error
    repairs = (f"the snapshot: {fault}; it is quarantined, the session rebuilt from its log",)
    return Found(
        loaded=Loaded(snapshot=None, events=loaded.events, repairs=repairs),
        bad_snapshot=rows.snapshot,
    )


async def quarantine(database: Database, session_id: str, snapshot: bytes) -> None:
    """Move a snapshot that cannot be read to the table of what is damaged."""
    await database.value(_QUARANTINE, session_id, snapshot, is_write=True)


async def _rows(database: Database, session_id: str, *, is_all: bool) -> _Rows | None:
    """Return the rows of a session: of the log what follows the snapshot, or all."""
    if not is_session_id(session_id):
        return None
    row = await database.row(_LOAD, session_id, is_all)
    return None if row is None else _Rows(last_seq=row[0], snapshot=row[1], lines=row[2] or b"")


def _decoded(database: Database, session_id: str, rows: _Rows) -> Loaded:
    """Return what rows mean. Takes a while: in a thread.

    Raises:
        BadSnapshotError: The snapshot is damaged.
        JournalError: The rest is.
    """
    snapshot = None if rows.snapshot is None else _snapshot(database, session_id, rows.snapshot)
    after = snapshot.last_seq if snapshot else 0
    place = where(database, "event", session_id)
    try:
        log = parse_log(rows.lines, session_id=session_id, after=after, path=place)
    except CorruptJournalError as error:
        why = str(error).removeprefix(f"{place}: ").partition(". Nothing was changed")[0]
        raise _corrupt(place, why) from error
    end = log.last_seq or after
    if log.torn or end != rows.last_seq:
        why = f"it ends at event {end}, and was written up to event {rows.last_seq}"
        raise _corrupt(place, why)
    if log.events and log.events[0].seq != after + 1:
        why = f"event {after + 1} is missing; the next one is {log.events[0].seq}"
        raise _corrupt(place, why)
    return Loaded(snapshot=snapshot, events=log.events)


def _corrupt(place: Path, why: str) -> CorruptJournalError:
    way_out = f"restore it from a backup, or delete it: everturn sessions delete {place.name}"
    return CorruptJournalError(f"{why}; {way_out}", path=place)


def _snapshot(database: Database, session_id: str, data: bytes) -> SessionState:
    place = where(database, "snapshot", session_id)
    try:
        state = decode_state(data)
    except UnknownFormatError as error:
        raise UnknownFormatError(str(error), path=place) from error
    if state.session_id != session_id:
        raise _corrupt(place, f"this is the snapshot of session {state.session_id!r}")
    return state
