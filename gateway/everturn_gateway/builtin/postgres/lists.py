"""Which sessions there are, and which of them are current or active, in tables."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Final

from everturn_actors.ids import is_session_id
from everturn_actors.model import ConversationKey
from everturn_actors.ports import ALL_SESSIONS, Place, SessionFilter, SessionSummary
from everturn_gateway.builtin.postgres.base import OnDatabase, checked
from everturn_gateway.builtin.postgres.database import Connection, Proxy
from everturn_gateway.builtin.postgres.rows import as_text, hash_of, key_bytes, summary_of
from everturn_gateway.builtin.postgres.writer import Mark

_IDLE_ROWS: Final = 200  # read at a time

_SUMMARY: Final = "SELECT summary, updated FROM session WHERE id = $1 AND agent IS NOT NULL"
# One step in the index for each agent, instead of one for each session.
# Source: https://wiki.postgresql.org/wiki/Loose_indexscan (read 2026-11-26).
_AGENTS: Final = """
WITH RECURSIVE names (name) AS (
    SELECT min(agent) FROM session WHERE status <> 'ended'
    UNION ALL
    SELECT (SELECT min(agent) FROM session WHERE status <> 'ended' AND agent > name) FROM names
    WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL
"""
_IDLE: Final = """
SELECT summary, updated, id FROM session
WHERE status <> 'ended' AND agent = $1 AND updated < $2 AND (updated, id) > ($3, $4)
ORDER BY updated, id LIMIT $5
"""
_BIND: Final = """
INSERT INTO conversation (hash, key, session) VALUES ($1, $2, $3)
ON CONFLICT (hash) DO UPDATE SET session = $3
"""
_BIND_NEW: Final = """
INSERT INTO conversation (hash, key, session) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
"""
_BIND_INSTEAD: Final = "UPDATE conversation SET session = $2 WHERE hash = $1 AND session = $3"
_FEW: Final = 2000
"Sessions of a principal: fewer are looked up one by one, of more the newest are soon found."
_COUNT: Final = """
SELECT count(*) FROM (SELECT FROM viewer WHERE principal = $1 LIMIT $2) AS seen
"""
_BOUND: Final = "SELECT session FROM conversation WHERE hash = $1"


class PostgresIndex(OnDatabase):
    """`SessionIndex` in tables; see there for what each method promises."""

    async def sessions(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.sessions`."""
        query = await self._query(wanted)
        if after:
            query.add("id < {}", after)
        return await self._rows(query, "id DESC", limit)

    async def recent(
        self, *, before: Place | None, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.recent`."""
        query = await self._query(wanted)
        if before is not None:
            query.add("(updated, id) < ({}, {})", *before)
        return await self._rows(query, "updated DESC, id DESC", limit)

    async def _query(self, wanted: SessionFilter) -> _Query:
        """Return the terms of a list, in a way that suits how many sessions there can be."""
        has_few = bool(wanted.seen_by) and (
            await self._database.value(_COUNT, as_text(wanted.seen_by), _FEW) < _FEW
        )
        return _Query(wanted, has_few=has_few)

    async def _rows(self, query: _Query, order: str, limit: int) -> tuple[SessionSummary, ...]:
        text, values = query.text(order), query.values
        rows = await self._database.rows(text, *values, max(limit, 0))
        return tuple([summary_of(row[0], row[1]) for row in rows])

    async def summary(self, session_id: str) -> SessionSummary | None:
        """See `SessionStore.summary`."""
        if not is_session_id(session_id):
            return None
        row = await self._database.row(_SUMMARY, session_id)
        return None if row is None else summary_of(row[0], row[1])

    async def agents(self) -> tuple[str, ...]:
        """See `SessionStore.agents`."""
        rows = await self._database.rows(_AGENTS)
        return tuple([row[0] for row in rows])

    async def idle(self, agent: str, *, before: datetime) -> AsyncGenerator[SessionSummary]:
        """See `SessionStore.idle`."""
        place: tuple[datetime, str] = (datetime.min.replace(tzinfo=before.tzinfo), "")
        while True:
            values = (as_text(agent), before, *place, _IDLE_ROWS)
            rows = await self._database.rows(_IDLE, *values)
            for row in rows:
                yield summary_of(row[0], row[1])
            if len(rows) < _IDLE_ROWS:
                return
            place = (rows[-1][1], rows[-1][2])

    async def bind(
        self, key: ConversationKey, session_id: str, *, instead_of: str | None = None
    ) -> str:
        """See `SessionStore.bind`."""
        checked(session_id)
        found = hash_of(key)

        async def bind(connection: Connection | Proxy) -> str:
            if instead_of is None:
                await connection.execute(_BIND, found, key_bytes(key), session_id)
                return session_id
            if instead_of:
                await connection.execute(_BIND_INSTEAD, found, session_id, instead_of)
            else:
                await connection.execute(_BIND_NEW, found, key_bytes(key), session_id)
            return await connection.fetchval(_BOUND, found) or ""

        return await self._database.run(bind, is_write=True)

    async def bound(self, key: ConversationKey) -> str:
        """See `SessionStore.bound`."""
        return await self._database.value(_BOUND, hash_of(key)) or ""

    async def mark_active(self, session_id: str) -> None:
        """See `SessionStore.mark_active`. Marks share their commits with appends."""
        await self._writer.write(Mark(session_id=checked(session_id)))

    async def mark_passive(self, session_id: str) -> None:
        """See `SessionStore.mark_passive`."""
        if is_session_id(session_id):
            # By itself: who gives up meanwhile must not take back the mark of the next owner later.
            query = "DELETE FROM active WHERE session = $1"
            await self._database.execute(query, session_id)

    async def active(self) -> tuple[str, ...]:
        """See `SessionStore.active`."""
        query = "SELECT session FROM active ORDER BY session"
        rows = await self._database.rows(query)
        return tuple([row[0] for row in rows])


class _Query:
    """The terms of a list, and their values."""

    def __init__(self, wanted: SessionFilter, *, has_few: bool) -> None:
        """Begin with what is wanted; of few sessions or many of the one who sees them."""
        self._source = "session"
        self._seen = ""
        self._terms = ["agent IS NOT NULL"]
        self.values: list[object] = []
        if wanted.agents is not None:
            self.add("agent = ANY ({}::text[])", [as_text(each) for each in wanted.agents])
        if wanted.channel:
            self.add("channel = {}", as_text(wanted.channel))
        if wanted.status is not None:
            self.add("status = {}", wanted.status)
        for name, value in (("pinned", wanted.pinned), ("archived", wanted.archived)):
            if value is not None:  # as text: for a parameter no partial index is used
                self._terms.append(name if value else f"NOT {name}")
        if wanted.seen_by:
            within = "SELECT session FROM viewer WHERE principal = {}"
            if has_few:  # no guess of the server's makes it walk through all sessions for them
                self._source = "seen JOIN session ON id = seen.session"
                self.add("true", as_text(wanted.seen_by))
                self._seen = f"WITH seen AS MATERIALIZED ({within.format(f'${len(self.values)}')})"
            else:
                self.add(f"id IN ({within})", as_text(wanted.seen_by))

    def add(self, term: str, *values: object) -> None:
        """Add a term, in which `{}` stands for each value."""
        first = len(self.values) + 1
        self._terms.append(term.format(*[f"${first + n}" for n in range(len(values))]))
        self.values += values

    def text(self, order: str) -> str:
        """Return the statement; its last parameter is how many rows at most."""
        terms = " AND ".join(self._terms)
        limit = len(self.values) + 1
        # Terms and order are texts of this module; what comes from outside is a parameter.
        found = f"SELECT summary, updated FROM {self._source} WHERE {terms}"  # noqa: S608
        return f"{self._seen} {found} ORDER BY {order} LIMIT ${limit}"
