"""What a follower of a session reads where memory no longer reaches back."""

from __future__ import annotations

from everturn_actors.events import Event
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.feed import ReadLog


def log_of(store: SessionStore, session_id: str) -> ReadLog:
    """Return what reads the log of a session for its followers; see `Feed.follow`."""

    async def read_log(after: int, limit: int, at_least: int) -> tuple[Event, ...]:
        return await store.read(session_id, after=after, limit=limit, at_least=at_least)

    return read_log
