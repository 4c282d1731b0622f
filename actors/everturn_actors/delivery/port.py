"""How what a session says leaves it: the port of whoever delivers it.

All that is said in the turns of a session whose channel has a delivery port goes to its people.
What is pending stands in its state as outbox items, so a restart knows what is left to be sent. The
delivery port only looks at the state and records what it did.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from everturn_actors.events import Body
from everturn_actors.protocol.feed import TakeDelta, Update
from everturn_actors.state.session_state import SessionState


class Outgoing(Protocol):
    """A session, as its delivery port sees it."""

    @property
    def session_id(self) -> str:
        """The session."""
        ...

    @property
    def state(self) -> SessionState:
        """Its present state; `state.outbox` holds the outbox items, oldest first."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether the service stops: what takes long is left to its next start."""
        ...

    async def record(self, *bodies: Body) -> None:
        """Make events of a delivery durable and apply them.

        Raises:
            SessionEndedError: The session is over, and nothing is pending any more.
            JournalError: They could not be written down.
        """
        ...

    async def until_changed(self) -> None:
        """Wait until something new is durable, or the service stops."""
        ...

    def updates(self, take: TakeDelta | None = None) -> AsyncGenerator[Update]:
        """Yield the events that come from now on, and the text of replies as it comes.

        Ends when the service stops. Close it; slow readers miss nothing. `take` is asked first for
        each piece of a reply, see `TakeDelta`.
        """
        ...

    async def read_file(self, name: str) -> bytes | None:
        """Return a file that is kept with the session; None where it is gone.

        Raises:
            JournalError: It cannot be read.
        """
        ...


class DeliveryPort(Protocol):
    """Tells the people of one channel what its sessions say."""

    @property
    def takes_files(self) -> bool:
        """Whether files can be sent there at all; where that is not known yet, they can."""
        return True

    async def deliver(self, session: Outgoing) -> None:
        """Deliver what is pending in the session and show what it does.

        Called when a turn of it begins and when something is pending; returns when no turn is open
        and nothing that can be sent is pending, or when the service stops. One call at a time for
        each session. Cancellation at any await is safe: a chunk marked as sending whose outcome
        was not recorded counts as one of unknown outcome.
        """
        ...
