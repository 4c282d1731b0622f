"""Following a session: from memory, and where that no longer reaches back, from its log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from everturn_actors.events import Event
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.feed import Feed, Pieces, Update


def follow_feed(
    feed: Feed,
    store: SessionStore,
    session_id: str,
    after: int,
    last_seq: int,
    pieces: Pieces,
    is_over: Callable[[], bool] = lambda: False,
    *,
    waits: bool = True,
) -> AsyncGenerator[Update]:
    """Follow a session; what memory no longer holds is read from its log. See `Feed.follow`."""

    async def read_log(after: int, limit: int) -> tuple[Event, ...]:
        return await store.read(session_id, after=after, limit=limit)

    return feed.follow(
        after, read_log, last_seq=last_seq, pieces=pieces, is_over=is_over, waits=waits
    )
