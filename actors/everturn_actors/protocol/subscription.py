"""Reads what happens in a session, from where a follower stands to its end.

What its feed no longer holds in memory is read from the log, so that a slow follower costs nobody
else anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from everturn_actors.events import Event, SessionEnded
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.feed import READ_EVENTS, Feed
from everturn_actors.protocol.followers import (
    Follower,
    Pieces,
    ReadLog,
    TakeDelta,
    Update,
    take_nothing,
)


def log_of(store: SessionStore, session_id: str) -> ReadLog:
    """Return what reads the log of a session for its followers; see `follow`."""

    async def read_log(after: int, limit: int, at_least: int) -> tuple[Event, ...]:
        return await store.read(session_id, after=after, limit=limit, at_least=at_least)

    return read_log


async def next_events(
    feed: Feed,
    after: int,
    read_log: ReadLog,
    *,
    last_seq: int,
    is_over: Callable[[], bool] | None = None,
) -> Sequence[Event]:
    """Return events with a seq above `after`, as soon as there are some, oldest first.

    For who waits for an answer and reads no text as it comes, and counts in `Feed.followers`
    meanwhile: a generator goes on once for each event. Empty = the service, or the wait, is over.

    Args:
        feed: Of the session.
        after: The last event that is known.
        read_log: For what memory does not hold.
        last_seq: The last event of the session that is known to be durable.
        is_over: Whether the wait ends here, asked whenever there is nothing to return.

    Raises:
        Exception: The one the session failed with.
    """
    place = Follower(after=after, pieces="live", take=take_nothing)
    while True:
        events: Sequence[Event] | None = feed.since(place.after)
        end = feed.newest or max(last_seq, feed.durable)
        if events is None or (not feed.recent and place.after < end):
            found = await read_log(place.after, READ_EVENTS, end) or tuple(feed.recent)
            if not found:  # it was discarded; what comes is all there is
                place.after = end
                continue
            events = [event for event in found if event.seq > place.after]
        if events:
            return events
        if feed.failure is not None:
            raise feed.failure
        if feed.is_closed or (is_over is not None and is_over()):
            return ()
        await feed.until_changed(place)


async def follow(
    feed: Feed,
    after: int,
    read_log: ReadLog,
    *,
    last_seq: int,
    pieces: Pieces,
    take: TakeDelta | None = None,
    is_over: Callable[[], bool] | None = None,
    waits: bool = True,
) -> AsyncGenerator[Update]:
    """Yield every event with a seq above `after`, then what comes, until the session ends.

    Pieces of the running reply stand between the events where they belong. The generator
    ends with the session or with the service.

    Args:
        feed: Of the session.
        after: The last event the follower knows.
        read_log: For what memory does not hold.
        last_seq: The last event of the session that is known to be durable.
        pieces: What to yield of the text of replies.
        take: Asked first, for a piece that comes while the follower waits. It is called outside
            of the follower's task.
        is_over: Whether it ends here, asked whenever there is nothing to yield.
        waits: Whether the caller counts as somebody who waits for the running turn. One who
            only looks on is not told of a failure that was there before it came.

    Raises:
        Exception: The one the session failed with.
    """
    place = Follower(after=after, pieces=pieces, take=take)
    known = None if waits else feed.failure
    is_final = pieces == "final"
    if waits:
        feed.enter(is_final=is_final)
    try:
        while True:
            events = feed.since(place.after)
            end = feed.newest or max(last_seq, feed.durable)
            if events is None or (not feed.recent and place.after < end):
                events = await read_log(place.after, READ_EVENTS, end)
                events = events or tuple(feed.recent)
                if not events:  # it was discarded; what comes is all there is
                    place.after = end
                    continue
            for event in events:
                if event.seq <= place.after:
                    continue
                for update in place.pass_event(event):
                    yield update
                if isinstance(event.body, SessionEnded):
                    return
            if events:
                continue
            delta = place.read_live(feed.live)
            if delta is not None:
                yield delta
            elif feed.failure is not None and feed.failure is not known:
                raise feed.failure
            elif feed.is_closed or (is_over is not None and is_over()):
                return
            else:
                await feed.until_changed(place)
    finally:
        if waits:
            feed.leave(is_final=is_final)
