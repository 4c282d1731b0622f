"""The two stores behind one face, for suites that hold both to the same contract."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol

from support.tables import table

from everturn_actors.errors import JournalWriteError
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.journal.log.layout import Layout
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.journal.opening import open_file_store
from everturn_actors.journal.results import MEDIA_MAX_BYTES, RESULTS_MAX_BYTES
from everturn_actors.ports import SessionStore
from everturn_actors.supervisor import Supervisor
from everturn_gateway.builtin.postgres.plugin import POSTGRES
from everturn_gateway.clock import SystemClock
from everturn_gateway.plugins import OpenedStore, StoreSettings, StoreSetup


class FullDisk(MemoryKeyedStore):
    """Values in memory, as long as there is room."""

    is_full = False

    async def put(self, key: str, data: bytes, *, expected: str | None = None) -> str:
        """Keep a value, or fail as a full disk does."""
        if self.is_full:
            msg = f"{self.place(key)}: the disk is full (ENOSPC)"
            raise JournalWriteError(msg)
        return await super().put(key, data, expected=expected)


def postgres_setup(
    section: StoreSettings,
    folder: Path,
    *,
    results_max_bytes: int = RESULTS_MAX_BYTES,
    node: str = "",
) -> StoreSetup:
    """Return what a store in a database is opened with, by one of several gateways or the only."""
    return StoreSetup(
        settings=section,
        workspace=folder,
        results_max_bytes=results_max_bytes,
        on_batch=lambda _stats: None,
        is_serving=True,
        supervisor=Supervisor(SystemClock()),
        node=node,
    )


@asynccontextmanager
async def open_postgres_store(
    section: StoreSettings, folder: Path, *, results_max_bytes: int = RESULTS_MAX_BYTES
) -> AsyncGenerator[OpenedStore]:
    """Open a store in a database, as a gateway does."""
    setup = postgres_setup(section, folder, results_max_bytes=results_max_bytes)
    async with POSTGRES.open(setup) as opened:
        yield opened


class World(Protocol):
    """A disk, and the way to open a store on it; opened again, it is a restart."""

    def open(
        self,
        *,
        results_max_bytes: int = RESULTS_MAX_BYTES,
        media_max_bytes: int = MEDIA_MAX_BYTES,
    ) -> AbstractAsyncContextManager[SessionStore]:
        """Open a store on what the last one left."""
        ...

    def tear(self, session_id: str) -> None:
        """Leave half a line at the end of a session's log, as a crash does."""
        ...

    def marks(self) -> object:
        """Return what tells whether anything that is kept of sessions has changed since."""
        ...


class FileWorld:
    """A workspace on disk."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace

    def open(
        self,
        *,
        results_max_bytes: int = RESULTS_MAX_BYTES,
        media_max_bytes: int = MEDIA_MAX_BYTES,
    ) -> AbstractAsyncContextManager[SessionStore]:
        """Open a file store."""
        return open_file_store(
            self.workspace,
            results_max_bytes=results_max_bytes,
            media_max_bytes=media_max_bytes,
        )

    def tear(self, session_id: str) -> None:
        """Write the beginning of a line."""
        log = Layout(workspace=self.workspace).session(session_id).log
        fd = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b'{"v":2,"seq":')
        os.close(fd)

    def marks(self) -> object:
        """Return names, sizes, times and bytes of all files but the lock."""
        return tree_marks(self.workspace)


class MemoryWorld:
    """A disk in memory."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()

    def open(
        self,
        *,
        results_max_bytes: int = RESULTS_MAX_BYTES,
        media_max_bytes: int = MEDIA_MAX_BYTES,
    ) -> AbstractAsyncContextManager[SessionStore]:
        """Open a memory store."""
        return open_memory_store(
            self.disk, results_max_bytes=results_max_bytes, media_max_bytes=media_max_bytes
        )

    def tear(self, session_id: str) -> None:
        """Tell the disk."""
        self.disk.tear(session_id)

    def marks(self) -> object:
        """Return a copy of all that the disk holds."""
        disk = self.disk
        return deepcopy((disk.sessions, disk.active, disk.pointers, disk.appends))


def on_each_store(test: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    """Return one test of a function that takes a disk, `world`: both kinds of it are tried."""

    async def on(kind: str, tmp_path: Path, **fixtures: Any) -> None:
        world = FileWorld(tmp_path / "workspace") if kind == "files" else MemoryWorld()
        await test(world=world, **fixtures)

    given = [each for name, each in inspect.signature(test).parameters.items() if name != "world"]
    own = [each for each in inspect.signature(on).parameters.values() if each.name != "fixtures"]
    on.__signature__ = inspect.Signature([*own, *given])  # type: ignore[attr-defined]
    on.__name__, on.__qualname__ = test.__name__, test.__qualname__
    on.__doc__, on.__module__ = test.__doc__, test.__module__
    return table("kind", ["files", "memory"])(on)


def tree_marks(folder: Path, *, without: Collection[str] = ("workspace.lock",)) -> object:
    """Return path, size, time of change and bytes of all that is under `folder`.

    Args:
        folder: Where to look.
        without: Names of files that may change.
    """
    return {
        path.relative_to(folder): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else sorted(each.name for each in path.iterdir()),
        )
        for path in sorted(folder.rglob("*"))
        if path.name not in without
    }
