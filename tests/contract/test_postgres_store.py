"""The store in PostgreSQL keeps the contracts of all stores, on a real server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from support.database import Server, needs_database
from support.stores import open_postgres_store, postgres_setup
from support.suites import hold_to_suite

from everturn.testing import KeyedStoreContract, StoreContract
from everturn_actors.ports import KeyedStore, SessionStore
from everturn_gateway.builtin.postgres.plugin import POSTGRES

pytestmark = needs_database


class OnAServer:
    """A schema of its own for each test."""

    folder: Path

    def __init__(self, server: Server) -> None:
        self.section = server.section(f"t{uuid4().hex}")


class PostgresStore(OnAServer, StoreContract):
    """Sessions."""

    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[SessionStore]:
        """Open the schema again."""
        async with open_postgres_store(self.section, self.folder) as opened:
            yield opened.store


class PostgresValues(OnAServer, KeyedStoreContract):
    """Values by key."""

    @asynccontextmanager
    async def open_keyed(self) -> AsyncGenerator[KeyedStore]:
        """Open the schema again."""
        assert POSTGRES.open_keyed is not None
        async with POSTGRES.open_keyed(postgres_setup(self.section, self.folder)) as values:
            yield values


@pytest.mark.parametrize("share", range(2))
def test_sessions_in_a_database_keep_the_contract(
    share: int, database_server: Server, tmp_path: Path
) -> None:
    """Whoever uses them cannot tell that it is one."""
    hold_to_suite(partial(PostgresStore, database_server), tmp_path, share=share, parts=2)


def test_values_in_a_database_keep_the_contract(database_server: Server, tmp_path: Path) -> None:
    """As files do."""
    hold_to_suite(partial(PostgresValues, database_server), tmp_path)
