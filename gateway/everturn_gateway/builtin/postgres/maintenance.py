"""`Maintenance` in tables; see there for what each method promises."""

from __future__ import annotations

from typing import Final

from anyio import to_thread
from msgspec.structs import replace

from everturn_actors.errors import CorruptJournalError
from everturn_actors.gaps import Gap, with_gap
from everturn_actors.journal.log.archive import ArchiveRecord
from everturn_actors.journal.log.codec import BadLineError, decode, encode, seed
from everturn_actors.journal.results import decode_text
from everturn_actors.journal.snapshot.reader import BadSnapshotError, decode_header, decode_state
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.ports import SessionSummary
from everturn_actors.ports.maintenance import Part, Rewriting, StoredSizes
from everturn_gateway.builtin.postgres.base import where
from everturn_gateway.builtin.postgres.database import Connection, Database, Proxy
from everturn_gateway.builtin.postgres.rows import gaps_bytes, gaps_of, summary_bytes

_KINDS: Final[dict[Part, str]] = {"media": "media", "results": "result"}
_SIZES: Final = """
SELECT
    (SELECT coalesce(sum(length(line)), 0) FROM event
     WHERE session = s.id AND seq > coalesce(p.archived_to, 0))::bigint
        + coalesce(length(p.data), 0),
    (SELECT coalesce(sum(length(line)), 0) FROM event
     WHERE session = s.id AND seq <= coalesce(p.archived_to, 0))::bigint,
    (SELECT coalesce(sum(size), 0) FROM blob WHERE session = s.id AND kind = 'result')::bigint,
    (SELECT coalesce(sum(size), 0) FROM blob WHERE session = s.id AND kind = 'media')::bigint
FROM session s LEFT JOIN snapshot p ON p.session = s.id WHERE s.id = $1
"""
_DROP_BLOBS: Final = """
WITH gone AS (DELETE FROM blob WHERE session = $1 AND kind = ANY ($2::text[]) RETURNING size)
SELECT coalesce(sum(size), 0)::bigint FROM gone
"""
_ARCHIVE: Final = """
SELECT p.data, p.gaps, min(e.seq), max(e.seq) FROM snapshot p JOIN event e ON e.session = p.session
WHERE p.session = $1 AND e.seq <= p.archived_to GROUP BY p.data, p.gaps
"""
_DROP_ARCHIVE: Final = """
WITH told AS (
    UPDATE snapshot SET archived_to = 0, archived_bytes = 0, gaps = $3, data = $4
    WHERE session = $1 AND data = $5 RETURNING session
), gone AS (
    DELETE FROM event WHERE session IN (SELECT session FROM told) AND seq <= $2
    RETURNING length(line) AS size
)
SELECT coalesce(sum(size), 0)::bigint FROM gone
"""
_LINES: Final = "SELECT seq, line FROM event WHERE session = $1 ORDER BY seq"
_KEEP_LINES: Final = """
UPDATE event SET line = n.line FROM unnest($2::bigint[], $3::bytea[]) AS n(seq, line)
WHERE event.session = $1 AND event.seq = n.seq
"""
_ARCHIVED: Final = """
SELECT coalesce(sum(length(e.line)), 0)::bigint FROM event e JOIN snapshot p
    ON p.session = e.session WHERE e.session = $1 AND e.seq <= p.archived_to
"""
_KEEP_SNAPSHOT: Final = "UPDATE snapshot SET data = $2, archived_bytes = $3 WHERE session = $1"
_KEEP_SUMMARY: Final = "UPDATE session SET summary = $2 WHERE id = $1"
_GONE_BLOB: Final = "DELETE FROM blob WHERE session = $1 AND kind = $2 AND name = $3"


class PostgresMaintenance:
    """Looks after the rows of sessions."""

    def __init__(self, database: Database) -> None:
        """Work on an open database."""
        self._database = database

    async def sizes(self, session_id: str) -> StoredSizes:
        """See `Maintenance.sizes`."""
        row = await self._database.row(_SIZES, session_id)
        if row is None:
            return StoredSizes()
        return StoredSizes(log=row[0], archive=row[1], results=row[2], media=row[3])

    async def drop(self, session_id: str, *parts: Part) -> int:
        """See `Maintenance.drop`."""
        kinds = [_KINDS[part] for part in parts if part in _KINDS]
        freed: int = await self._database.value(_DROP_BLOBS, session_id, kinds, is_write=True)
        if "archive" not in parts:
            return freed
        row = await self._database.row(_ARCHIVE, session_id)
        if row is None:
            return freed
        data, gaps, first, last = row
        record = ArchiveRecord(
            gaps=with_gap(gaps_of(gaps), Gap(first=first, last=last, cause="discarded"))
        )
        try:
            state = await to_thread.run_sync(decode_state, data)
        except BadSnapshotError:
            return freed  # the session could not be loaded without its archive
        saved = await to_thread.run_sync(encode_state, state, record)
        values = (session_id, last, gaps_bytes(record.gaps), saved, data)
        gone: int = await self._database.value(_DROP_ARCHIVE, *values, is_write=True)
        return freed + gone

    async def rewrite(self, session_id: str, change: Rewriting) -> None:
        """See `Maintenance.rewrite`. It is one transaction."""

        async def write(connection: Connection | Proxy) -> None:
            async with connection.transaction():
                await self._rewrite(connection, session_id, change)

        await self._database.run(write, is_write=True)

    async def _rewrite(
        self, connection: Connection | Proxy, session_id: str, change: Rewriting
    ) -> None:
        rows = [(row[0], row[1]) for row in await connection.fetch(_LINES, session_id)]
        lines = await to_thread.run_sync(self._lines, session_id, rows, change)
        await connection.execute(_KEEP_LINES, session_id, [each[0] for each in rows], lines)
        data = await connection.fetchval("SELECT data FROM snapshot WHERE session = $1", session_id)
        if data is not None:
            state = change.state(await to_thread.run_sync(decode_state, data))
            size = await connection.fetchval(_ARCHIVED, session_id)
            record = decode_header(data).archive
            record = None if record is None else replace(record, size_bytes=size)
            saved = await to_thread.run_sync(encode_state, state, record)
            await connection.execute(_KEEP_SNAPSHOT, session_id, saved, size)
            summary = SessionSummary.of(state)
            await connection.execute(_KEEP_SUMMARY, session_id, summary_bytes(summary))
        for kind, name in await self._gone(connection, session_id, change):
            await connection.execute(_GONE_BLOB, session_id, kind, name)

    def _lines(
        self, session_id: str, rows: list[tuple[int, bytes]], change: Rewriting
    ) -> list[bytes]:
        """Return the lines anew. Takes a while: in a thread.

        Raises:
            CorruptJournalError: One is damaged.
        """
        start = seed(session_id)
        try:
            return [
                encode(session_id, (change.event(decode(line.removesuffix(b"\n"), start)),))
                for _, line in rows
            ]
        except BadLineError as error:
            place = where(self._database, "event", session_id)
            raise CorruptJournalError(str(error), path=place) from error

    async def _gone(
        self, connection: Connection | Proxy, session_id: str, change: Rewriting
    ) -> list[tuple[str, str]]:
        """Return the kind and name of what does not stay."""
        query = "SELECT kind, name FROM blob WHERE session = $1"
        gone: list[tuple[str, str]] = []
        for kind, name in await connection.fetch(query, session_id):
            if kind == "media":
                stays = change.keeps_media(name)
            else:
                data = await connection.fetchval(
                    "SELECT data FROM blob WHERE session = $1 AND kind = $2 AND name = $3",
                    session_id, kind, name,
                )  # fmt: skip
                try:
                    text = decode_text(data or b"")
                except UnicodeDecodeError:
                    text = ""
                stays = await to_thread.run_sync(change.keeps_result, text)
            if not stays:
                gone.append((kind, name))
        return gone
