"""Opens the index of what was said, and tells it what sessions append."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from everturn_actors.errors import JournalError
from everturn_actors.events import Event
from everturn_actors.ports import Clock, KeyedStore, Observer, PassingObserver
from everturn_actors.ports.search import MessageIndex
from everturn_actors.service import ONCE
from everturn_actors.state.session_state import SessionState
from everturn_gateway.plugins import OpenedStore
from everturn_gateway.search.index import ERASURES_KEY, open_message_index
from everturn_gateway.tools.memory.idle_conversations import IdleConversations

INDEX_FILE: Final = "search.sqlite"  # in the workspace: a cache, made anew where missing


@asynccontextmanager
async def open_search(
    workspace: Path, storage: OpenedStore, clock: Clock
) -> AsyncGenerator[MessageIndex]:
    """Open the store's own index, or one beside it; nothing is read before it is used."""
    if storage.messages is not None:
        yield storage.messages
        return
    path = None if storage.is_passing else workspace / INDEX_FILE
    erasures = partial(_length, storage.keyed) if storage.is_shared else None
    opened = open_message_index(path, storage.store, clock, erasures=erasures)
    async with opened as index:
        yield index


async def _length(keyed: KeyedStore) -> int:
    """Return how long the record of erasures is."""
    (lines,) = await keyed.read([ERASURES_KEY])
    if isinstance(lines, JournalError):
        raise lines
    return len(lines)


class NotingObserver(PassingObserver):
    """Observes sessions for an observer of its own, and for what goes by all that they append."""

    def __init__(self, observer: Observer, messages: MessageIndex, idle: IdleConversations) -> None:
        """Begin with nothing told; the index learns what was said, `idle` which turns end."""
        super().__init__(observer)
        self._messages, self._idle = messages, idle

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """See `Observer.durable`."""
        super().durable(before, after, events)
        if after.key.channel != ONCE:
            self._messages.note(after, events)
            self._idle.note(before, after)
