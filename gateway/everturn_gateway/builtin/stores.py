"""The stores that come with Everturn: files of the workspace, and the memory of the process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from everturn_actors.journal.files import FileStore
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.journal.opening import open_file_store
from everturn_actors.ports import KeyedStore
from everturn_actors.ports.maintenance import Maintenance
from everturn_actors.ports.transfer import Transfer
from everturn_gateway.plugins import OpenedStore, StorePlugin, StoreSettings, StoreSetup


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
            transfer=partial(_transfer, files),
            maintenance=partial(_maintenance, files),
            waiting=lambda: files.waiting,
            fault=files.health.check,
        )


def _transfer(files: FileStore) -> Transfer:
    # Only a move needs it; no start of a gateway loads it.
    from everturn_actors.journal.files.transfer import FileTransfer

    return FileTransfer(files)


def _maintenance(files: FileStore) -> Maintenance:
    # What is cleaned once a day is loaded then.
    from everturn_actors.journal.files.maintenance import FileMaintenance

    return FileMaintenance(files)


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
