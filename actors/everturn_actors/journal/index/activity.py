"""A table of all sessions, by id and by their last activity: an index over the session folders.

It is a cache in a file of its own. Nothing in it is synced, whoever reads a row from it looks at
the session's files before believing it, and where it is missing, damaged or of another version it
is made anew from the folder. Blocking; may be used from several threads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import orjson

from everturn_actors.ports import SessionFilter
from everturn_actors.sqlite_cache import Layout, SqliteCache

logger = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    agent TEXT,                        -- NULL: the session's files were not looked at yet
    updated INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0,
    channel TEXT NOT NULL DEFAULT '',
    pinned INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX idle ON sessions (agent, updated, id) WHERE ended = 0 AND agent IS NOT NULL;
CREATE INDEX recent ON sessions (updated, id) WHERE agent IS NOT NULL;
CREATE INDEX pinned ON sessions (updated, id) WHERE agent IS NOT NULL AND pinned = 1;
CREATE INDEX archived ON sessions (updated, id) WHERE agent IS NOT NULL AND archived = 1;
CREATE INDEX unread ON sessions (id) WHERE agent IS NULL;
CREATE TABLE viewers (              -- a principal that began a session, or was given it
    principal TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (principal, id)
) WITHOUT ROWID;
"""
_LAYOUT = Layout(
    version=5,
    tables=("sessions", "names", "viewers"),
    schema=_SCHEMA,
    pragmas=("journal_mode = DELETE",),
)
_PUT = """
INSERT INTO sessions (id, agent, updated, ended, channel, pinned, archived)
VALUES (?1, ?2, coalesce(?3, 0), coalesce(?4, 0), ?5, coalesce(?6, 0), coalesce(?7, 0))
ON CONFLICT (id) DO UPDATE SET agent = coalesce(?2, agent),
    updated = coalesce(?3, updated), ended = coalesce(?4, ended),
    channel = CASE ?5 WHEN '' THEN channel ELSE ?5 END,
    pinned = coalesce(?6, pinned), archived = coalesce(?7, archived)
"""
# One step in the index for each agent, instead of one for each session.
# Source: https://www.sqlite.org/lang_with.html (read 2026-11-22).
_AGENTS = """
WITH RECURSIVE names (name) AS (
    SELECT min(agent) FROM sessions WHERE ended = 0 AND agent IS NOT NULL
    UNION ALL
    SELECT (SELECT min(agent) FROM sessions WHERE ended = 0 AND agent > name) FROM names
    WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL
"""
_NEWEST = "SELECT id FROM sessions WHERE id < ? ORDER BY id DESC LIMIT ?"
_NEWEST_SEEN = """
SELECT viewers.id FROM viewers JOIN sessions ON sessions.id = viewers.id
WHERE principal = ? AND viewers.id < ? ORDER BY viewers.id DESC LIMIT ?
"""
_NEWEST_OF = """
SELECT id FROM sessions
WHERE (agent IS NULL OR agent IN (SELECT value FROM json_each(?))) AND id < ?
ORDER BY id DESC LIMIT ?
"""
_RECENT = """
SELECT updated, id FROM sessions
WHERE agent IS NOT NULL AND (updated, id) < (:updated, :id)
  AND (:agents IS NULL OR agent IN (SELECT value FROM json_each(:agents)))
  AND (:seen_by = '' OR id IN (SELECT id FROM viewers WHERE principal = :seen_by))
  AND (:channel = '' OR channel = :channel) AND (:ended IS NULL OR ended = :ended)
  {sorted}
ORDER BY updated DESC, id DESC LIMIT :limit
"""
_IDLE = """
SELECT updated, id FROM sessions
WHERE ended = 0 AND agent = ? AND updated < ? AND (updated, id) > (?, ?)
ORDER BY updated, id LIMIT ?
"""


class Row(NamedTuple):
    """What the table knows of a session."""

    session_id: str
    agent: str | None
    "None = not known, here and below: what stands there is kept."
    updated_us: int | None
    "When something happened last, in microseconds since 1970; None as below."
    is_ended: bool | None
    channel: str = ""
    "Empty = not known: what stands there is kept."
    pinned: bool | None = None
    archived: bool | None = None
    viewers: tuple[str, ...] = ()
    "Principals that may see it, beside those that the table has already."


class ActivityTable(SqliteCache):
    """The table; it is opened with its first use."""

    def __init__(self, path: Path) -> None:
        """Begin with nothing open."""
        super().__init__(path, _LAYOUT)

    def put(self, rows: Iterable[Row], gone: Iterable[str] = ()) -> None:
        """Add or replace rows, and remove those of sessions that are gone."""
        with self.transaction() as database:
            for row in rows:
                database.execute(_PUT, tuple(map(_storable, row[:7])))
                database.executemany(
                    "INSERT OR IGNORE INTO viewers VALUES (?, ?)",
                    ((_storable(viewer), row.session_id) for viewer in row.viewers),
                )
            database.executemany("DELETE FROM sessions WHERE id = ?", ((each,) for each in gone))

    def reconcile(self, names: Iterable[str]) -> None:
        """Hold the table against the sessions that there are: add what is missing, drop the rest.

        Whatever is put meanwhile waits, so that a session which begins now is not dropped.
        """
        with self.transaction() as database:
            database.execute("CREATE TEMP TABLE names (id TEXT PRIMARY KEY) WITHOUT ROWID")
            database.executemany("INSERT OR IGNORE INTO names VALUES (?)", ((n,) for n in names))
            database.execute("INSERT OR IGNORE INTO sessions (id) SELECT id FROM names")
            database.execute("DELETE FROM sessions WHERE id NOT IN (SELECT id FROM names)")
            database.execute("DROP TABLE names")
            database.execute("DELETE FROM viewers WHERE id NOT IN (SELECT id FROM sessions)")

    def newest(
        self,
        *,
        after: str,
        limit: int,
        seen_by: str = "",
        agents: frozenset[str] | None = None,
    ) -> list[str]:
        """Return up to `limit` ids below `after` ("" = from the newest), newest first.

        Args:
            after: The last one that is known already.
            limit: How many at most.
            seen_by: Only what this principal may see; one may be among them that it no longer may.
            agents: Only what may belong to one of these; among what `seen_by` sees, all is told.
        """
        place = (after or "~", limit)
        with self.transaction() as database:
            if seen_by:
                found = database.execute(_NEWEST_SEEN, (seen_by, *place)).fetchall()
            elif agents is None:
                found = database.execute(_NEWEST, place).fetchall()
            else:
                names = orjson.dumps(sorted(agents)).decode()
                found = database.execute(_NEWEST_OF, (names, *place)).fetchall()
        return [session_id for (session_id,) in found]

    def unread(self, limit: int) -> list[str]:
        """Return sessions of which nothing but the id is known."""
        query = "SELECT id FROM sessions WHERE agent IS NULL ORDER BY id DESC LIMIT ?"
        with self.transaction() as database:
            found = database.execute(query, (limit,)).fetchall()
        return [session_id for (session_id,) in found]

    def agents(self) -> list[str]:
        """Return the names of the agents with sessions that have not ended."""
        with self.transaction() as database:
            return [name for (name,) in database.execute(_AGENTS).fetchall()]

    def idle(
        self, agent: str, *, before_us: int, after: tuple[int, str], limit: int
    ) -> list[tuple[int, str]]:
        """Return last activity and id of an agent's sessions, the longest idle first.

        Args:
            agent: Its name.
            before_us: Those with something later are left out.
            after: The last one that is known already.
            limit: How many at most.
        """
        with self.transaction() as database:
            found = database.execute(_IDLE, (agent, before_us, *after, limit)).fetchall()
        return [(updated, session_id) for updated, session_id in found]

    def recent(
        self, *, before: tuple[int, str] | None, limit: int, wanted: SessionFilter
    ) -> list[tuple[int, str]]:
        """Return last activity and id of sessions that may be wanted, the newest activity first.

        Args:
            before: The last one that is known already; None = begin with the newest.
            limit: How many at most.
            wanted: Which; one may be among them that is not.
        """
        updated, session_id = before or (2**62, "")
        # As text: the indexes over the few that are pinned or archived are used for no parameter.
        labels = {"pinned": wanted.pinned, "archived": wanted.archived}
        terms = [f"AND {name} = {value:d}" for name, value in labels.items() if value is not None]
        agents = None if wanted.agents is None else orjson.dumps(sorted(wanted.agents)).decode()
        values = {
            "updated": updated,
            "id": session_id,
            "limit": limit,
            "agents": agents,
            "seen_by": wanted.seen_by,
            "channel": wanted.channel,
            "ended": None if wanted.status is None else wanted.status == "ended",
        }
        with self.transaction() as database:
            found = database.execute(_RECENT.format(sorted=" ".join(terms)), values).fetchall()
        return [(updated, session_id) for updated, session_id in found]


def _storable(value: object) -> object:
    """Return a value as the database takes it: half a surrogate pair, which a log may hold, not."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")
