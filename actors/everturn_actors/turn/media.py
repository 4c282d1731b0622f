"""The bytes of the images that a session's next request shows, read from its store.

A turn sends the same images with every step: they are kept in memory until it is over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from everturn_actors.context.estimation.pictures import SHOWN_BYTES
from everturn_actors.errors import (
    JournalError,
    StoreAwayError,
)
from everturn_actors.ports import SessionStore

logger = logging.getLogger(__name__)


class MediaReader:
    """Reads the images of one session; what one request shows is kept for the next."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        """Begin with nothing kept."""
        self._store = store
        self._session_id = session_id
        self._kept: dict[str, bytes] = {}

    async def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of those that are there, at most `SHOWN_BYTES` of them in all.

        One that is gone, or cannot be read, is left out: the model is told of it in words.

        Raises:
            StoreAwayError: None can be read now.
        """
        found: dict[str, bytes] = {}
        left_bytes = SHOWN_BYTES
        for name in names:
            data = self._kept.get(name)
            if data is None:
                data = await self._from_store(name)
            if data is not None and len(data) <= left_bytes:
                found[name] = data
                left_bytes -= len(data)
        self._kept = found
        return found

    def forget(self) -> None:
        """Keep nothing in memory: the turn is over."""
        self._kept = {}

    async def _from_store(self, name: str) -> bytes | None:
        try:
            return await self._store.read_media(self._session_id, name)
        except StoreAwayError:
            raise
        except JournalError as error:
            logger.warning(
                "an image cannot be read; the model is told of it in words",
                extra={"session_id": self._session_id, "file": name, "error": str(error)},
            )
            return None
