"""Who is told what sessions do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from everturn_actors.events import Event
from everturn_actors.ports.agents import Agent
from everturn_actors.state.session_state import SessionState


class Observer(Protocol):
    """Is told what sessions do, to count and to trace it; nothing depends on what it makes of it.

    It stands in the path of every turn: each method takes microseconds, does no IO and never
    raises.
    """

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """Take note of events of one session that are on disk now: oldest first, each told once.

        Args:
            before: The session without them; None where it begins with them.
            after: The session with them.
            events: At least one.
        """
        ...

    def active(self, session_id: str) -> AbstractContextManager[None]:
        """Enclose all that the actor of a session does, in its task, until it is passivated."""
        ...

    def answering(
        self, state: SessionState, turn: int, agent: Agent | None
    ) -> AbstractContextManager[None]:
        """Enclose the work on the open turn, in its task; one that goes on later has several.

        Args:
            state: The session as the work begins.
            turn: The number of the turn.
            agent: Who works; None where there is no such agent, and the turn can only fail.
        """
        ...


class NullObserver:
    """An `Observer` that looks away."""

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """Take no note."""

    def active(self, session_id: str) -> AbstractContextManager[None]:
        """Enclose nothing."""
        del session_id
        return nullcontext()

    def answering(
        self, state: SessionState, turn: int, agent: Agent | None
    ) -> AbstractContextManager[None]:
        """Enclose nothing."""
        del state, turn, agent
        return nullcontext()


class PassingObserver:
    """Passes all that it is told on to another observer: the base of those that add something."""

    def __init__(self, observer: Observer) -> None:
        """Begin with nothing told.

        Args:
            observer: Is told first.
        """
        self._observer = observer

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """See `Observer.durable`."""
        self._observer.durable(before, after, events)

    def active(self, session_id: str) -> AbstractContextManager[None]:
        """See `Observer.active`."""
        return self._observer.active(session_id)

    def answering(
        self, state: SessionState, turn: int, agent: Agent | None
    ) -> AbstractContextManager[None]:
        """See `Observer.answering`."""
        return self._observer.answering(state, turn, agent)
