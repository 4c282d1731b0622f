"""What is decided, and what it is decided by: values that pass between the decider and the actor.

Context -- what the actor knows besides the durable state
Draft   -- the decision as it grows, command by command
Decision -- events to append, effects to start, answers to give, in this order
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from msgspec import Struct, field

from everturn_actors.errors import CoreError, SessionEndedError, UnknownAgentError
from everturn_actors.events import Body, Event, SessionStarted
from everturn_actors.model import EndReason, ToolCall
from everturn_actors.protocol.commands import Accepted
from everturn_actors.spec import AgentSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.queue import Debounce
from everturn_actors.state.session_state import SessionState


class Memory(Struct, frozen=True, kw_only=True):
    """What commands have asked for and no event says. A restart forgets it."""

    ending: EndReason | None = None
    "Why the session ends as soon as it can; None = it goes on."
    ended_by: str = ""
    is_stopping: bool = False
    "Whether the service stops: nothing new begins."
    debounce: Debounce = field(default_factory=Debounce)


class Context(Struct, frozen=True, kw_only=True):
    """What a decision depends on besides the state, as it is at one moment."""

    session_id: str
    memory: Memory
    begin_with: SessionStarted | None
    "How the session begins, where there is no state yet."
    spec: AgentSpec | None
    "The session's agent; None where there is none."
    agent_error: UnknownAgentError | None
    "Why there is none."
    is_repeatable: Callable[[ToolCall], bool]
    "Whether a restart runs a call again."
    window_tokens: Callable[[], int | None]
    "Returns the window of the agent's model; asked where a turn begins. None = nobody can say."
    delivers: bool
    "Whether what is said goes to people of a channel."
    is_followed: bool
    "Whether somebody waits for the running turn."
    resumes: bool
    "Whether what is open goes on without being asked to."
    running: int
    "The turn that a task works on; 0 = there is no such task."
    left: int
    "The turn that waits for the next start of the session."
    is_cancelled: bool
    "Whether somebody waits for the running turn to be closed."


class Later(Enum):
    """An answer that is not given with the decision, but when something has happened."""

    CLOSED = "the running turn is closed"
    ENDED = "the session has ended"
    STOPPED = "the actor has put everything away"
    SUMMARISED = "a summary was made, or found to be needless"


Answer: TypeAlias = object
"""What one command gives: its value, the `CoreError` that says why not, or `Later`."""


class StartTurn(Struct, frozen=True):
    """Let a task work on the open turn."""

    number: int


class StopTurn(Struct, frozen=True):
    """Call off the task that works on the open turn, and close the turn as cancelled."""

    by: str


class ReleaseTurn(Struct, frozen=True):
    """Forget the task that worked on a turn: it has nothing left to do."""


class ScheduleTick(Struct, frozen=True):
    """Look again at `at`: a turn that is held may begin then."""

    at: datetime


class AwaitFollower(Struct, frozen=True):
    """Pause the turn that answers message `seq`, unless somebody comes back to it soon."""

    seq: int


class NotifyStopping(Struct, frozen=True):
    """Let whoever waits for something new see that the service stops."""


class ReportDrop(Struct, frozen=True):
    """Log that messages are not answered."""

    messages: int
    why: str


class ReportFault(Struct, frozen=True):
    """Log that a command failed by a fault, which is its own caller's."""

    command: str
    error: Exception


Effect: TypeAlias = (
    StartTurn
    | StopTurn
    | ReleaseTurn
    | ScheduleTick
    | AwaitFollower
    | NotifyStopping
    | ReportDrop
    | ReportFault
)


class Decision(Struct, frozen=True):
    """What becomes of commands, once `events` are durable and not before."""

    state: SessionState | None
    "The session with the events."
    checkpoint: SessionState | None
    "The last of the states on the way that is a checkpoint; None where none is."
    memory: Memory
    events: list[Event]
    effects: list[Effect]
    "In this order."
    answers: list[Answer]
    "One for each command, in their order."


_Mark: TypeAlias = tuple[SessionState | None, SessionState | None, int, int, Memory, int, bool]


class Draft:
    """A decision as it grows: each command meets what those before it have led to."""

    __slots__ = (
        "checkpoint",
        "context",
        "effects",
        "events",
        "is_cancelled",
        "memory",
        "now",
        "running",
        "state",
    )

    def __init__(self, state: SessionState | None, context: Context, now: datetime) -> None:
        """Begin with the durable state."""
        self.state, self.context, self.now = state, context, now
        self.checkpoint: SessionState | None = None
        self.memory = context.memory
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.running, self.is_cancelled = context.running, context.is_cancelled

    @property
    def known(self) -> SessionState:
        """The state so far."""
        assert self.state is not None, "the session has begun"
        return self.state

    @property
    def is_worked_on(self) -> bool:
        """Whether a task works on the turn that is open now."""
        turn = self.state.open_turn if self.state else None
        return turn is not None and turn.number == self.running

    def add(self, *bodies: Body) -> None:
        """Add events.

        Raises:
            CorruptJournalError: One of them cannot follow.
        """
        for body in bodies:
            seq = 1 if self.state is None else self.state.last_seq + 1
            event = Event(seq=seq, at=self.now, body=body)
            self.state = apply(self.state, event)
            self.events.append(event)
            if self.state.checkpoint_seq == seq:
                self.checkpoint = self.state

    def mark(self) -> _Mark:
        """Return where the draft stands, to go back to."""
        return (
            self.state,
            self.checkpoint,
            len(self.events),
            len(self.effects),
            self.memory,
            self.running,
            self.is_cancelled,
        )

    def go_back(self, to: _Mark) -> None:
        """Forget what came after a mark."""
        self.state, self.checkpoint, events, effects, self.memory, self.running, _ = to
        self.is_cancelled = to[-1]
        del self.events[events:], self.effects[effects:]

    def why_ended(self) -> SessionEndedError | None:
        """Return the error of a command that comes after the end; None before it."""
        state = self.known
        ending = self.memory.ending or (state.status == "ended" and state.ended_reason)
        return SessionEndedError(self.context.session_id, ending) if ending else None

    def why_refused(self) -> CoreError | None:
        """Return why nothing new is taken: the session has ended, or nobody is there to answer."""
        return self.why_ended() or self.context.agent_error

    def accepted(self, seen: int | None) -> Accepted:
        """Return the answer to what is durable: just now, or as event `seen` of the same key."""
        state = self.known
        seq = state.last_seq if seen is None else seen
        return Accepted.of(state, seq, duplicate=seen is not None)

    def decision(self, answers: list[Answer]) -> Decision:
        """Return what was decided."""
        return Decision(
            self.state, self.checkpoint, self.memory, self.events, self.effects, answers
        )
