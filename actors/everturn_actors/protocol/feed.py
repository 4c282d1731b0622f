"""What the followers of a session read: its events as they become durable, and the running reply.

Followers pull. Nobody waits for a slow one, nothing is queued for it: it reads on from where it
stands, from memory or, where it is too far behind, from the log. One that waits and can take a
piece of the reply at once is handed it where it comes, so that no task wakes for each piece.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from everturn_actors.events import (
    Event,
    ModelCallFailed,
    ModelReplied,
    ReplyBroken,
    SessionEnded,
    StepStarted,
    TurnFinished,
)

_ENDS_OF_CALLS = (ModelReplied, ReplyBroken, ModelCallFailed, TurnFinished)
RECENT_EVENTS = 256  # kept in memory for followers; older ones are read from the log
READ_EVENTS = 500  # read from the log at a time


class TextDelta(Struct, frozen=True, kw_only=True, gc=False):
    """A piece of the running reply. Never journalled."""

    turn: int
    step: int
    offset: int
    """Code points of this step's reply before `text`: what a reader has beyond them is taken back.
    0 again when the model is called anew, at first with an empty text."""
    text: str


Update: TypeAlias = Event | TextDelta

TakeDelta: TypeAlias = Callable[[TextDelta], bool]
"""Takes a piece in the moment it comes. False = it cannot without waiting: the piece is yielded to
its follower instead."""

ReadLog: TypeAlias = Callable[[int, int, int], Awaitable[tuple[Event, ...]]]
"Reads events above a number from the log, so many at most; it has to reach to the last number."

Pieces: TypeAlias = Literal["live", "all", "final"]
"""Which pieces of replies a follower reads: those of replies that run while it follows; those of
every reply, also where it was complete before it could be followed; or the same by one who cannot
take back what it was given."""


class LiveReply(Struct):
    """The text of a running model call so far."""

    turn: int
    step: int
    pieces: list[str] = field(default_factory=list[str])
    was_read: bool = False
    """Whether somebody has read any of it who cannot take it back: such a reply is not tried
    again. Whoever follows as `final` sets it, and nobody else."""
    waiting_for: str = ""
    "What the call waits for before it is made; empty = for nothing."


class Feed:
    """The public side of one session while somebody acts on it or follows it."""

    def __init__(self) -> None:
        self._recent: deque[Event] = deque(maxlen=RECENT_EVENTS)
        self._waiting: dict[_Follower, None] = {}  # in the order in which they came
        self._live: LiveReply | None = None
        self._failure: Exception | None = None
        self._closed = False
        self.followers = 0

    @property
    def waiting_for(self) -> str:
        """What the running model call waits for; empty = for nothing, or there is none."""
        return self._live.waiting_for if self._live is not None else ""

    # --- the actor's side ---

    def publish(self, events: Sequence[Event]) -> None:
        """Show events that are durable, oldest first."""
        self._recent.extend(events)
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
        place = _Follower(after=after, pieces="live", take=_take_nothing)
        while True:
            events: Sequence[Event] | None = self._since(place.after)
            if events is None or (not self._recent and place.after < last_seq):
                durable = self._recent[-1].seq if self._recent else last_seq
                found = await read_log(place.after, READ_EVENTS, durable) or tuple(self._recent)
                if not found:  # it was discarded; what comes is all there is
                    place.after = last_seq
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
        place = _Follower(after=after, pieces=pieces, take=take)
        known = None if waits else self._failure
        self.followers += waits
        try:
            while True:
                events = self._since(place.after)
                if events is None or (not self._recent and place.after < last_seq):
                    durable = self._recent[-1].seq if self._recent else last_seq
                    events = await read_log(place.after, READ_EVENTS, durable)
                    events = events or tuple(self._recent)
                    if not events:  # it was discarded; what comes is all there is
                        place.after = last_seq
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
            self.followers -= waits

    async def _changed(self, follower: _Follower) -> None:
        """Wait for something that the follower has to look at by itself."""
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


def _take_nothing(_delta: TextDelta) -> bool:
    """Leave the text of a reply unread."""
    return True


class _Follower(Struct, eq=False):
    """Where one follower stands: the last event, and how much of the running reply it has read."""

    after: int
    pieces: Pieces
    take: TakeDelta | None
    changed: asyncio.Future[None] | None = None
    "What it waits for, or did the last time."
    live: LiveReply | None = None
    read: int = 0
    "Pieces of `live` it has read."
    offset: int = 0
    turn: int = 0
    step: int = 0

    def wake(self) -> None:
        """Let it look by itself."""
        if self.changed is not None and not self.changed.done():
            self.changed.set_result(None)

    def takes(self, live: LiveReply) -> bool:
        """Whether a follower that waits need not wake for what the running reply gained."""
        if self.take is _take_nothing:
            return True
        if self.take is None:
            return False
        delta = self._gained(live)
        try:
            if delta is not None and not self.take(delta):
                return False
        except Exception:  # noqa: BLE001 - of this follower alone: it meets it again in its own task
            return False
        self._pass(live, delta)
        return True

    def read_live(self, live: LiveReply | None) -> TextDelta | None:
        """Return what the running reply gained since the last look."""
        if live is None:
            return None
        delta = self._gained(live)
        self._pass(live, delta)
        return delta

    def _gained(self, live: LiveReply) -> TextDelta | None:
        is_same = live is self.live
        read, offset = (self.read, self.offset) if is_same else (0, 0)
        text = "".join(live.pieces[read:])
        # Where the model is called anew, what was given is taken back.
        if not text and (is_same or not self.offset):
            return None
        return TextDelta(turn=live.turn, step=live.step, offset=offset, text=text)

    def _pass(self, live: LiveReply, delta: TextDelta | None) -> None:
        """Move past what the running reply holds by now; `delta` is what that gave."""
        if live is not self.live:
            self.live, self.offset = live, 0
            self.turn, self.step = live.turn, live.step
        self.read = len(live.pieces)
        if delta is not None:
            live.was_read = live.was_read or self.pieces == "final"
            self.offset += len(delta.text)

    def pass_event(self, event: Event) -> list[Update]:
        """Move past `event`; before a reply, give what is missing of its text."""
        self.after = event.seq
        updates: list[Update] = []
        match event.body:
            case StepStarted(turn=turn, step=step):
                self.turn, self.step, self.offset, self.live = turn, step, 0, None
            case ModelReplied(text=text):
                begun = self.offset > 0 or self.pieces in {"all", "final"}
                kept = self._kept(text)
                rest = text[kept:]
                if begun and self.turn and (rest or kept < self.offset):
                    updates.append(
                        TextDelta(turn=self.turn, step=self.step, offset=kept, text=rest)
                    )
                self.offset, self.live = 0, None
            case _:
                pass
        updates.append(event)
        return updates

    def _kept(self, text: str) -> int:
        """Return how much of what was given of a reply stands in it; 0 where it is another try's.

        The model may have been called anew since the last look.
        """
        given = "".join(self.live.pieces[: self.read]) if self.live is not None else ""
        return self.offset if text.startswith(given) else 0
