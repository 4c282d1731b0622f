"""A memory store whose methods fail as they are told to, and that counts its loads."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from everturn_actors.errors import JournalWriteError
from everturn_actors.events import Body, Event
from everturn_actors.journal.disk import write_error
from everturn_actors.journal.memory import MemoryDisk, MemoryStore
from everturn_actors.journal.results import RESULTS_MAX_BYTES
from everturn_actors.model import Compaction
from everturn_actors.ports import Loaded
from everturn_actors.state.session_state import SessionState

Method: TypeAlias = Literal[
    "load",
    "append",
    "save_snapshot",
    "mark_active",
    "mark_passive",
    "save_result",
    "read_media",
]
WRITES: tuple[Method, ...] = (
    "append",
    "save_snapshot",
    "mark_active",
    "mark_passive",
    "save_result",
)


def disk_full() -> JournalWriteError:
    """Return what a full disk gives."""
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return write_error(error, Path("memory"))


class FaultyStore(MemoryStore):
    """Fails where `faults` has the name of a method, with what that makes."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk, results_max_bytes=RESULTS_MAX_BYTES)
        self.faults: dict[Method, Callable[[], BaseException]] = {}
        self.append_fault: Callable[[Sequence[Body]], BaseException | None] | None = None
        "Chooses by what is appended."
        self.disk = disk
        self.loads = 0
        "Each start of an actor loads its session once."

    def break_method(self, method: Method, make: Callable[[], BaseException]) -> None:
        """Let one method fail from now on."""
        self.faults[method] = make

    def fill_disk(self) -> None:
        """Let nothing be written any more."""
        self.faults.update(dict.fromkeys(WRITES, disk_full))

    def _check(self, method: Method) -> None:
        make = self.faults.get(method)
        if make is not None:
            raise make()

    async def load(self, session_id: str) -> Loaded | None:
        """See `SessionStore.load`."""
        self.loads += 1
        self._check("load")
        return await super().load(session_id)

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """See `SessionStore.append`."""
        self._check("append")
        error = self.append_fault([event.body for event in events]) if self.append_fault else None
        if error is not None:
            raise error
        await super().append(session_id, events, expected_seq=expected_seq)

    async def save_snapshot(self, state: SessionState, *, compaction: Compaction) -> None:
        """See `SessionStore.save_snapshot`."""
        self._check("save_snapshot")
        await super().save_snapshot(state, compaction=compaction)

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """See `SessionStore.save_result`."""
        self._check("save_result")
        await super().save_result(session_id, name, text)

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """See `SessionStore.read_media`."""
        self._check("read_media")
        return await super().read_media(session_id, name)

    async def mark_active(self, session_id: str) -> None:
        """See `SessionStore.mark_active`."""
        self._check("mark_active")
        await super().mark_active(session_id)

    async def mark_passive(self, session_id: str) -> None:
        """See `SessionStore.mark_passive`."""
        self._check("mark_passive")
        await super().mark_passive(session_id)


@asynccontextmanager
async def open_faulty_store(disk: MemoryDisk | None = None) -> AsyncGenerator[FaultyStore]:
    """Open one; nothing fails yet."""
    disk = disk or MemoryDisk()
    store = FaultyStore(disk)
    disk.user = store
    try:
        yield store
    finally:
        if disk.user is store:
            disk.user = None
