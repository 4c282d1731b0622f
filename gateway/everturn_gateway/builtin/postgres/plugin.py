"""The description of the store in PostgreSQL. Quick to import: the library loads with its use."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from everturn_actors.ports import KeyedStore
from everturn_gateway.builtin.postgres.settings import PostgresSettings, secrets
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import OpenedStore, StoreNote, StorePlugin, StoreSetup

if TYPE_CHECKING:
    from everturn_actors.cluster.leases import Share
    from everturn_gateway.builtin.postgres import examination, opening
else:
    examination = late("everturn_gateway.builtin.postgres.examination")
    opening = late("everturn_gateway.builtin.postgres.opening")


@asynccontextmanager
async def _open(setup: StoreSetup) -> AsyncGenerator[OpenedStore]:
    async with opening.open_postgres(setup) as opened:
        yield opened


@asynccontextmanager
async def _open_keyed(setup: StoreSetup) -> AsyncGenerator[KeyedStore]:
    async with opening.open_values(setup) as keyed:
        yield keyed


async def _examine(setup: StoreSetup) -> tuple[StoreNote, ...]:
    return await examination.examine(setup)


async def _nodes(setup: StoreSetup) -> tuple[Share, ...]:
    return await examination.list_nodes(setup)


POSTGRES: Final = StorePlugin(
    name="postgres",
    interface=1,
    summary="a PostgreSQL database, for all that the workspace holds",
    docs="docs/scale-out.md",
    extra="everturn[postgres]",
    libraries=("asyncpg",),
    settings=PostgresSettings,
    secrets=secrets,
    open=_open,
    open_keyed=_open_keyed,
    examine=_examine,
    is_shareable=True,
    nodes=_nodes,
)
