"""What the followers of a session read: its events as they become durable, and the running reply.

Followers pull. Nobody waits for a slow one, nothing is queued for it: it reads on from where it
stands, from memory or, where it is too far behind, from the log. One that waits and can take a
piece of the reply at once is handed it where it comes, so that no task wakes for each piece.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from everturn_actors.events import (
    Event,
    ModelCallFailed,
    ModelReplied,
    ReplyBroken,
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

# Looked up by type: `isinstance` asks each class in turn, and most events are of none of them.
_ENDS_OF_CALLS = frozenset((ModelReplied, ReplyBroken, ModelCallFailed, TurnFinished))
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
        self.recent: deque[Event] = deque(maxlen=RECENT_EVENTS)
        "The newest events, oldest first."
        self._waiting: dict[Follower, None] = {}  # in the order in which they came
        self.durable = 0
        "The last event, where memory holds none."
        self.live: LiveReply | None = None
        "The text of the model call that runs; None = none does."
        self.failure: Exception | None = None
        "What the session failed with; None = it goes on."
        self.is_closed = False
        "Whether all followers are let go."
        self.followers = 0
        "How many wait for the running turn."
        self.finals = 0
        "How many of them cannot take back what they were given of a reply."
        self.source: FeedSource | None = None
        "Where its events come from while no actor of this process has the session."

    @property
    def waiting_for(self) -> str:
        """What the running model call waits for; empty = for nothing, or there is none."""
        return self.live.waiting_for if self.live is not None else ""

    # --- the actor's side ---

    def publish(self, events: Sequence[Event]) -> None:
        """Show events that are durable, oldest first."""
        recent = self.recent
        if recent and events and events[0].seq != recent[-1].seq + 1:
            recent.clear()  # what is missing between is read from the log
        recent.extend(events)
        for event in events:
            if type(event.body) in _ENDS_OF_CALLS:
                self.live = None
        self.nudge()

    def begin_reply(self, turn: int, step: int) -> LiveReply:
        """Begin the text of a model call; the text of an earlier try is taken back."""
        before, self.live = self.live, LiveReply(turn=turn, step=step)
        if before is not None and before.pieces:
            self._show_text()
        return self.live

    def add_text(self, live: LiveReply, text: str) -> None:
        """Show a piece of the running reply."""
        if text and live is self.live:
            live.pieces.append(text)
            self._show_text()

    def _show_text(self) -> None:
        """Hand the text on to whoever takes it at once, and wake the others who want it."""
        live = self.live
        if live is None:
            return
        for follower in [each for each in self._waiting if not each.takes(live)]:
            del self._waiting[follower]
            follower.wake()

    def nudge(self) -> None:
        """Let all followers look whether they are still wanted, or whether there is news."""
        waiting, self._waiting = self._waiting, {}
        for follower in waiting:
            follower.wake()

    def reopen(self) -> None:
        """A new actor serves the session: its predecessor's failure is history.

        The log may hold more than that one showed: where an append failed and could not be undone,
        its events were never shown, and the new actor goes on behind them.
        """
        if self.failure is not None:
            self.recent.clear()
        self.failure = None

    def loaded(self, last_seq: int) -> None:
        """An actor begins to serve the session, of which event `last_seq` is the last.

        Memory is of use where it ends there. It does not where another process had the session
        meanwhile.
        """
        if self.newest != last_seq:
            self.recent.clear()
            self.durable = last_seq
            self.nudge()

    def catch_up(self, events: Sequence[Event], shown: int) -> None:
        """Show what another writer appended.

        Args:
            events: The newest that the log holds now, oldest first.
            shown: The last event that was shown.
        """
        self.live = None
        new = [event for event in events if event.seq > shown]
        if new and new[0].seq == shown + 1:
            events = new
        else:
            self.recent.clear()  # what is missing between is read from the log
        self.publish(events)

    def mark_read(self) -> None:
        """Say that somebody elsewhere has read of the running reply, and cannot take it back."""
        if self.live is not None and self.live.pieces:
            self.live.was_read = True

    # --- the side of whoever brings events from elsewhere ---

    @property
    def newest(self) -> int:
        """The last event that memory holds; 0 = it holds none."""
        return self.recent[-1].seq if self.recent else 0

    @property
    def awaited(self) -> int | None:
        """The event after which a follower waits for more, the first; None = nobody waits."""
        return min((each.after for each in self._waiting), default=None)

    def relay(self, events: Sequence[Event]) -> None:
        """Show events that are durable elsewhere, oldest first; those that were shown are none."""
        if self.failure is not None:
            self.reopen()
        newest = self.newest
        new = [event for event in events if event.seq > newest]
        if new:
            self.publish(new)

    # --- the actor's side again ---

    def fail(self, error: Exception) -> None:
        """Tell all followers that the session failed."""
        self.failure = error
        self.live = None
        self.nudge()

    def close(self) -> None:
        """The service stops: let all followers go."""
        self.is_closed = True
        self.nudge()

    # --- the followers' side ---

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

    async def until_changed(self, follower: Follower) -> None:
        """Wait for something that the follower has to look at by itself."""
        if self.source is not None:
            self.source.wanted(self, follower.after)
        follower.changed = asyncio.get_running_loop().create_future()
        self._waiting[follower] = None
        try:
            await follower.changed
        finally:
            self._waiting.pop(follower, None)

    def since(self, after: int) -> tuple[Event, ...] | None:
        """Return recent events above `after`; None where the next one is no longer in memory.

        Oldest first; empty where there is none, or where memory holds nothing at all.
        """
        recent = self.recent
        if not recent or recent[-1].seq <= after:
            return ()
        if recent[0].seq > after + 1:
            return None
        # By their places: nearly always a few of the newest, of which a copy of all has 256.
        return tuple([recent[place] for place in range(after - recent[-1].seq, 0)])
