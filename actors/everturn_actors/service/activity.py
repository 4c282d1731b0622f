"""What goes on now: how much there is to do, and who waits for whom."""

from __future__ import annotations

from everturn_actors.session.registry import Registry, RuntimeStats
from everturn_actors.state.session_state import SessionState


class Activity:
    """What goes on in the active sessions. Looks into memory alone."""

    def __init__(self, registry: Registry, scratch_registry: Registry) -> None:
        """Only `open_service` makes one.

        Args:
            registry: The sessions.
            scratch_registry: Those of stateless calls.
        """
        self._registry, self._scratch_registry = registry, scratch_registry

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
        """
        return await self._registry.awaiting_approval()

    async def load(self) -> RuntimeStats:
        """Return how much there is to do now, in the active sessions."""
        return await self._registry.load() + await self._scratch_registry.load()
