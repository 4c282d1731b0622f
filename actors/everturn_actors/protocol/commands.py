"""What an actor can be asked to do: data, each of which knows the type of its answer.

What comes from outside can be sent to another process as it is: the codec reads commands and
answers by their types.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from everturn_actors.codec import Count, Timestamp, Value, snake
from everturn_actors.events import Body, Summarised
from everturn_actors.model import (
    Attachment,
    CallAnswer,
    ChosenModel,
    EndReason,
    IncomingMessage,
    Labels,
    PendingAmbient,
    Pin,
    Resolution,
    SessionStatus,
    SummarySource,
    Turn,
    UserMessage,
)
from everturn_actors.state.session_state import SessionState

T_co = TypeVar("T_co", covariant=True)


class Command(
    Struct,
    Generic[T_co],
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="command",
    tag=snake,
):
    """Something to ask of a session; `T_co` is what it answers."""


class Accepted(Value, frozen=True, kw_only=True):
    """A message that is durable, and where the session stood then.

    It holds what leads from the message to its answer, and no more: it may be sent elsewhere.
    """

    seq: Count
    duplicate: bool
    at: Timestamp
    "When the session last changed."
    last_seq: Count
    "Its last event."
    open_turn: Count = 0
    "The number of its open turn; 0 = none is open."
    is_heard: bool = False
    "Whether the open turn answers it."
    is_tainted: bool = False
    "Whether the open turn has read text from outside."
    waits: bool = False
    "Whether it waits for a turn."
    outside: tuple[Count, ...] = ()
    "Events of text from outside that the next turn reads."
    held: Turn | None = None
    "Of a duplicate: the turn that answered it, where that is over and still held."

    @staticmethod
    def of(state: SessionState, seq: int, *, duplicate: bool) -> Accepted:
        """Return how event `seq` stands in a session."""
        turn = state.open_turn
        is_heard = turn is not None and any(user.seq == seq for user in turn.heard)
        beside: tuple[UserMessage | PendingAmbient, ...] = (*state.waiting, *state.ambient)
        held = None
        if duplicate:
            turns = reversed(state.held_turns)
            held = next((t for t in turns if any(u.seq == seq for u in t.heard)), None)
        return Accepted(
            seq=seq,
            duplicate=duplicate,
            at=state.updated_at,
            last_seq=state.last_seq,
            open_turn=turn.number if turn is not None else 0,
            is_heard=is_heard,
            is_tainted=turn is not None and turn.is_tainted,
            waits=any(user.seq == seq for user in state.waiting),
            outside=tuple([each.seq for each in beside if each.untrusted]),
            held=held,
        )


class Submit(Command[Accepted], frozen=True):
    """Take what is said, of whatever kind."""

    message: IncomingMessage
    attachments: tuple[Attachment, ...] = ()
    "What came with it; the bytes are kept already."


class AnswerCalls(Command[Accepted], frozen=True):
    """Take what the caller says that its own tools gave. Answers with the event of it."""

    answers: tuple[CallAnswer, ...]
    idempotency_key: str


class Edit(Command[bool], frozen=True):
    """Replace the text of a message that waits. Answers whether it still did."""

    idempotency_key: str
    text: str


class Withdraw(Command[bool], frozen=True):
    """Take a message back that waits: its writer deleted it. Answers whether it still waited."""

    idempotency_key: str


class Tick(Command[None], frozen=True):
    """Look again whether there is something to do."""

    release: bool = False
    "Whether a turn that is held begins now."


class RecordDelivery(Command[None], frozen=True):
    """The delivery port's events."""

    bodies: tuple[Body, ...]


class GetState(Command[SessionState], frozen=True):
    """Tell the present state, when all that came before is durable."""


class KnownStatus(Value, frozen=True, kw_only=True):
    """How a session stands, in a few words."""

    status: SessionStatus
    ended_reason: str = ""
    is_known: bool = False
    "Whether the key that was asked about came before."


class GetStatus(Command[KnownStatus], frozen=True):
    """Tell how the session stands, when all that came before is durable."""

    idempotency_key: str = ""
    "Asked about besides; empty = none."
    at_least: int = 0
    "The log goes so far, as somebody knows: who has loaded less of it loads it again."


class Resume(Command[bool], frozen=True):
    """Let a paused turn go on. Answers whether there was one."""


class Cancel(Command[bool], frozen=True):
    """Close the open turn. Answers whether there was one, when it is closed."""

    by: str = ""
    "Who wants it; empty = not known."


class Retry(Command[Accepted], frozen=True):
    """Ask the newest turn, which failed, again. Answers with the event that begins it anew."""

    idempotency_key: str


class End(Command[None], frozen=True):
    """End the session, its open turn before it."""

    reason: EndReason
    by: str = ""
    "Who wants it; empty = not known."


class Share(Command[tuple[str, ...]], frozen=True, kw_only=True):
    """Give somebody the session, or take it back. Answers with those who have it then."""

    principal: str
    by: str
    is_withdrawn: bool


class Label(Command[Labels], frozen=True, kw_only=True):
    """Sort the session; None leaves a label as it is. Answers with the labels as they are then."""

    title: str | None
    pinned: bool | None
    archived: bool | None
    by: str


class ChooseModel(Command[ChosenModel | None], frozen=True, kw_only=True):
    """Have another model answer, or (None) the agent's own again. Answers with the one chosen."""

    model: ChosenModel | None
    by: str


class PinMessage(Command[tuple[Pin, ...]], frozen=True, kw_only=True):
    """Keep a message with the model whatever is hidden. Answers with all that are pinned then."""

    pin: Pin
    by: str


class UnpinMessage(Command[tuple[Pin, ...]], frozen=True, kw_only=True):
    """Take a pin off. Answers with all messages that are pinned then."""

    message: int
    by: str


class ClientDisconnected(Command[None], frozen=True):
    """The client that waits for message `seq` went away."""

    seq: int


class RecordTurn(Command[None], frozen=True):
    """The running turn's events."""

    bodies: tuple[Body, ...]


class Compacted(Value, frozen=True, kw_only=True):
    """What became of the request to have older turns summarised."""

    done: bool
    messages: int = 0
    "How many messages the summary stands for, those of earlier ones included."
    tokens_before: int = 0
    tokens_after: int = 0
    "What the next prompt is predicted to cost, before and after."
    source: SummarySource = "model"
    text: str = ""
    "In words: what was done, or why nothing was."


class Compact(Command[Compacted], frozen=True):
    """Have older turns summarised now. Answers when that is done, or at once if there are none."""

    focus: str
    "What the summary should keep above all; empty for nothing in particular."


class Summary(Command[bool], frozen=True):
    """A summary is ready. Answers whether it was of use."""

    body: Summarised


class ResolveApproval(Command[None], frozen=True, kw_only=True):
    """Settle the approval of a call of the open step. Answers when that is durable."""

    call_id: str
    resolution: Resolution
    by: str
    "Who decides; empty = whoever runs the gateway, who may always."
    may_always: bool = False
    "Whether `by` need not stand among those who may answer."
    own: bool = False
    "The turn itself settles it: nobody answered in time, or a message came first or answers it."
    arguments_hash: str = ""
    "Of the arguments that were decided about; empty = those that were asked for."
    expires_at: datetime | None = None
    "Of the question that was answered: a call may be asked about anew. None = the present one."
    answer: str = ""
    "answer: what somebody typed, see `Inquiry.read`."


class Pause(Command[None], frozen=True):
    """The turn was stopped because nobody waits for it."""


class Stop(Command[None], frozen=True):
    """Finish what runs, begin nothing, go."""


OutsideCommand: TypeAlias = (
    Submit
    | AnswerCalls
    | Edit
    | Withdraw
    | Tick
    | GetStatus
    | Resume
    | Cancel
    | Retry
    | End
    | Share
    | Label
    | ChooseModel
    | PinMessage
    | UnpinMessage
    | ClientDisconnected
    | ResolveApproval
    | Compact
)
"What may be asked of a session from another node."

AnyCommand: TypeAlias = (
    OutsideCommand | RecordDelivery | GetState | RecordTurn | Summary | Pause | Stop
)


def is_ambient(command: object) -> bool:
    """Whether a command keeps what was not said to the agent, for whichever turn comes next."""
    return isinstance(command, Submit) and command.message.kind == "ambient"


def sets_going(command: AnyCommand) -> bool:
    """Whether a session that does not go on by itself does with this command."""
    return not is_ambient(command) and not isinstance(
        command,
        End
        | ClientDisconnected
        | GetState
        | GetStatus
        | Share
        | Label
        | ChooseModel
        | PinMessage
        | UnpinMessage
        | Stop,
    )


def is_own(command: AnyCommand) -> bool:
    """Whether a task of the actor itself sends it, and not somebody who waits outside."""
    match command:
        case RecordTurn() | RecordDelivery() | Summary() | Pause():
            return True
        case ResolveApproval(own=own):
            return own
        case Tick(release=release):
            return not release
        case _:
            return False
