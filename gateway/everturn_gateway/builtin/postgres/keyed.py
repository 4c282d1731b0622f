"""Values by key in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio

from everturn_actors.errors import ConflictError, JournalError
from everturn_actors.journal.keyed.checks import check_bytes, check_size, version_of
from everturn_actors.ports import ABSENT, Value
from everturn_actors.ports.keyed import VALUE_MAX_BYTES, check_key, keys_in
from everturn_gateway.builtin.postgres.database import Attempt, Connection, Database, Proxy

_GET: Final = "SELECT data, version FROM value WHERE key = $1"
_VERSION: Final = "SELECT version FROM value WHERE key = $1"
_PUT: Final = """
INSERT INTO value (key, version, data) VALUES ($1, $2, $3)
ON CONFLICT (key) DO UPDATE SET version = $2, data = $3
"""
_PUT_NEW: Final = (
    "INSERT INTO value (key, version, data) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
)
_PUT_INSTEAD: Final = "UPDATE value SET version = $2, data = $3 WHERE key = $1 AND version = $4"
_APPEND: Final = """
UPDATE value SET data = data || $2::bytea WHERE key = $1 AND length(data) = $3
    AND length(data) + length($2::bytea) <= $4
"""
_REWRITE: Final = "UPDATE value SET data = $2 WHERE key = $1 AND length(data) = $3"
_QUARANTINE: Final = """
WITH gone AS (DELETE FROM value WHERE key = $1 RETURNING key, data)
INSERT INTO damaged (name, data) SELECT key, data FROM gone RETURNING id
"""
_LIST: Final = "SELECT key FROM value WHERE key > $1 AND key < $2"
_READ: Final = "SELECT key, data FROM value WHERE key = ANY ($1::text[])"


class PostgresKeyedStore:
    """`KeyedStore` in a table; see there for what each method promises."""

    def __init__(self, database: Database) -> None:
        """Keep values in a schema."""
        self._database = database

    def place(self, key: str) -> str:
        """See `KeyedStore.place`."""
        return f"{self._database.place} {self._database.schema}.value {key}"

    async def get(self, key: str) -> Value | None:
        """See `KeyedStore.get`."""
        check_key(key, end=".json")
        row = await self._database.row(_GET, key)
        return None if row is None else Value(data=row[0], version=row[1])

    async def version(self, key: str) -> str:
        """See `KeyedStore.version`."""
        check_key(key, end=".json")
        return await self._database.value(_VERSION, key) or ABSENT

    async def put(self, key: str, data: bytes, *, expected: str | None = None) -> str:
        """See `KeyedStore.put`."""
        check_key(key, end=".json")
        check_size(data, self.place(key))
        version = version_of(data)

        async def put(connection: Connection | Proxy, attempt: Attempt) -> None:
            if expected is None:
                await connection.execute(_PUT, key, version, data)
                return
            if expected == ABSENT:
                done = await connection.execute(_PUT_NEW, key, version, data)
            else:
                done = await connection.execute(_PUT_INSTEAD, key, version, data, expected)
            if _count(done) == 0:
                found = await connection.fetchval(_VERSION, key) or ABSENT
                if attempt.is_again and found == version:
                    return  # the first time it was done, and nobody heard of it
                msg = f"{self.place(key)} was changed by somebody else meanwhile; read it again"
                raise ConflictError(msg)

        await self._database.run_knowing(put, is_write=True)
        return version

    async def delete(self, key: str) -> None:
        """See `KeyedStore.delete`."""
        check_key(key)
        query = "DELETE FROM value WHERE key = $1"
        await self._database.execute(query, key)

    async def list(self, folder: str) -> tuple[str, ...]:
        """See `KeyedStore.list`."""
        check_key(f"{folder}x.json")
        end = f"{folder[:-1]}0"  # the character behind `/`
        rows = await self._database.rows(_LIST, folder, end)
        return keys_in(folder, [row[0] for row in rows])

    async def quarantine(self, key: str) -> str:
        """See `KeyedStore.quarantine`."""
        check_key(key)
        row = await self._database.value(_QUARANTINE, key, is_write=True)
        if row is None:
            return self.place(key)
        return f"{self._database.place} {self._database.schema}.damaged {row}"

    async def read(self, keys: Sequence[str]) -> tuple[bytes | JournalError, ...]:
        """See `KeyedStore.read`."""
        for key in keys:
            check_key(key, end=".jsonl")
        rows = await self._database.rows(_READ, list(keys))
        found = {row[0]: row[1] for row in rows}
        return tuple([found.get(key, b"") for key in keys])

    async def append(self, key: str, lines: bytes, *, expected_bytes: int) -> None:
        """See `KeyedStore.append`."""
        await self._write(key, lines, expected_bytes, is_append=True)

    async def rewrite(self, key: str, lines: bytes, *, expected_bytes: int) -> None:
        """See `KeyedStore.rewrite`."""
        await self._write(key, lines, expected_bytes, is_append=False)

    async def _write(self, key: str, lines: bytes, expected_bytes: int, *, is_append: bool) -> None:
        check_key(key, end=".jsonl")
        check_size(lines, self.place(key))

        async def write(connection: Connection | Proxy, attempt: Attempt) -> None:
            if expected_bytes == 0:
                done = await connection.execute(_PUT_NEW, key, "", lines)
                if _count(done):
                    return
            statement = _APPEND if is_append else _REWRITE
            limit = (VALUE_MAX_BYTES,) if is_append else ()
            done = await connection.execute(statement, key, lines, expected_bytes, *limit)
            if _count(done):
                return
            row = await connection.fetchrow(_GET, key)
            found: bytes = row[0] if row is not None else b""
            start = expected_bytes if is_append else 0
            if attempt.is_again and found[start:] == lines and len(found) == start + len(lines):
                return  # the first time it was done, and nobody heard of it
            check_bytes(len(found), expected_bytes, self.place(key))
            check_size(found + lines, self.place(key))

        # Whoever appends is told of the outcome, also where it is cancelled meanwhile.
        with anyio.CancelScope(shield=True):
            await self._database.run_knowing(write, is_write=True)


def _count(status: str) -> int:
    """Return how many rows a statement touched, by what the server says of it: `UPDATE 1`."""
    return int(status.rpartition(" ")[2])
