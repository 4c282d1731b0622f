"""What may be done to a passive session, without making it active."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime

from everturn_actors.ports import SessionStore
from everturn_actors.session.registry import Registry


class SessionMaintenance:
    """Holds sessions still, and removes those that nobody uses."""

    def __init__(
        self,
        store: SessionStore,
        registry: Registry,
        on_delete: Callable[[str], Awaitable[None]] | None,
    ) -> None:
        """Only `open_service` makes one."""
        self._store, self._registry, self._on_delete = store, registry, on_delete

    @asynccontextmanager
    async def held(self, session_id: str) -> AsyncGenerator[bool]:
        """Keep a session still for a block; yields whether that is so.

        False = it has work, or somebody else holds it. Whoever asks it for something meanwhile
        waits until the block ends.
        """
        async with self._registry.held(session_id) as is_held:
            yield is_held

    @contextmanager
    def watching(self) -> Generator[Collection[str]]:
        """Take note of the sessions that are waked during a block; yields them as they come."""
        waked = set[str]()
        self._registry.watched.append(waked)
        try:
            yield waked
        finally:
            self._registry.watched.remove(waked)

    @asynccontextmanager
    async def unused(
        self, session_id: str, *, since: datetime, waked: Collection[str]
    ) -> AsyncGenerator[bool]:
        """Keep a session still for a block, where nobody uses it; yields whether that is so.

        Args:
            session_id: The session.
            since: When something happened in it last, as far as is known.
            waked: What `watching` yields since before that was looked up.
        """
        state = self._registry.present(session_id)
        if state is not None and (state.updated_at > since or state.labels.pinned):
            yield False
            return
        async with self._registry.held(session_id) as is_held:
            yield is_held and session_id not in waked

    async def remove(self, session_id: str) -> None:
        """Remove a session that is held, without waking it; return when that is durable.

        Raises:
            JournalError: It cannot be removed.
        """
        if self._on_delete is not None:
            await self._on_delete(session_id)
        await self._store.delete(session_id)
        self._registry.release(session_id)
