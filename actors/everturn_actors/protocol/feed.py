"""What the followers of a session read: its events as they become durable, and the running reply.

Followers pull. Nobody waits for a slow one, nothing is queued for it: it reads on from where it
stands, from memory or, where it is too far behind, from the log. One that waits and can take a
piece of the reply at once is handed it where it comes, so that no task wakes for each piece.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from everturn_actors.events import (
    Event,
    ModelCallFailed,
    ModelReplied,
    ReplyBroken,
    SessionEnded,
    TurnFinished,
)
from everturn_actors.protocol.followers import (
    Follower,
    LiveReply,
    Pieces,
    ReadLog,
    TakeDelta,
    TextDelta,
    Update,
    take_nothing,
)

__all__ = [
    "Feed",
    "FeedSource",
    "LiveReply",
    "Pieces",
    "ReadLog",
    "TakeDelta",
    "TextDelta",
    "Update",
]

_ENDS_OF_CALLS = (ModelReplied, ReplyBroken, ModelCallFailed, TurnFinished)
RECENT_EVENTS = 256  # kept in memory for followers; older ones are read from the log
READ_EVENTS = 500  # read from the log at a time


class FeedSource(Protocol):
    """Brings to a feed what happens in a session that another process has."""

    def wanted(self, feed: Feed, after: int) -> None:
        """Somebody waits for what comes after event `after`: bring it, where that is not done."""
        ...

    def followers_changed(self, feed: Feed) -> None:
        """`followers` or `finals` of a feed have changed."""
        ...


class Feed:
    """The public side of one session while somebody acts on it or follows it."""

    def __init__(self) -> None:
        self._recent: deque[Event] = deque(maxlen=RECENT_EVENTS)
        self._waiting: dict[Follower, None] = {}  # in the order in which they came
        self._durable = 0  # the last event, where memory holds none
        self._live: LiveReply | None = None
        self._failure: Exception | None = None
        self._closed = False
        self.followers = 0
        "How many wait for the running turn."
        self.finals = 0
        "How many of them cannot take back what they were given of a reply."
        self.source: FeedSource | None = None
        "Where its events come from while no actor of this process has the session."

    @property
    def waiting_for(self) -> str:
        """What the running model call waits for; empty = for nothing, or there is none."""
        return self._live.waiting_for if self._live is not None else ""

    # --- the actor's side ---

    def publish(self, events: Sequence[Event]) -> None:
        """Show events that are durable, oldest first."""
        recent = self._recent
        if recent and events and events[0].seq != recent[-1].seq + 1:
            recent.clear()  # what is missing between is read from the log
        recent.extend(events)
        for event in events:
            if isinstance(event.body, _ENDS_OF_CALLS):
                self._live = None
        self._notify()

    def begin_reply(self, turn: int, step: int) -> LiveReply:
        """Begin the text of a model call; the text of an earlier try is taken back."""
        before, self._live = self._live, LiveReply(turn=turn, step=step)
        if before is not None and before.pieces:
            self._show_text()
        return self._live

    def add_text(self, live: LiveReply, text: str) -> None:
        """Show a piece of the running reply."""
        if text and live is self._live:
            live.pieces.append(text)
            self._show_text()

    def _show_text(self) -> None:
        """Hand the text on to whoever takes it at once, and wake the others who want it."""
        live = self._live
        if live is None:
            return
        for follower in [each for each in self._waiting if not each.takes(live)]:
            del self._waiting[follower]
            follower.wake()

    def nudge(self) -> None:
        """Let all followers look whether they are still wanted."""
        self._notify()

    def reopen(self) -> None:
        """A new actor serves the session: its predecessor's failure is history.

        The log may hold more than that one showed: where an append failed and could not be undone,
        its events were never shown, and the new actor goes on behind them.
        """
        if self._failure is not None:
            self._recent.clear()
        self._failure = None

    def loaded(self, last_seq: int) -> None:
        """An actor begins to serve the session, of which event `last_seq` is the last.

        Memory is of use where it ends there. It does not where another process had the session
        meanwhile.
        """
        if self.newest != last_seq:
            self._recent.clear()
            self._durable = last_seq
            self._notify()

    def catch_up(self, events: Sequence[Event], shown: int) -> None:
        """Show what another writer appended.

        Args:
            events: The newest that the log holds now, oldest first.
            shown: The last event that was shown.
        """
        self._live = None
        new = [event for event in events if event.seq > shown]
        if new and new[0].seq == shown + 1:
            events = new
        else:
            self._recent.clear()  # what is missing between is read from the log
        self.publish(events)

    def recall(self, after: int) -> tuple[Event, ...]:
        """Return recent events above `after`; none where memory does not reach back to it."""
        return self._since(after) or ()

    def mark_read(self) -> None:
        """Say that somebody elsewhere has read of the running reply, and cannot take it back."""
        if self._live is not None and self._live.pieces:
            self._live.was_read = True

    # --- the side of whoever brings events from elsewhere ---

    @property
    def is_closed(self) -> bool:
        """Whether all followers are let go."""
        return self._closed

    @property
    def newest(self) -> int:
        """The last event that memory holds; 0 = it holds none."""
        return self._recent[-1].seq if self._recent else 0

    @property
    def awaited(self) -> int | None:
        """The event after which a follower waits for more, the first; None = nobody waits."""
        return min((each.after for each in self._waiting), default=None)

    def relay(self, events: Sequence[Event]) -> None:
        """Show events that are durable elsewhere, oldest first; those that were shown are none."""
        if self._failure is not None:
            self.reopen()
        newest = self.newest
        new = [event for event in events if event.seq > newest]
        if new:
            self.publish(new)

    # --- the actor's side again ---

    def fail(self, error: Exception) -> None:
        """Tell all followers that the session failed."""
        self._failure = error
        self._live = None
        self._notify()

    def close(self) -> None:
        """The service stops: let all followers go."""
        self._closed = True
        self._notify()

    def _notify(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for follower in waiting:
            follower.wake()

    # --- the followers' side ---

    async def later(
        self,
        after: int,
        read_log: ReadLog,
        *,
        last_seq: int,
        is_over: Callable[[], bool] | None = None,
    ) -> Sequence[Event]:
        """Return events with a seq above `after`, as soon as there are some, oldest first.

        For who waits for an answer and reads no text as it comes, and counts in `followers`
        meanwhile: a generator goes on once for each event. Empty = the service, or the wait, is
        over.

        Args:
            after: The last event that is known.
            read_log: For what memory does not hold.
            last_seq: The last event of the session that is known to be durable.
            is_over: Whether the wait ends here, asked whenever there is nothing to return.

        Raises:
            Exception: The one the session failed with.
        """
        place = Follower(after=after, pieces="live", take=take_nothing)
        while True:
            events: Sequence[Event] | None = self._since(place.after)
            end = self.newest or max(last_seq, self._durable)
            if events is None or (not self._recent and place.after < end):
                found = await read_log(place.after, READ_EVENTS, end) or tuple(self._recent)
                if not found:  # it was discarded; what comes is all there is
                    place.after = end
                    continue
                events = [event for event in found if event.seq > place.after]
            if events:
                return events
            if self._failure is not None:
                raise self._failure
            if self._closed or (is_over is not None and is_over()):
                return ()
            await self._changed(place)

    async def follow(
        self,
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
        known = None if waits else self._failure
        is_final = pieces == "final"
        if waits:
            self.enter(is_final=is_final)
        try:
            while True:
                events = self._since(place.after)
                end = self.newest or max(last_seq, self._durable)
                if events is None or (not self._recent and place.after < end):
                    events = await read_log(place.after, READ_EVENTS, end)
                    events = events or tuple(self._recent)
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
                delta = place.read_live(self._live)
                if delta is not None:
                    yield delta
                elif self._failure is not None and self._failure is not known:
                    raise self._failure
                elif self._closed or (is_over is not None and is_over()):
                    return
                else:
                    await self._changed(place)
        finally:
            if waits:
                self.leave(is_final=is_final)

    def enter(self, *, is_final: bool = False) -> None:
        """Count somebody who waits for the running turn; `is_final` = see `Pieces`."""
        self.followers += 1
        self.finals += is_final
        if self.source is not None:
            self.source.followers_changed(self)

    def leave(self, *, is_final: bool = False) -> None:
        """Take back what `enter` counted."""
        self.followers -= 1
        self.finals -= is_final
        if self.source is not None:
            self.source.followers_changed(self)

    async def _changed(self, follower: Follower) -> None:
        """Wait for something that the follower has to look at by itself."""
        if self.source is not None:
            self.source.wanted(self, follower.after)
        follower.changed = asyncio.get_running_loop().create_future()
        self._waiting[follower] = None
        try:
            await follower.changed
        finally:
            self._waiting.pop(follower, None)

    def _since(self, after: int) -> tuple[Event, ...] | None:
        """Return recent events above `after`; None where the next one is no longer in memory."""
        recent = self._recent
        if not recent or recent[-1].seq <= after:
            return ()
        if recent[0].seq > after + 1:
            return None
        # By their places: nearly always a few of the newest, of which a copy of all has 256.
        return tuple([recent[place] for place in range(after - recent[-1].seq, 0)])
