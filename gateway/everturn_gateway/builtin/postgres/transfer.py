"""All that a schema keeps as bytes, for a move to another store or from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.codec import Codec
from everturn_actors.errors import CorruptJournalError
from everturn_actors.events import Event
from everturn_actors.gaps import Gap
from everturn_actors.journal.log.codec import BadLineError, decode, seed
from everturn_actors.journal.snapshot.reader import BadSnapshotError, decode_header, decode_state
from everturn_actors.model import ConversationKey
from everturn_actors.ports import SessionSummary
from everturn_actors.ports.transfer import Blob, BlobKind, SessionBytes
from everturn_gateway.builtin.postgres.base import where
from everturn_gateway.builtin.postgres.database import Connection, Database, Proxy
from everturn_gateway.builtin.postgres.loading import find
from everturn_gateway.builtin.postgres.logs import DELETE
from everturn_gateway.builtin.postgres.rows import (
    activity,
    as_text,
    begun,
    gaps_bytes,
    hash_of,
    key_bytes,
    summary_bytes,
)

_KEY: Final = Codec[ConversationKey](ConversationKey)
_READ: Final = """
SELECT
    (SELECT string_agg(line, ''::bytea ORDER BY seq) FROM event
     WHERE session = s.id AND seq <= coalesce(p.archived_to, 0)),
    (SELECT string_agg(line, ''::bytea ORDER BY seq) FROM event
     WHERE session = s.id AND seq > coalesce(p.archived_to, 0)),
    p.data
FROM session s LEFT JOIN snapshot p ON p.session = s.id WHERE s.id = $1
"""
_SESSION: Final = """
INSERT INTO session
    (id, last_seq, token, updated, agent, channel, status, pinned, archived, summary)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""
_EVENTS: Final = "INSERT INTO event SELECT $1, * FROM unnest($2::bigint[], $3::bytea[])"
_SNAPSHOT: Final = """
INSERT INTO snapshot (session, seq, archived_to, archived_bytes, gaps, data)
VALUES ($1, $2, $3, $4, $5, $6)
"""
_VIEWERS: Final = "INSERT INTO viewer SELECT unnest($2::text[]), $1"
_BLOBS: Final = "SELECT kind, name FROM blob WHERE session = $1 ORDER BY n"
_BLOB: Final = "SELECT data FROM blob WHERE session = $1 AND kind = $2 AND name = $3"
_KEEP_BLOB: Final = """
INSERT INTO blob (session, kind, name, size, data) VALUES ($1, $2, $3, length($4::bytea), $4)
ON CONFLICT (session, kind, name)
    DO UPDATE SET n = nextval('blob_order'), size = excluded.size, data = excluded.data
"""
_BIND: Final = "INSERT INTO conversation (hash, key, session) VALUES ($1, $2, $3)"


class _Rows(Struct, frozen=True, kw_only=True):
    """A session as the tables hold it."""

    lines: list[tuple[int, bytes]]
    archived_to: int
    last_seq: int
    summary: SessionSummary | None
    gaps: tuple[Gap, ...]
    snapshot_seq: int


class PostgresTransfer:
    """`Transfer` of a schema; see there for what each method promises."""

    def __init__(self, database: Database) -> None:
        """Read and write what an open store has locked."""
        self._database = database

    @property
    def place(self) -> str:
        """See `Transfer.place`."""
        return f"{self._database.place} (schema {self._database.schema})"

    async def sessions(self) -> Sequence[str]:
        """See `Transfer.sessions`."""
        return [row[0] for row in await self._database.rows("SELECT id FROM session ORDER BY id")]

    async def read(self, session_id: str) -> SessionBytes | None:
        """See `Transfer.read`."""
        found = await find(self._database, session_id)
        row = await self._database.row(_READ, session_id)
        if found is None or row is None:
            return None
        if found.bad_snapshot is not None:
            why = f"{found.loaded.repairs[0]}, with its next message: send it one, or delete it"
            raise CorruptJournalError(why, path=where(self._database, "snapshot", session_id))
        return SessionBytes(archive=row[0] or b"", log=row[1] or b"", snapshot=row[2])

    async def write(self, session_id: str, data: SessionBytes) -> None:
        """See `Transfer.write`. It is one transaction."""
        rows = await to_thread.run_sync(self._rows, session_id, data)

        async def write(connection: Connection | Proxy) -> None:
            async with connection.transaction():
                await connection.execute(DELETE, session_id)
                await _insert(connection, session_id, rows, data)

        await self._database.run(write, is_write=True)

    def _rows(self, session_id: str, data: SessionBytes) -> _Rows:
        """Return what bytes mean. Takes a while: in a thread.

        Raises:
            CorruptJournalError: They are no session.
        """
        try:
            archived = _lines(session_id, data.archive)
            logged = _lines(session_id, data.log)
            state = None if data.snapshot is None else decode_state(data.snapshot)
            record = None if data.snapshot is None else decode_header(data.snapshot).archive
        except (BadLineError, BadSnapshotError) as error:
            place = where(self._database, "event", session_id)
            raise CorruptJournalError(str(error), path=place) from error
        known = {event.seq for event, _ in archived}
        lines = [*archived, *(each for each in logged if each[0].seq not in known)]
        events = tuple([event for event, _ in lines])
        at = activity(events)
        summary = SessionSummary.of(state) if state is not None else begun(session_id, events)
        last_seq = max(events[-1].seq if events else 0, state.last_seq if state else 0)
        return _Rows(
            lines=[(event.seq, line) for event, line in lines],
            archived_to=archived[-1][0].seq if archived else 0,
            last_seq=last_seq,
            summary=replace(summary, updated_at=at) if summary and at else summary,
            gaps=record.gaps if record else (),
            snapshot_seq=state.last_seq if state else 0,
        )

    async def delete(self, session_id: str) -> None:
        """See `Transfer.delete`."""
        await self._database.execute(DELETE, session_id)

    async def blobs(self, session_id: str) -> Sequence[Blob]:
        """See `Transfer.blobs`."""
        rows = await self._database.rows(_BLOBS, session_id)
        kinds: dict[str, BlobKind] = {"result": "result", "media": "media"}
        return [(kinds[row[0]], row[1]) for row in rows]

    async def read_blob(self, session_id: str, blob: Blob) -> bytes | None:
        """See `Transfer.read_blob`."""
        data: bytes | None = await self._database.value(_BLOB, session_id, *blob)
        return data

    async def write_blob(self, session_id: str, blob: Blob, data: bytes) -> None:
        """See `Transfer.write_blob`."""
        await self._database.execute(_KEEP_BLOB, session_id, *blob, data)

    async def conversations(self) -> Mapping[ConversationKey, str]:
        """See `Transfer.conversations`."""
        rows = await self._database.rows("SELECT key, session FROM conversation")
        return {_KEY.decode(row[0]): row[1] for row in rows}

    async def keep_conversations(self, current: Mapping[ConversationKey, str]) -> None:
        """See `Transfer.keep_conversations`."""
        rows = [(hash_of(key), key_bytes(key), each) for key, each in current.items()]

        async def keep(connection: Connection | Proxy) -> None:
            async with connection.transaction():
                await connection.execute("DELETE FROM conversation")
                await connection.executemany(_BIND, rows)

        await self._database.run(keep, is_write=True)

    async def keep_active(self, sessions: Sequence[str]) -> None:
        """See `Transfer.keep_active`."""

        async def keep(connection: Connection | Proxy) -> None:
            async with connection.transaction():
                await connection.execute("DELETE FROM active")
                query = "INSERT INTO active SELECT unnest($1::text[])"
                await connection.execute(query, list(sessions))

        await self._database.run(keep, is_write=True)

    async def keys(self) -> Sequence[str]:
        """See `Transfer.keys`."""
        return [row[0] for row in await self._database.rows("SELECT key FROM value ORDER BY key")]


async def _insert(
    connection: Connection | Proxy, session_id: str, rows: _Rows, data: SessionBytes
) -> None:
    summary = rows.summary
    if summary is None:
        msg = f"session {session_id} does not begin as sessions do; delete it, or repair it first"
        raise CorruptJournalError(msg)
    await connection.execute(
        _SESSION, session_id, rows.last_seq, uuid4(), summary.updated_at,
        as_text(summary.key.agent), as_text(summary.key.channel), summary.status,
        summary.labels.pinned, summary.labels.archived, summary_bytes(summary),
    )  # fmt: skip
    numbers = [seq for seq, _ in rows.lines]
    await connection.execute(_EVENTS, session_id, numbers, [line for _, line in rows.lines])
    viewers = {as_text(each) for each in (summary.principal, *summary.shared_with) if each}
    await connection.execute(_VIEWERS, session_id, sorted(viewers))
    if data.snapshot is not None:
        await connection.execute(
            _SNAPSHOT, session_id, rows.snapshot_seq, rows.archived_to, len(data.archive),
            gaps_bytes(rows.gaps), data.snapshot,
        )  # fmt: skip


def _lines(session_id: str, data: bytes) -> list[tuple[Event, bytes]]:
    """Return the events of lines, each with its line.

    Raises:
        BadLineError: A line is damaged.
    """
    start = seed(session_id)
    lines = data.split(b"\n")[:-1]
    return [(decode(line, start), line + b"\n") for line in lines]
