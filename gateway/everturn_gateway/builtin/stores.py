"""The stores that come with Everturn: files of the workspace, and the memory of the process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.journal.opening import open_file_store
from everturn_actors.ports import KeyedStore
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import OpenedStore, StorePlugin, StoreSettings, StoreSetup

if TYPE_CHECKING:
    from everturn_actors.journal.files import maintenance, transfer
else:
    maintenance = late("everturn_actors.journal.files.maintenance")
    transfer = late("everturn_actors.journal.files.transfer")


@asynccontextmanager
async def _open_files(setup: StoreSetup) -> AsyncGenerator[OpenedStore]:
    async with open_file_store(
        setup.workspace,
        results_max_bytes=setup.results_max_bytes,
        on_batch=setup.on_batch,
        keeps_index=setup.is_serving,
        supervisor=setup.supervisor,
    ) as files:
        yield OpenedStore(
            store=files,
            keyed=FileKeyedStore(setup.workspace),
            # Only a move needs the one, and what is cleaned once a day is loaded then.
            transfer=lambda: transfer.FileTransfer(files),
            maintenance=lambda: maintenance.FileMaintenance(files),
            waiting=lambda: files.waiting,
            fault=files.health.check,
        )


@asynccontextmanager
async def _open_keyed_files(setup: StoreSetup) -> AsyncGenerator[KeyedStore]:
    yield FileKeyedStore(setup.workspace)


@asynccontextmanager
async def _open_memory(setup: StoreSetup) -> AsyncGenerator[OpenedStore]:
    async with open_memory_store(MemoryDisk(), results_max_bytes=setup.results_max_bytes) as store:
        yield OpenedStore(store=store, keyed=store.keyed, is_passing=True)


FILE: Final = StorePlugin(
    name="file",
    interface=1,
    summary="a folder for each session in the workspace",
    docs="docs/architecture.md",
    settings=StoreSettings,
    open=_open_files,
    open_keyed=_open_keyed_files,
    locks_workspace=True,
    is_in_files=True,
)
MEMORY: Final = StorePlugin(
    name="memory",
    interface=1,
    summary="the memory of the process: what is kept is gone when it ends",
    docs="docs/plugins.md",
    settings=StoreSettings,
    open=_open_memory,
)
