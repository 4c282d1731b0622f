"""Whoever finds the actor of a session: in this process, or in another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol, TypeVar

from everturn_actors.events import SessionStarted
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.commands import Command
from everturn_actors.protocol.feed import Feed
from everturn_actors.state.session_state import SessionState

T = TypeVar("T")


class Actors(Protocol):
    """All actors of one store, wherever they live.

    `session.registry.Registry` has them in this process; `cluster.routing.RoutedActors` asks other
    nodes for those that are not.
    """

    @property
    def max_active(self) -> int:
        """Beyond so many here the ones that are idle longest are passivated; 0 = any number."""
        ...

    @property
    def store(self) -> SessionStore:
        """Where their sessions live."""
        ...

    async def ask(
        self,
        session_id: str,
        command: Command[T],
        *,
        begin_with: SessionStarted | None = None,
        passivate_at_once: bool = False,
        is_new: bool = False,
    ) -> T:
        """Send a command to the session's actor, starting it if there is none; return its answer.

        Whoever asks gets one answer: what the command gave, or why it could not be done. Only an
        actor that was gone before it took the command is not the last one that is asked.

        Args:
            session_id: The session.
            command: What to ask.
            begin_with: How the session begins, where the store knows nothing of it.
            passivate_at_once: An actor started for this is passivated as soon as it can.
            is_new: The id was made for this: nothing is stored of the session.

        Raises:
            MailboxFullError: Too many commands are waiting.
            ActorStoppedError: The service is stopping, or who has the session cannot be reached.
            SessionQuarantinedError: The session failed again and again, and the command is none of
                those that help.
            CoreError: Whatever the actor answers or fails with.
        """
        ...

    def feed(self, session_id: str) -> Feed:
        """Return the feed of a session; it lives as long as somebody holds it."""
        ...

    def waiting_for(self, session_id: str) -> str:
        """Return what the session's model call waits for; empty = for nothing, or there is none."""
        ...

    def present(self, session_id: str) -> SessionState | None:
        """Return the durable state of a session whose actor lives here; None = the store has it."""
        ...

    def each_active(self) -> AsyncGenerator[tuple[SessionState | None, int]]:
        """Yield the state of each session that is active here, and how many commands wait in it."""
        ...

    @property
    def quarantined(self) -> int:
        """How many sessions failed here again and again, and wait for somebody."""
        ...

    def release(self, session_id: str) -> None:
        """Forget that a session failed: there is nothing left of it that could."""
        ...

    async def gone(self, session_id: str) -> None:
        """Wait until the session's actor, if it has one here, is gone."""
        ...

    async def is_deleted_elsewhere(self, session_id: str) -> bool:
        """Have a session deleted where its actor is; False, and nothing done, where that is here.

        Raises:
            UnknownSessionError: There is no such session.
            CoreError: It cannot be removed.
        """
        ...

    def is_here(self, session_id: str) -> bool:
        """Whether the session's actor is, or would be, in this process."""
        ...


class Router(Actors, Protocol):
    """Actors of several processes that share a store."""

    delete_here: Callable[[str], Awaitable[None]]
    "Deletes a session of this process for another one; set by whoever opens the service."

    async def watch(self) -> None:
        """Follow who has which session, until cancelled."""
        ...
