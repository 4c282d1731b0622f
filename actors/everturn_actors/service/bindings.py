"""Which session each conversation is in, and who decides that: one at a time for one conversation.

Conversations have nothing to do with each other, so that a hundred that begin at once share the
syncs of their first writes instead of waiting for each other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from everturn_actors.model import ConversationKey


class _SharedLock:
    """A lock, and how many hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.users = 0


def _itself(key: ConversationKey) -> ConversationKey:
    return key


class Bindings:
    """The sessions of conversations that are active; a cache of what the store knows."""

    def __init__(
        self,
        known_as: Callable[[ConversationKey], ConversationKey] | None = None,
        *,
        is_alone: bool = True,
    ) -> None:
        """Begin without any.

        Args:
            known_as: Gives a conversation the name by which sessions know it; by default its own.
            is_alone: Whether no other process binds conversations. Where one does, nothing is
                remembered, and the store is asked each time.
        """
        self.known_as = known_as or _itself
        self._is_alone = is_alone
        self._session_of: dict[ConversationKey, str] = {}
        self._key_of: dict[str, ConversationKey] = {}
        self._deciding: dict[ConversationKey, _SharedLock] = {}

    def session_of(self, key: ConversationKey) -> str:
        """Return the session of a conversation; empty where it is not known."""
        return self._session_of.get(key, "")

    def bind(self, key: ConversationKey, session_id: str) -> None:
        """Remember the session of a conversation."""
        if not self._is_alone:
            return
        self._session_of[key] = session_id
        self._key_of[session_id] = key

    async def forget(self, session_id: str) -> None:
        """Remember nothing of a session whose actor is gone."""
        key = self._key_of.pop(session_id, None)
        if key is not None and self._session_of.get(key) == session_id:
            del self._session_of[key]

    @asynccontextmanager
    async def deciding(self, key: ConversationKey) -> AsyncGenerator[None]:
        """Be the only one, for a block, to decide which session a conversation is in.

        There is a lock only while somebody holds it or waits for it.
        """
        shared = self._deciding.get(key)
        if shared is None:
            shared = self._deciding[key] = _SharedLock()
        shared.users += 1
        try:
            async with shared.lock:
                yield
        finally:
            shared.users -= 1
            if shared.users == 0:
                del self._deciding[key]
