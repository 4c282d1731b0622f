"""What goes on now: how much there is to do, and who waits for whom."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from everturn_actors.protocol.actors import Actors
from everturn_actors.session.runtime import RuntimeStats
from everturn_actors.state.session_state import SessionState


class Activity:
    """What goes on in the active sessions. Looks into memory alone, where it does not say more."""

    def __init__(
        self,
        registry: Actors,
        scratch_registry: Actors,
        open_turns: Callable[[], Awaitable[Sequence[SessionState]]] | None = None,
    ) -> None:
        """Only `open_service` makes one.

        Args:
            registry: The sessions.
            scratch_registry: Those of stateless calls.
            open_turns: Reads the sessions with an open turn of all processes that share the store;
                None = this one is alone.
        """
        self._registry, self._scratch_registry = registry, scratch_registry
        self._open_turns = open_turns

    def present(self, session_id: str) -> SessionState | None:
        """Return the state of a session that is in memory; None where it is not.

        One of a stateless call counts too. Looks into memory alone.
        """
        return self._registry.present(session_id) or self._scratch_registry.present(session_id)

    def waiting_for(self, session_id: str) -> str:
        """Return what a session's model call waits for, in words, before it is made.

        Empty where it waits for nothing, and where no call is under way. Looks into memory alone.
        """
        own, scratch = self._registry, self._scratch_registry
        return own.waiting_for(session_id) or scratch.waiting_for(session_id)

    @property
    def quarantined(self) -> int:
        """How many sessions failed again and again: they wait to be cancelled, reset or deleted."""
        return self._registry.quarantined

    async def awaiting_approval(self) -> tuple[SessionState, ...]:
        """Return the sessions in which a call waits for a person, in no order.

        Those that were open before a restart are among them once they have been resumed. Sessions
        that failed again and again, and stateless calls, are not: nobody can answer there.
        Where several processes share the store, it is read.

        Raises:
            JournalError: It cannot be read.
        """
        if self._open_turns is not None:
            return tuple([state for state in await self._open_turns() if state.open_approvals])
        # One with an open turn is not passivated, so none is missing.
        each_active = self._registry.each_active()
        return tuple([state async for state, _ in each_active if state and state.open_approvals])

    async def load(self) -> RuntimeStats:
        """Return how much there is to do now, in the active sessions."""
        return await _stats(self._registry) + await _stats(self._scratch_registry)


async def _stats(registry: Actors) -> RuntimeStats:
    active = running = waiting = commands = approvals = outbox = 0
    async for state, waiting_commands in registry.each_active():
        active += 1
        commands += waiting_commands
        if state is not None:
            running += state.open_turn is not None and state.status == "active"
            waiting += len(state.waiting)
            approvals += len(state.open_approvals)
            outbox += len(state.outbox)
    return RuntimeStats(
        active=active,
        running=running,
        waiting=waiting,
        commands=commands,
        approvals=approvals,
        outbox=outbox,
        quarantined=registry.quarantined,
        max_active=registry.max_active,
    )
