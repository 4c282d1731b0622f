"""The logs of what was found, as a service reads them, or as a store has them."""

from __future__ import annotations

from collections.abc import Sequence

from everturn_actors.events import Event
from everturn_actors.ports import SessionStore
from everturn_actors.service import TurnService


class ServiceLogs:
    """Reads logs through the service; see `finding.Logs`."""

    def __init__(self, service: TurnService) -> None:
        """Read what `service` has."""
        self._reader = service.reader

    async def history(self, session_id: str, *, after: int, limit: int) -> Sequence[Event]:
        """Return events above a number, oldest first."""
        return await self._reader.history(session_id, after=after, limit=limit)

    async def result(self, session_id: str, name: str) -> str | None:
        """Return a text that is kept as a file."""
        return await self._reader.result(session_id, name)


class StoreLogs:
    """Reads logs from their store; see `finding.Logs`."""

    def __init__(self, store: SessionStore) -> None:
        """Read what `store` has."""
        self._store = store

    async def history(self, session_id: str, *, after: int, limit: int) -> Sequence[Event]:
        """Return events above a number, oldest first."""
        return await self._store.read(session_id, after=after, limit=limit)

    async def result(self, session_id: str, name: str) -> str | None:
        """Return a text that is kept as a file."""
        return await self._store.read_result(session_id, name)
