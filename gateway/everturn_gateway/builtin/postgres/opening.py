"""A database opened as a store: one gateway at a time, and commands beside it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from everturn_actors.cluster.leases import TTL_S
from everturn_actors.errors import JournalError
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.journal.results import MEDIA_MAX_BYTES
from everturn_actors.ports import KeyedStore
from everturn_actors.supervisor import Backoff, RestartPolicy
from everturn_gateway.builtin.postgres.blobs import PostgresBlobs
from everturn_gateway.builtin.postgres.database import (
    Connection,
    Database,
    Proxy,
    open_database,
)
from everturn_gateway.builtin.postgres.guard import Guard, is_held, open_guard
from everturn_gateway.builtin.postgres.keyed import PostgresKeyedStore
from everturn_gateway.builtin.postgres.lists import PostgresIndex
from everturn_gateway.builtin.postgres.logs import PostgresLogs
from everturn_gateway.builtin.postgres.referee import PostgresReferee
from everturn_gateway.builtin.postgres.schema import (
    VERSION,
    look_at_server,
    migrate,
    version_of_schema,
)
from everturn_gateway.builtin.postgres.settings import PostgresSettings
from everturn_gateway.builtin.postgres.transfer import PostgresTransfer
from everturn_gateway.builtin.postgres.writer import Writer
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import OpenedStore, StoreSetup

if TYPE_CHECKING:
    from everturn_gateway.builtin.postgres import maintenance
else:
    maintenance = late("everturn_gateway.builtin.postgres.maintenance")

logger = logging.getLogger(__name__)

NODE_OUTAGE_S: Final = TTL_S + 1.0
"""How long at most a node waits for the database: what it held is another one's by then, and who
waits here could ask there."""
_WRITER: Final = RestartPolicy(restart="transient", backoff=Backoff(first_s=0.05, longest_s=2.0))


class PostgresStore(PostgresLogs, PostgresIndex, PostgresBlobs):
    """`SessionStore` in a PostgreSQL database; see there for what each method promises.

    What the contract leaves open:

    * An append is one transaction: after a crash all of its events are there, or none.
    * While the database is away, callers wait for `outage_s`; then they are refused, and what they
      asked for may have been done, unheard, where the connection broke at the end of a statement.
      Whoever loads the session again sees it.
    """


@asynccontextmanager
async def open_postgres(setup: StoreSetup) -> AsyncGenerator[OpenedStore]:
    """Open the store of a gateway, and keep other gateways out until the end.

    At the end everything that was queued is written; after that every append is refused.

    Raises:
        WorkspaceLockedError: Another gateway has the schema.
        WorkspaceLostError: Another one took it meanwhile; the block is cancelled.
        JournalError: The database cannot be used; says what to do.
    """
    settings = _settings(setup)
    async with open_database(settings) as database:
        await _check_server(database)
        async with open_guard(database, setup.node) as guard:
            await database.run(partial(_migrate, database), is_write=True)
            database.outage_s = settings.outage_s
            if setup.node:
                database.outage_s = min(settings.outage_s, NODE_OUTAGE_S)
            async with _writing(setup, database, guard) as writer:
                store = PostgresStore(
                    database,
                    writer,
                    results_max_bytes=setup.results_max_bytes,
                    media_max_bytes=MEDIA_MAX_BYTES,
                )
                referee = PostgresReferee(database) if setup.node else None
                yield OpenedStore(
                    store=store,
                    keyed=PostgresKeyedStore(database),
                    waiting=lambda: writer.waiting,
                    keeps_jobs=True,
                    transfer=partial(PostgresTransfer, database),
                    # What is cleaned once a day is loaded then.
                    maintenance=lambda: maintenance.PostgresMaintenance(database),
                    fault=database.check,
                    is_shared=referee is not None,
                    referee=referee,
                )
                if referee is not None:
                    referee.close()


@asynccontextmanager
async def open_values(setup: StoreSetup) -> AsyncGenerator[KeyedStore]:
    """Open what is kept beside sessions, for a command that may run beside a gateway.

    Raises:
        JournalError: The database cannot be used, or its tables are of another version while a
            gateway works on them.
    """
    async with open_database(_settings(setup)) as database:
        await _check_server(database)
        found = await database.run(version_of_schema)
        if found < VERSION and found and await is_held(database):
            msg = (
                f"the database {database.place}: a gateway of an earlier Everturn works on it;"
                " restart that one with this version first"
            )
            raise JournalError(msg)
        if not found and not setup.is_change:
            yield MemoryKeyedStore()  # nothing is kept yet, and to look makes no tables
            return
        await database.run(partial(_migrate, database), is_write=True)
        yield PostgresKeyedStore(database)


def _settings(setup: StoreSetup) -> PostgresSettings:
    assert isinstance(setup.settings, PostgresSettings)
    return setup.settings


async def _check_server(database: Database) -> None:
    facts = await database.run(look_at_server)
    if fault := facts.fault():
        msg = f"the database {database.place}: {fault}"
        raise JournalError(msg)
    if facts.fsync != "on":
        fields = {"place": database.place}
        logger.warning("fsync is off: a loss of power may damage the whole database", extra=fields)


async def _migrate(database: Database, connection: Connection | Proxy) -> None:
    await migrate(connection, database.schema, database.place)


@asynccontextmanager
async def _writing(setup: StoreSetup, database: Database, guard: Guard) -> AsyncGenerator[Writer]:
    """Run the task that writes and the one that watches the lock, for a block."""
    writer = Writer(database, guard, setup.on_batch)
    watching = anyio.CancelScope()

    async def watch() -> None:
        with watching:
            await guard.watch()

    async def write() -> None:
        try:
            await setup.supervisor.run("journal writer", writer.run, policy=_WRITER, is_needed=True)
        finally:
            writer.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write, name="journal writer")
        tasks.start_soon(watch, name="database lock")
        try:
            yield writer
        finally:
            writer.close()
            watching.cancel()
