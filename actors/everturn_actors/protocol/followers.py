"""What followers of a session read, and how far each of them is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from msgspec import Struct, field

from everturn_actors.events import Event, ModelReplied, StepStarted


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

    @property
    def text(self) -> str:
        """What the call has said so far."""
        return "".join(self.pieces)


def take_nothing(_delta: TextDelta) -> bool:
    """Leave the text of a reply unread."""
    return True


class Follower(Struct, eq=False):
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
        if self.take is take_nothing:
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
