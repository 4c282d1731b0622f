"""What `doctor` says of a database: how it is set up, and whether each session can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from everturn_actors.cluster.leases import Share
from everturn_actors.errors import JournalError
from everturn_actors.journal.log.archive import missing_of, spans_text
from everturn_actors.journal.log.codec import seed, whole_seq
from everturn_actors.state.recovery import recover
from everturn_gateway.builtin.postgres.database import Database, open_database
from everturn_gateway.builtin.postgres.loading import find
from everturn_gateway.builtin.postgres.referee import look_at_nodes
from everturn_gateway.builtin.postgres.rows import gaps_of
from everturn_gateway.builtin.postgres.schema import (
    VERSION,
    check_version,
    look_at_server,
    version_of_schema,
)
from everturn_gateway.builtin.postgres.settings import PostgresSettings
from everturn_gateway.plugins import StoreNote, StoreSetup

NOTES_MAX: Final = 100
_PAGE: Final = 200  # sessions at a time
_LINES: Final = 1_000  # of one session at a time
_IDS: Final = "SELECT id, last_seq FROM session WHERE id > $1 ORDER BY id LIMIT $2"
_LOG: Final = "SELECT seq, line FROM event WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3"
_GAPS: Final = "SELECT gaps FROM snapshot WHERE session = $1"
_STRAY: Final = """
SELECT (SELECT count(*) FROM active WHERE session NOT IN (SELECT id FROM session)),
    (SELECT count(*) FROM damaged)
"""


async def examine(setup: StoreSetup) -> tuple[StoreNote, ...]:
    """Look at the server, the tables and every session; nothing is changed.

    Raises:
        JournalError: The database cannot be used.
    """
    assert isinstance(setup.settings, PostgresSettings)
    async with open_database(setup.settings) as database:
        facts = await database.run(look_at_server)
        found = await database.run(version_of_schema)
        check_version(found, database.place)
        server = f"PostgreSQL {facts.version // 10_000}"
        tables = f"tables of version {found}" if found else "no tables: the first start makes them"
        notes = [StoreNote(text=f"{database.place}: {server}, {tables}", is_problem=False)]
        if fault := facts.fault():
            notes.append(StoreNote(text=f"the database {database.place}: {fault}"))
        if facts.fsync != "on":
            text = "fsync of the server is off: a loss of power may damage the whole database"
            notes.append(StoreNote(text=text))
        if found == VERSION:
            notes += _shared(await look_at_nodes(database))
            notes += await _contents(database)
        return tuple(notes)


async def list_nodes(setup: StoreSetup) -> tuple[Share, ...]:
    """Return which gateways share the database now; none where it has no tables yet.

    Raises:
        JournalError: The database cannot be used, or its tables are of another version.
    """
    assert isinstance(setup.settings, PostgresSettings)
    async with open_database(setup.settings) as database:
        found = await database.run(version_of_schema)
        check_version(found, database.place)
        return await look_at_nodes(database) if found == VERSION else ()


def _shared(nodes: Sequence[Share]) -> list[StoreNote]:
    """Look at the gateways that share it."""
    notes = [
        StoreNote(
            text=f"node {each.member.node.name} at {each.member.node.address}, Everturn"
            f" {each.member.node.version}:"
            f" {', '.join([f'{each.partitions} partitions', *each.seats])}"
            f"{'; it goes' if each.member.drains else ''}",
            is_problem=False,
        )
        for each in nodes
    ]
    if len({each.member.digest for each in nodes if each.member.digest}) > 1:
        text = (
            "the nodes have different agents: who answers depends on where a conversation is; give"
            " all of them the same agents folder"
        )
        notes.append(StoreNote(text=text))
    if len({each.member.node.version for each in nodes}) > 1:
        text = "the nodes run different versions of Everturn; finish the upgrade"
        notes.append(StoreNote(text=text))
    return notes


async def _contents(database: Database) -> list[StoreNote]:
    """Look at what the tables hold."""
    notes: list[StoreNote] = []
    last, sessions = "", 0
    while len(notes) < NOTES_MAX:
        values = (last, _PAGE)
        rows = await database.rows(_IDS, *values)
        for session_id, last_seq in rows:
            if fault := await _fault_of(database, session_id, last_seq):
                notes.append(StoreNote(text=fault))
        sessions += len(rows)
        if len(rows) < _PAGE:
            break
        last = rows[-1][0]
    stray, damaged = await database.row(_STRAY) or (0, 0)
    if damaged:
        text = f"{damaged} damaged values or snapshots were quarantined in the table damaged"
        notes.append(StoreNote(text=text, is_problem=False))
    if stray:
        text = f"{stray} marks of open turns belong to no session; the next start passes them over"
        notes.append(StoreNote(text=text, is_problem=False))
    notes.append(StoreNote(text=f"{sessions} sessions were read", is_problem=False))
    return notes


async def _fault_of(database: Database, session_id: str, last_seq: int) -> str:
    """Return what is wrong with a session; empty where it is in order."""
    try:
        found = await find(database, session_id)
        if found is None:
            return ""  # it was deleted meanwhile
        if found.bad_snapshot is not None:
            return f"session {session_id}: {found.loaded.repairs[0]} with its next message"
        recover(found.loaded.snapshot, found.loaded.events)
    except JournalError as error:
        return str(error)
    missing = await _missing(database, session_id, last_seq)
    if not missing:
        return ""
    return (
        f"session {session_id}: {spans_text(missing)} missing or damaged. The session works"
        " without them, its history has a gap; a backup may still hold them"
    )


async def _missing(database: Database, session_id: str, last_seq: int) -> list[tuple[int, int]]:
    """Return the runs of events that the log should hold and does not, whole."""
    start, present, after = seed(session_id), set[int](), 0
    while True:
        values = (session_id, after, _LINES)
        rows = await database.rows(_LOG, *values)
        present.update(s for s, line in rows if whole_seq(line.removesuffix(b"\n"), start) == s)
        if len(rows) < _LINES:
            break
        after = rows[-1][0]
    gaps = await database.value(_GAPS, session_id)
    return missing_of(present, () if gaps is None else gaps_of(gaps), last_seq)
