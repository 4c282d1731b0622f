"""A store in memory, by name: what one gateway of a process left there, the next one finds."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_gateway.plugins import OpenedStore, StorePlugin, StoreSettings, StoreSetup

_DISKS: Final[dict[str, MemoryDisk]] = {}


class VaultSettings(StoreSettings):
    """`store` with `type: vault`."""

    name: str
    "Which vault."
    seal: Annotated[str, Field(repr=False)] = ""
    "A secret word."


@asynccontextmanager
async def open_vault(setup: StoreSetup) -> AsyncGenerator[OpenedStore]:
    """Open the vault that the settings name."""
    assert isinstance(setup.settings, VaultSettings)
    disk = _DISKS.setdefault(setup.settings.name, MemoryDisk())
    async with open_memory_store(disk, results_max_bytes=setup.results_max_bytes) as store:
        yield OpenedStore(store=store, keyed=store.keyed)


VAULT: Final = StorePlugin(
    name="vault",
    interface=1,
    summary="a store in memory, by name",
    docs="https://example.org/vault",
    settings=VaultSettings,
    open=open_vault,
)
