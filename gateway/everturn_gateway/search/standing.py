"""Messages as they stand by the rest of their log: their writers may have changed or deleted them.

A message that waits for its turn can be changed and taken back. Its log keeps that it came, and
what its writer did then; nobody is shown anything but what a turn would have had of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, repeat
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.events import (
    AmbientStored,
    Discarded,
    Edited,
    Event,
    Received,
    SessionEnded,
    Steered,
    TurnStarted,
)
from everturn_actors.state.queue import AMBIENT_LIMIT, WITHDRAWN

_BEYOND_EVENTS: Final = (20, 180)
"""Read one after the other behind the messages, as long as it is not known of one whether a turn
has it. Mostly the next event begins that turn; a message waits as long as a turn before it runs."""
_PAGE_EVENTS: Final = 500  # of a longer turn, until it ends

ReadAfter: TypeAlias = Callable[[int, int], Awaitable[Sequence[Event]]]
"Gives events above a number, oldest first, at most so many."


async def as_they_stand(
    events: Sequence[Event], read_after: ReadAfter, *, with_ambient: bool = True
) -> tuple[Event, ...]:
    """Return events without messages that were taken back, and the others as they were changed.

    Args:
        events: Of one log, oldest first, with none left out between the first and the last.
        read_after: Reads on, as far as it is needed: mostly not at all.
        with_ambient: Whether the caller shows what did not speak to the agent; else that is not
            looked after.
    """
    known = _Known()
    for event in events:
        if with_ambient or not isinstance(event.body, AmbientStored):
            known.note(event)
    last = events[-1].seq if events else 0
    for limit in chain(_BEYOND_EVENTS, repeat(_PAGE_EVENTS)):
        if not known.open:
            break
        more = await read_after(last, limit)
        for event in more:
            known.note(event, begins=False)
        # Where events are missing, that which tells may be one of them.
        if len(more) < limit or more[-1].seq - last > len(more):
            break
        last = more[-1].seq
    return tuple(each for event in events if (each := known.standing(event)) is not None)


class _Known(Struct):
    """What is known of messages so far."""

    open: set[int] = field(default_factory=set[int])
    "Of which it is not known yet whether a turn has them."
    ambient: dict[int, int] = field(default_factory=dict[int, int])
    """Which of these did not speak to the agent: whatever turn begins next has them, or none has.
    Each with how many of them were stored by then: of the oldest no turn is told any more."""
    stored: int = 0
    gone: set[int] = field(default_factory=set[int])
    texts: dict[int, str] = field(default_factory=dict[int, str])

    def note(self, event: Event, *, begins: bool = True) -> None:
        """Take note of the next event; `begins` says whether what comes with it is asked for."""
        match event.body:
            case Received() if begins:
                self.open.add(event.seq)
            case AmbientStored(shown=True):
                self.stored += 1
                if begins:
                    self.open.add(event.seq)
                    self.ambient[event.seq] = self.stored
                oldest = self.stored - AMBIENT_LIMIT
                self.open -= {seq for seq, at in self.ambient.items() if at <= oldest}
            case Edited(received=seq, text=text):
                self.texts[seq] = text
                if begins:
                    self.open.add(seq)
            case TurnStarted(received=seqs):
                self.open -= {*seqs, *self.ambient}
            case Steered(received=seqs):
                self.open.difference_update(seqs)
            case Discarded(received=seqs, reason=reason):
                self.open.difference_update(seqs)
                if reason == WITHDRAWN:
                    self.gone.update(seqs)
            case SessionEnded():
                self.open.clear()
            case _:
                pass

    def standing(self, event: Event) -> Event | None:
        """Return an event as it stands; None where its writer took it back."""
        match event.body:
            case Edited(received=seq, text=text) if (
                seq in self.gone or self.texts.get(seq, text) != text  # it was changed once more
            ):
                return None
            case Received() | AmbientStored() if event.seq in self.gone:
                return None
            case Received() as body if event.seq in self.texts:
                return replace(event, body=replace(body, text=self.texts[event.seq]))
            case _:
                return event
