"""The sessions of a registry whose actors live, and room for one more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

import anyio
from msgspec import Struct, field

from everturn_actors.errors import ActorStoppedError
from everturn_actors.protocol.commands import Stop
from everturn_actors.protocol.feed import Feed
from everturn_actors.protocol.mailbox import Mailbox
from everturn_actors.session.actor import SessionActor

LOOKED_AT_FOR_ROOM = 8  # actors, whenever one is started beyond the limit


class Active(Struct):
    """A session whose actor lives."""

    actor: SessionActor
    mailbox: Mailbox
    feed: Feed
    gone: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    "Cuts it off."
    last_seq: int = 0
    "Of its state, when it is gone."
    is_due: bool = False
    "Whether something of it was to go on, when it is gone."
    leaves: bool = False
    "Whether another process is to have the session: its callers are sent there."
    asked: set[Callable[[Exception], None]] = field(
        default_factory=set[Callable[[Exception], None]]
    )
    "Lets one of its callers go, who waits for an answer; each is told the reason."
    released: anyio.Event = field(default_factory=anyio.Event)
    "Its callers wait no more for it to be gone: it is, or it may take its time."

    def tell_to_stop(self, reason: Exception) -> None:
        """Let the actor finish what runs, and go; whoever asks for more is told the reason."""
        self.mailbox.refuse(reason)
        with suppress(ActorStoppedError):  # it is on its way out already
            self.mailbox.put(Stop(), own=True)

    def let_callers_go(self, reason: Exception) -> None:
        """Tell all who wait for it the reason, whatever it is in the middle of."""
        for fail in tuple(self.asked):
            fail(reason)
        self.released.set()


def make_room(active: OrderedDict[str, Active], leaving: set[str], max_active: int) -> None:
    """Passivate the actors that are idle longest where there are too many.

    The cost is the same however many there are: few are looked at, and one that has work goes to
    the end of the line.

    Args:
        active: By session; those of whom nothing was asked for longest come first.
        leaving: The sessions of those who were told to make room; those that are told now are
            added.
        max_active: How many may stay; 0 = any number.
    """
    if not max_active:
        return
    excess = len(active) - len(leaving) - max_active
    for _ in range(LOOKED_AT_FOR_ROOM):
        if excess <= 0:
            return
        session_id, first = next(iter(active.items()))
        active.move_to_end(session_id)
        if session_id not in leaving and first.actor.passivate():
            leaving.add(session_id)
            excess -= 1
