"""Whether something is under way in a session, from its events. Pure."""

from __future__ import annotations

from datetime import datetime

from everturn_actors.events import (
    Discarded,
    Event,
    Received,
    SessionEnded,
    Steered,
    TurnFinished,
    TurnStarted,
)


class OpenTurns:
    """The messages that wait for their turn, and the turn that runs."""

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._waiting: set[int] = set()
        self._turn = 0
        self.since: datetime | None = None
        "When what is under way began; None = nothing is."

    def read(self, event: Event) -> None:
        """Take an event."""
        match event.body:
            case Received(ambient=False):
                self._waiting.add(event.seq)
            case TurnStarted(turn=turn, received=received) | Steered(turn=turn, received=received):
                self._waiting.difference_update(received)
                self._turn = turn
            case TurnFinished():
                self._turn = 0
            case Discarded(received=received):
                self._waiting.difference_update(received)
            case SessionEnded():
                self._waiting.clear()
                self._turn = 0
            case _:
                return
        if not self.is_busy:
            self.since = None
        elif self.since is None:
            self.since = event.at

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._turn or self._waiting)
