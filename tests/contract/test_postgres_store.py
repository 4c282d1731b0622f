"""The store in PostgreSQL keeps the contracts of all stores, on a real server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from support.database import Server, needs_database
from support.stores import open_postgres_store, postgres_setup

from everturn.testing import KeyedStoreContract, StoreContract
from everturn_actors.ports import KeyedStore, SessionStore
from everturn_gateway.builtin.postgres.plugin import POSTGRES
from everturn_gateway.builtin.postgres.settings import PostgresSettings

pytestmark = needs_database


class OnAServer:
    """A schema of its own for each test."""

    section: PostgresSettings
    folder: Path

    @pytest.fixture(autouse=True)
    def _schema(self, database_server: Server) -> None:
        self.section = database_server.section(f"t{uuid4().hex}")


class TestPostgresStore(OnAServer, StoreContract):
    """Sessions."""

    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[SessionStore]:
        """Open the schema again."""
        async with open_postgres_store(self.section, self.folder) as opened:
            yield opened.store


class TestPostgresValues(OnAServer, KeyedStoreContract):
    """Values by key."""

    @asynccontextmanager
    async def open_keyed(self) -> AsyncGenerator[KeyedStore]:
        """Open the schema again."""
        assert POSTGRES.open_keyed is not None
        async with POSTGRES.open_keyed(postgres_setup(self.section, self.folder)) as values:
            yield values
