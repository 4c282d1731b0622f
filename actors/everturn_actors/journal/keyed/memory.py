"""Values by key in memory, with the semantics of those on disk."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from anyio.lowlevel import checkpoint

from everturn_actors.errors import JournalError
from everturn_actors.journal.keyed.checks import (
    check_bytes,
    check_size,
    check_version,
    version_of,
)
from everturn_actors.ports import ABSENT, Value
from everturn_actors.ports.keyed import check_key, keys_in


class MemoryKeyedStore:
    """`KeyedStore` in memory; see there for what each method promises."""

    def __init__(self, values: MutableMapping[str, bytes] | None = None) -> None:
        """Begin with `values`, which outlive the store; by default with none."""
        self._values: MutableMapping[str, bytes] = {} if values is None else values

    def place(self, key: str) -> str:
        """See `KeyedStore.place`."""
        return f"memory/{key}"

    async def get(self, key: str) -> Value | None:
        """See `KeyedStore.get`."""
        data = await self._found(key, ".json")
        return None if data is None else Value(data=data, version=version_of(data))

    async def version(self, key: str) -> str:
        """See `KeyedStore.version`."""
        value = await self.get(key)
        return ABSENT if value is None else value.version

    async def put(self, key: str, data: bytes, *, expected: str | None = None) -> str:
        """See `KeyedStore.put`."""
        check_size(data, self.place(key))
        check_version(await self._found(key, ".json"), expected, self.place(key))
        self._values[key] = data
        return version_of(data)

    async def delete(self, key: str) -> None:
        """See `KeyedStore.delete`."""
        await self._found(key)
        self._values.pop(key, None)

    async def list(self, folder: str) -> tuple[str, ...]:
        """See `KeyedStore.list`."""
        await checkpoint()
        return keys_in(folder, self._values)

    async def quarantine(self, key: str) -> str:
        """See `KeyedStore.quarantine`."""
        data = await self._found(key)
        if data is None:
            return self.place(key)
        quarantine_path = f"{key}.damaged-{sum(name.startswith(key) for name in self._values)}"
        self._values[quarantine_path] = self._values.pop(key)
        return self.place(quarantine_path)

    async def read(self, keys: Sequence[str]) -> tuple[bytes | JournalError, ...]:
        """See `KeyedStore.read`."""
        return tuple([await self._found(key, ".jsonl") or b"" for key in keys])

    async def append(self, key: str, lines: bytes, *, expected_bytes: int) -> None:
        """See `KeyedStore.append`."""
        known = await self._lines(key, expected_bytes)
        check_size(known + lines, self.place(key))
        self._values[key] = known + lines

    async def rewrite(self, key: str, lines: bytes, *, expected_bytes: int) -> None:
        """See `KeyedStore.rewrite`."""
        check_size(lines, self.place(key))
        await self._lines(key, expected_bytes)
        self._values[key] = lines

    async def _found(self, key: str, end: str = "") -> bytes | None:
        """Return what stands under a key, after the pause that a disk would cause too."""
        check_key(key, end=end)
        await checkpoint()
        return self._values.get(key)

    async def _lines(self, key: str, expected_bytes: int) -> bytes:
        known = await self._found(key, ".jsonl") or b""
        check_bytes(len(known), expected_bytes, self.place(key))
        return known
