"""Keeps a second gateway out of a schema, by a lock that ends with the connection that holds it.

Gateways that share a schema hold that lock together, and each a second one on its own name.

A gateway that is killed leaves nothing behind: its next start has the lock as soon as the server
has noticed, for which it waits a moment. Where the server was away, the lock is taken again as soon
as it is back; whoever came meanwhile keeps it, and this gateway stops. Where only the way there was
away, the server may not have noticed: what holds the lock is then the connection of before, and is
ended. What is written is compared in the store all the same (`SessionStore.append`): the lock only
keeps work from being done twice.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import anyio
import asyncpg
from msgspec import Struct

from everturn_actors.errors import JournalError, WorkspaceLockedError, WorkspaceLostError
from everturn_gateway.builtin.postgres.database import Attempt, Connection, Database
from everturn_gateway.builtin.postgres.faults import LIBRARY_ERRORS

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0  # how often an idle gateway looks whether the lock is still its own
NODE_LOOK_S: Final = 10.0  # the same of a node: its leases tell it sooner that the database is away
_TAKE: Final = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"
_WAIT: Final = "SELECT pg_advisory_lock(hashtextextended($1, 0))"
_SHARE: Final = "SELECT pg_try_advisory_lock_shared(hashtextextended($1, 0))"
_HOLDERS: Final = """
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = hashtextextended($1, 0)
"""
_HOLDER: Final = f"""
SELECT application_name, coalesce(host(client_addr), 'this machine'), backend_start {_HOLDERS}
"""
_END: Final = f"SELECT pg_terminate_backend(pid) {_HOLDERS} AND (pid, backend_start) = ($2, $3)"
_MINE: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END_S: Final = 5.0  # for a connection of before to end
_AGAIN_S: Final = 0.1
_ENDING_TRIES: Final = 20  # where a gateway has just ended: its server may not have noticed yet


class _Lock(Struct, frozen=True):
    """The connection that holds the locks of a gateway."""

    connection: Connection
    pid: int
    "Its process of the server, which another one may be called by later."
    since: datetime
    "When that process began."


class Guard:
    """The lock of this gateway."""

    def __init__(self, database: Database, lock: _Lock, node: str) -> None:
        """Take the lock; `node` is the gateway's name among others."""
        self._database, self._lock, self._node = database, lock, node
        self._taking = anyio.Lock()

    @property
    def _connection(self) -> Connection:
        return self._lock.connection

    async def hold(self) -> None:
        """Return when the lock is ours; take it again where the connection was lost.

        Raises:
            WorkspaceLostError: Another gateway has it now.
            JournalError: The database stays away.
        """
        if self._connection.is_closed():
            async with self._taking:
                if self._connection.is_closed():
                    await self._take_again()

    async def watch(self) -> None:
        """Look from time to time whether the lock is still ours, until cancelled.

        Raises:
            WorkspaceLostError: Another gateway has it now.
        """
        while True:
            await anyio.sleep(NODE_LOOK_S if self._node else LOOK_S)
            try:
                await self._look()
            except WorkspaceLostError:
                raise
            except JournalError as error:
                logger.warning("the lock of the database cannot be held", extra={"why": str(error)})

    async def _look(self) -> None:
        try:
            with anyio.fail_after(LOOK_S * 5):
                if not self._connection.is_closed():
                    await self._connection.execute("SELECT 1")
        except LIBRARY_ERRORS:
            self._connection.terminate()
        await self.hold()

    async def _take_again(self) -> None:
        async def take(_attempt: Attempt) -> _Lock | str:
            return await _taken(self._database, self._node, before=self._lock)

        lock = await self._database.trying(take, is_write=True)
        if isinstance(lock, str):
            raise WorkspaceLostError(Path(_name(self._database)), why=_LOST)
        self._lock = lock
        logger.info("the database is back; no other gateway came meanwhile")

    async def close(self) -> None:
        """Give the lock back."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(LOOK_S):
            await self._connection.close()
        self._connection.terminate()


_LOST: Final = (
    "another gateway took this database while it could not be reached from here, so this one takes"
    " nothing more and stops; what it accepted is kept. Only one gateway works on a database"
)


@asynccontextmanager
async def open_guard(database: Database, node: str = "") -> AsyncGenerator[Guard]:
    """Hold the lock for a block.

    Args:
        database: The schema is there.
        node: The name of this gateway among those that share it; empty = it is alone.

    Raises:
        WorkspaceLockedError: Another gateway has it.
    """
    tries = 0
    while isinstance(lock := await database.trying(lambda _attempt: _taken(database, node)), str):
        tries += 1
        if tries > _ENDING_TRIES:
            holder = await database.row(_HOLDER, lock)
            message = _in_use(database, holder, node, is_twin=lock != _name(database))
            raise WorkspaceLockedError(Path(database.place), 0, message=message)
        await anyio.sleep(_AGAIN_S)
    guard = Guard(database, lock, node)
    try:
        yield guard
    finally:
        await guard.close()


def _in_use(database: Database, holder: asyncpg.Record | None, node: str, *, is_twin: bool) -> str:
    who = ""
    if holder is not None:
        name, address, since = holder
        who = f" ({name}, from {address}, since {since:%Y-%m-%d %H:%M:%S} UTC)"
    if is_twin:
        return (
            f"another gateway of the database {database.place} is called {node!r}{who}; give each"
            " its own cluster.node, or stop that one"
        )
    text = f"the database {database.place} is in use by another gateway{who}"
    if node:
        return f"{text} that does not share it; stop it, and give it a `cluster` section, too"
    return f"{text}; stop it, or give this one a schema of its own (store.schema)"


async def _taken(database: Database, node: str, before: _Lock | None = None) -> _Lock | str:
    """Return the locks on a new connection, or the name of the one that another has.

    Args:
        database: Where they are.
        node: The name of this gateway among others; empty = it is alone.
        before: What held them until the way there broke.
    """
    connection = await database.connect(f"everturn process {os.getpid()}")
    schema = _name(database)
    locks = ((_SHARE, schema), (_TAKE, f"{schema} node {node}")) if node else ((_TAKE, schema),)
    try:
        for take, name in locks:
            if not await connection.fetchval(take, name) and not (
                before is not None and await _taken_from(before, connection, take, name)
            ):
                await connection.close()
                return name
        row = await connection.fetchrow(_MINE)
        assert row is not None, "this connection"
    except BaseException:
        connection.terminate()
        raise
    return _Lock(connection, *row)


async def _taken_from(before: _Lock, connection: Connection, take: str, name: str) -> bool:
    """Return whether a lock is taken that only our own connection of before still held."""
    if await connection.fetchval(_END, name, before.pid, before.since):
        await connection.execute(_WAIT, name, timeout=_END_S)
        return True
    # It may have ended by itself a moment ago: then nobody has the lock.
    return bool(await connection.fetchval(take, name))


def _name(database: Database) -> str:
    return f"everturn gateway {database.schema}"


async def is_held(database: Database) -> bool:
    """Say whether a gateway works on a schema now."""
    holder = await database.row(_HOLDER, _name(database))
    return holder is not None
