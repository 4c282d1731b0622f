"""Which of a session's events tell of one message, and whether its turn has read from outside."""

from __future__ import annotations

from everturn_actors.events import (
    AmbientStored,
    Announced,
    CallFinished,
    CallsAnswered,
    CallsHandedOver,
    CallStarted,
    Discarded,
    Event,
    ModelReplied,
    Received,
    SessionEnded,
    Steered,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.protocol.commands import Accepted

_BEGINNINGS = (TurnStarted, Steered)
_ENDS = (TurnFinished, CallsHandedOver)
# Looked up by type: `isinstance` asks each class in turn, and each event of a turn comes here.
_READ = frozenset(
    (
        Received,
        AmbientStored,
        Announced,
        TurnStarted,
        Steered,
        CallFinished,
        ModelReplied,
    )
)
_BESIDE = frozenset((Received, StepStarted, ModelReplied, CallStarted, CallFinished))
"What says nothing of where a turn begins or ends: most events."


class Taint:
    """Which turn of a session has read text from outside, as far as its events are followed."""

    def __init__(self, accepted: Accepted) -> None:
        """Begin where a message was accepted, or found."""
        self._last_seq = accepted.last_seq
        self._outside = set(accepted.outside)
        self._open = accepted.open_turn
        self._turns = {accepted.open_turn} if accepted.is_tainted else set[int]()
        self._is_known = not accepted.duplicate or accepted.waits or accepted.is_heard

    def has(self, turn: int) -> bool:
        """Return whether the turn of this number has, or may have."""
        return turn in self._turns or not self._is_known

    def read(self, event: Event) -> None:
        """Take the next event."""
        if event.seq <= self._last_seq or type(event.body) not in _READ:
            return  # the state knows, or it tells of none
        # What every turn brings comes first: each case costs those behind it a look.
        match event.body:
            case ModelReplied(outside=sources):
                if sources:  # of an earlier turn, and still shown
                    self._turns.add(self._open)
            case TurnStarted() as body:
                self._open = body.turn
                if not self._outside.isdisjoint((*body.received, *body.ambient)):
                    self._turns.add(body.turn)
            case Steered(turn=turn, received=received):
                if not self._outside.isdisjoint(received):
                    self._turns.add(turn)
            case CallFinished(untrusted=True):
                self._turns.add(self._open)
            case Received() | AmbientStored() | Announced() as body:
                if body.untrusted:
                    self._outside.add(event.seq)
            case _:
                pass


class MessageEvents:
    """Which of a session's events tell of one message, from its own to the end of its turn."""

    __slots__ = ("_goal", "_is_alone", "_seq", "is_over", "turn")

    def __init__(self, seq: int, *, turn: int, goal: int, is_alone: bool = False) -> None:
        """Begin before the event `seq` of the message.

        Args:
            seq: The event.
            turn: The turn that answers it, where that is known to have begun; else 0.
            goal: The turn whose end counts; 0 = the first that answers it.
            is_alone: Whether no turn answers it: its own event is the last.
        """
        self._seq, self.turn, self._goal, self._is_alone = seq, turn, goal, is_alone
        self.is_over = False
        "Whether the last of them has come."

    def has(self, event: Event) -> bool:
        """Take the next event; return whether it is one of them."""
        body = event.body
        if self._is_alone:
            self.is_over = True
            return event.seq == self._seq
        if type(body) in _BESIDE:
            return bool(self.turn) or event.seq == self._seq
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
