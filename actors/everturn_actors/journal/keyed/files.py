"""Values by key in files of the workspace: the key is the path, and people may look at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
from anyio import to_thread

from everturn_actors.errors import JournalError
from everturn_actors.journal.keyed.checks import check_size, version_of
from everturn_actors.journal.keyed.lines import append_lines, read_lines, rewrite_lines
from everturn_actors.journal.keyed.whole import (
    Stamped,
    delete,
    names_in,
    quarantine,
    read_value,
    read_version,
    replace_value,
)
from everturn_actors.ports import Value
from everturn_actors.ports.keyed import check_key, keys_in

THREADS: Final = 8  # that read and write at the same time; disks gain no more

T = TypeVar("T")


class FileKeyedStore:
    """`KeyedStore` on plain files; see there for what each method promises.

    Safe beside other processes that use the same folder: each writer holds the lock of the file's
    draft. Files and folders are readable for their owner alone. What people write by hand counts
    like what a store writes.
    """

    def __init__(self, folder: Path) -> None:
        """Keep values in `folder`, which is made with the first of them."""
        self._folder = folder
        self._threads = anyio.CapacityLimiter(THREADS)
        self._known: dict[str, Stamped] = {}
        "By key; of values that are watched."

    def place(self, key: str) -> str:
        """See `KeyedStore.place`."""
        return str(self._folder / key)

    async def get(self, key: str) -> Value | None:
        """See `KeyedStore.get`."""
        data = await self._in_thread(read_value, self._path(key, ".json"))
        return None if data is None else Value(data=data, version=version_of(data))

    async def version(self, key: str) -> str:
        """See `KeyedStore.version`."""
        work = partial(read_version, known=self._known.get(key))
        self._known[key] = found = await self._in_thread(work, self._path(key, ".json"))
        return found.version

    async def put(self, key: str, data: bytes, *, expected: str | None = None) -> str:
        """See `KeyedStore.put`."""
        check_size(data, self.place(key))
        work = partial(replace_value, data=data, expected=expected)
        # A disk that hangs must not keep a gateway from closing; the lock keeps writers apart.
        await self._in_thread(work, self._path(key, ".json"), abandon_on_cancel=True)
        return version_of(data)

    async def delete(self, key: str) -> None:
        """See `KeyedStore.delete`."""
        await self._in_thread(delete, self._path(key))

    async def list(self, folder: str) -> tuple[str, ...]:
        """See `KeyedStore.list`."""
        check_key(f"{folder}x.json")
        names = await self._in_thread(names_in, self._folder / folder)
        return keys_in(folder, (f"{folder}{name}" for name in names))

    async def quarantine(self, key: str) -> str:
        """See `KeyedStore.quarantine`."""
        return str(await self._in_thread(quarantine, self._path(key)))

    async def read(self, keys: Sequence[str]) -> tuple[bytes | JournalError, ...]:
        """See `KeyedStore.read`."""
        paths = [self._path(key, ".jsonl") for key in keys]
        return await to_thread.run_sync(read_lines, paths, limiter=self._threads)

    async def append(self, key: str, lines: bytes, *, expected_bytes: int) -> None:
        """See `KeyedStore.append`."""
        check_size(lines, self.place(key))
        work = partial(append_lines, lines=lines, expected_bytes=expected_bytes)
        await self._in_thread(work, self._path(key, ".jsonl"))

    async def rewrite(self, key: str, lines: bytes, *, expected_bytes: int) -> None:
        """See `KeyedStore.rewrite`."""
        check_size(lines, self.place(key))
        work = partial(rewrite_lines, lines=lines, expected_bytes=expected_bytes)
        await self._in_thread(work, self._path(key, ".jsonl"))

    def _path(self, key: str, end: str = "") -> Path:
        return self._folder / check_key(key, end=end)

    async def _in_thread(
        self, work: Callable[[Path], T], path: Path, *, abandon_on_cancel: bool = False
    ) -> T:
        return await to_thread.run_sync(
            work, path, abandon_on_cancel=abandon_on_cancel, limiter=self._threads
        )
