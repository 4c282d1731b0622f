"""Which of a session's events tell of one message, and whether its turn has read from outside."""

from __future__ import annotations

from everturn_actors.events import (
    Announced,
    CallFinished,
    CallsAnswered,
    CallsHandedOver,
    Discarded,
    Event,
    ModelReplied,
    Received,
    SessionEnded,
    SilentMessage,
    Steered,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import PendingAmbient, UserMessage
from everturn_actors.state.session_state import SessionState

_BEGINNINGS = (TurnStarted, Steered)
_ENDS = (TurnFinished, CallsHandedOver)


class Taint:
    """Which turn of a session has read text from outside, as far as its events are followed."""

    def __init__(self, state: SessionState, seq: int, *, duplicate: bool) -> None:
        """Begin with the state in which a message was accepted, or found.

        Args:
            state: The session then.
            seq: The event of the message.
            duplicate: Whether it was accepted before.
        """
        turn = state.open_turn
        beside: tuple[UserMessage | PendingAmbient, ...] = (*state.waiting, *state.ambient)
        self._last_seq = state.last_seq
        self._outside = {each.seq for each in beside if each.untrusted}
        self._open = turn.number if turn else 0
        self._turns = {turn.number} if turn and turn.is_tainted else set[int]()
        heard = (*state.waiting, *(turn.heard if turn else ()))
        self._is_known = not duplicate or any(m.seq == seq for m in heard)

    def has(self, turn: int) -> bool:
        """Return whether the turn of this number has, or may have."""
        return turn in self._turns or not self._is_known

    def read(self, event: Event) -> None:
        """Take the next event."""
        if event.seq <= self._last_seq:
            return  # the state knows
        match event.body:
            case Received() | SilentMessage() | Announced() as body:
                if body.untrusted:
                    self._outside.add(event.seq)
            case TurnStarted() as body:
                self._open = body.turn
                if not self._outside.isdisjoint((*body.received, *body.ambient)):
                    self._turns.add(body.turn)
            case Steered(turn=turn, received=received):
                if not self._outside.isdisjoint(received):
                    self._turns.add(turn)
            case CallFinished(untrusted=True):
                self._turns.add(self._open)
            case ModelReplied(outside=sources) if sources:  # of an earlier turn, and still shown
                self._turns.add(self._open)
            case _:
                pass


class MessageEvents:
    """Which of a session's events tell of one message, from its own to the end of its turn."""

    __slots__ = ("_goal", "_seq", "is_over", "turn")

    def __init__(self, seq: int, *, turn: int, goal: int) -> None:
        """Begin before the event `seq` of the message.

        Args:
            seq: The event.
            turn: The turn that answers it, where that is known to have begun; else 0.
            goal: The turn whose end counts; 0 = the first that answers it.
        """
        self._seq, self.turn, self._goal = seq, turn, goal
        self.is_over = False
        "Whether the last of them has come."

    def has(self, event: Event) -> bool:
        """Take the next event; return whether it is one of them."""
        body = event.body
        if isinstance(body, _BEGINNINGS):
            if self._seq in body.received or event.seq == self._seq:
                self.turn = body.turn
        elif isinstance(body, CallsAnswered):
            if event.seq == self._seq:
                self.turn = body.turn
        elif isinstance(body, _ENDS):
            if body.turn == self.turn:
                if isinstance(body, TurnFinished) and self.turn < self._goal:
                    return False
                self.is_over = True
        elif isinstance(body, Discarded):
            self.is_over = self._seq in body.received
            return self.is_over
        return bool(self.turn) or event.seq == self._seq or isinstance(body, SessionEnded)
