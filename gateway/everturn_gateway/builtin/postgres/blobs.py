"""Large results and media in a table."""

from __future__ import annotations

from typing import Final, Literal

from everturn_actors.errors import JournalError, UnknownSessionError
from everturn_actors.ids import is_session_id
from everturn_actors.journal.results import (
    check_result_name,
    decode_text,
    encode_text,
    is_result_name,
)
from everturn_gateway.builtin.postgres.base import OnDatabase, checked, where

# The others are added up from the newest on: those with which all is too large go.
_SAVE: Final = """
WITH saved AS (
    INSERT INTO blob (session, kind, name, size, data)
    SELECT id, $2, $3, $4, $5 FROM session WHERE id = $1 FOR KEY SHARE
    ON CONFLICT (session, kind, name)
        DO UPDATE SET n = nextval('blob_order'), size = excluded.size, data = excluded.data
    RETURNING n
), others AS (
    SELECT name, sum(size) OVER (ORDER BY n DESC) AS total FROM blob
    WHERE session = $1 AND kind = $2 AND name <> $3
), gone AS (
    DELETE FROM blob b USING others o
    WHERE b.session = $1 AND b.kind = $2 AND b.name = o.name AND o.total + $4 > $6
        AND EXISTS (SELECT FROM saved)
)
SELECT n FROM saved
"""
_READ: Final = "SELECT data FROM blob WHERE session = $1 AND kind = $2 AND name = $3"


class PostgresBlobs(OnDatabase):
    """`SessionBlobs` in a table; see there for what each method promises."""

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """See `SessionStore.save_result`."""
        check_result_name(name)
        await self._save(session_id, "result", name, encode_text(text))

    async def read_result(self, session_id: str, name: str) -> str | None:
        """See `SessionStore.read_result`."""
        data = await self._read(session_id, "result", name)
        try:
            return None if data is None else decode_text(data)
        except UnicodeDecodeError as error:
            msg = f"byte {error.start + 1} of result {name!r}: this is not UTF-8; it was damaged"
            raise JournalError(msg, path=where(self._database, "blob", session_id)) from error

    async def save_media(self, session_id: str, name: str, data: bytes) -> None:
        """See `SessionStore.save_media`."""
        check_result_name(name, "a file")
        await self._save(session_id, "media", name, data)

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """See `SessionStore.read_media`."""
        return await self._read(session_id, "media", name)

    async def _save(
        self, session_id: str, kind: Literal["result", "media"], name: str, data: bytes
    ) -> None:
        values = (checked(session_id), kind, name, len(data), data, self._limits[kind])
        saved = await self._database.value(_SAVE, *values, is_write=True)
        if saved is None:
            raise UnknownSessionError(session_id)

    async def _read(self, session_id: str, kind: str, name: str) -> bytes | None:
        if not is_session_id(session_id) or not is_result_name(name):
            return None
        found: bytes | None = await self._database.value(_READ, session_id, kind, name)
        return found
