"""The tables, and how an older schema becomes this one.

Each step of `STEPS` is what one version adds; a step that was released is never changed. A start
takes the steps that are missing, in one transaction, while nobody else does.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from everturn_actors.errors import JournalError
from everturn_gateway.builtin.postgres.database import Connection, Proxy

OLDEST_SERVER: Final = 130_000  # 13, the oldest that its authors still mended in 2025

# Texts are compared by their bytes, as everywhere in Everturn: an id sorts by its time.
STEPS: Final = (
    """
    CREATE TABLE session (
        id text COLLATE "C" PRIMARY KEY,
        last_seq bigint NOT NULL,       -- where its log ends: whoever appends has to know it
        token uuid NOT NULL,            -- of the last append: whose it was, when its answer is lost
        updated timestamptz NOT NULL,
        agent text COLLATE "C",         -- NULL: it does not begin as sessions do, and is not listed
        channel text COLLATE "C" NOT NULL DEFAULT '',
        status text COLLATE "C" NOT NULL DEFAULT 'active',
        pinned boolean NOT NULL DEFAULT false,
        archived boolean NOT NULL DEFAULT false,
        summary bytea NOT NULL          -- its row in the list of sessions, as JSON
    );
    CREATE INDEX session_recent ON session (updated, id) WHERE agent IS NOT NULL;
    CREATE INDEX session_idle ON session (agent, updated, id) WHERE status <> 'ended';
    CREATE TABLE viewer (               -- a principal that began a session, or was given it
        principal text COLLATE "C",
        session text COLLATE "C",
        PRIMARY KEY (principal, session)
    );
    CREATE INDEX viewer_session ON viewer (session);
    CREATE TABLE event (                -- a line of events.jsonl, its newline included
        session text COLLATE "C",
        seq bigint,
        line bytea NOT NULL,
        PRIMARY KEY (session, seq)
    );
    CREATE TABLE snapshot (             -- state.yaml
        session text COLLATE "C" PRIMARY KEY,
        seq bigint NOT NULL,
        archived_to bigint NOT NULL,    -- events up to it are the archive
        archived_bytes bigint NOT NULL,
        gaps bytea NOT NULL,            -- events that are not there, as JSON
        data bytea NOT NULL
    );
    CREATE SEQUENCE blob_order;
    CREATE TABLE blob (                 -- results and media; the oldest go first
        session text COLLATE "C",
        kind text COLLATE "C",
        name text COLLATE "C",
        n bigint NOT NULL DEFAULT nextval('blob_order'),
        size bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (session, kind, name)
    );
    ALTER TABLE blob ALTER COLUMN data SET STORAGE EXTERNAL;
    CREATE TABLE conversation (
        hash bytea PRIMARY KEY,
        key bytea NOT NULL,             -- the conversation, as JSON
        session text COLLATE "C" NOT NULL
    );
    CREATE INDEX conversation_session ON conversation (session);
    CREATE TABLE active (session text COLLATE "C" PRIMARY KEY);
    CREATE TABLE value (                -- pairing, tokens, cursors, usage, run logs: by key
        key text COLLATE "C" PRIMARY KEY,
        version text NOT NULL,
        data bytea NOT NULL
    );
    CREATE TABLE damaged (              -- what could not be read, quarantined
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        at timestamptz NOT NULL DEFAULT now(),
        name text NOT NULL,
        data bytea NOT NULL
    );
    """,
    # Few are one or the other; the rest costs these indexes nothing.
    """
    CREATE INDEX session_pinned ON session (updated, id) WHERE pinned;
    CREATE INDEX session_archived ON session (updated, id) WHERE archived;
    """,
    # Renewed once a second, where several gateways share the tables: rows have room to change.
    """
    CREATE TABLE node (                 -- a gateway that lives
        name text COLLATE "C" PRIMARY KEY,
        instance text NOT NULL,         -- its run
        about bytea NOT NULL,           -- its address, version and seats, as JSON
        until timestamptz NOT NULL
    ) WITH (fillfactor = 20);
    CREATE TABLE lease (                -- what one of them works on: partition:7, scheduler
        name text COLLATE "C" PRIMARY KEY,
        node text COLLATE "C" NOT NULL,
        instance text NOT NULL,
        epoch bigint NOT NULL,          -- grows whenever another one takes it
        until timestamptz NOT NULL
    ) WITH (fillfactor = 20);
    """,
    # A channel with few sessions among a million of others.
    """
    CREATE INDEX session_channel ON session (channel, updated, id) WHERE agent IS NOT NULL;
    """,
)
VERSION: Final = len(STEPS)
_MIGRATING: Final = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"


class ServerFacts(Struct, frozen=True, kw_only=True):
    """How a server is set up, as far as it matters."""

    version: int
    "As the server counts: 150018."
    encoding: str
    synchronous_commit: str
    fsync: str
    is_standby: bool

    def fault(self) -> str:
        """Return why nothing may be kept there; empty where it may."""
        if self.version < OLDEST_SERVER:
            return f"PostgreSQL {self.version // 10_000} is too old; use 13 or later"
        if self.is_standby:
            return (
                "it is a standby, which takes no writes; name the primary in store.url, or several"
                " hosts and target_session_attrs=read-write"
            )
        if self.encoding != "UTF8":
            return (
                f"its encoding is {self.encoding}; create it with UTF8: createdb -E UTF8 -T"
                " template0 NAME"
            )
        if self.synchronous_commit == "off":
            return (
                "synchronous_commit is off, so that a crash loses what was acknowledged; set it to"
                " on: ALTER DATABASE name SET synchronous_commit = on"
            )
        return ""


async def look_at_server(connection: Connection | Proxy) -> ServerFacts:
    """Return how the server is set up."""
    row = await connection.fetchrow(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),"
        " current_setting('synchronous_commit'), current_setting('fsync'), pg_is_in_recovery()"
    )
    assert row is not None
    version, encoding, commits, fsync, is_standby = row
    return ServerFacts(
        version=version,
        encoding=encoding,
        synchronous_commit=commits,
        fsync=fsync,
        is_standby=is_standby,
    )


async def version_of_schema(connection: Connection | Proxy) -> int:
    """Return the version of the tables; 0 where there are none."""
    if await connection.fetchval("SELECT to_regclass('schema_version')") is None:
        return 0
    version: int = await connection.fetchval("SELECT version FROM schema_version")
    return version


async def migrate(connection: Connection | Proxy, schema: str, place: str) -> None:
    """Make the schema what this version works with, whole or not at all.

    Args:
        connection: To the server.
        schema: The name of the schema; it is made where it is missing.
        place: The database, for people.

    Raises:
        JournalError: The tables are those of a later version.
    """
    found = await version_of_schema(connection)
    if found != VERSION:
        check_version(found, place)
        async with connection.transaction():
            await connection.execute(_MIGRATING, f"everturn schema {schema}")
            await _take_steps(connection, schema, place)


async def _take_steps(connection: Connection | Proxy, schema: str, place: str) -> None:
    if not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema
    ):
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version int NOT NULL)")
    found: int = await connection.fetchval(
        "SELECT coalesce((SELECT version FROM schema_version), 0)"
    )
    check_version(found, place)
    for step in STEPS[found:]:
        await connection.execute(step)
    await connection.execute("DELETE FROM schema_version")
    await connection.execute("INSERT INTO schema_version VALUES ($1)", VERSION)


def check_version(found: int, place: str) -> None:
    """Refuse tables of a later version.

    Raises:
        JournalError: They are.
    """
    if found > VERSION:
        msg = (
            f"the database {place}: its tables have version {found}, and this Everturn knows"
            f" {VERSION}; use the Everturn that wrote them, or a later one"
        )
        raise JournalError(msg)
