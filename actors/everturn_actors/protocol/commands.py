"""What an actor can be asked to do. Each command carries the slot for its answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from everturn_actors.events import Body, Summarised
from everturn_actors.model import (
    AmbientMessage,
    Announcement,
    Attachment,
    EndReason,
    Inbound,
    Resolution,
    SummarySource,
)
from everturn_actors.protocol.mailbox import ReplySlot
from everturn_actors.state.session_state import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A message, or an announcement, that is durable."""

    seq: int
    duplicate: bool
    state: SessionState


@dataclass(frozen=True, slots=True)
class Submit:
    """Accept a message."""

    inbound: Inbound
    answer: ReplySlot[Accepted]
    attachments: tuple[Attachment, ...] = ()
    "What came with it; the bytes are kept already."


@dataclass(frozen=True, slots=True)
class StoreAmbient:
    """Keep a message that did not speak to the agent. Answers whether it is a new one."""

    message: AmbientMessage
    answer: ReplySlot[bool]


@dataclass(frozen=True, slots=True)
class Announce:
    """Say something in the agent's name."""

    announcement: Announcement
    answer: ReplySlot[Accepted]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of a message that waits. Answers whether it still did."""

    idempotency_key: str
    text: str
    answer: ReplySlot[bool]


@dataclass(frozen=True, slots=True)
class Tick:
    """Look again whether there is something to do."""

    answer: ReplySlot[None]
    release: bool = False
    "Whether a turn that is held begins now."


@dataclass(frozen=True, slots=True)
class RecordDelivery:
    """The delivery port's events."""

    bodies: tuple[Body, ...]
    answer: ReplySlot[None]


@dataclass(frozen=True, slots=True)
class GetState:
    """Tell the present state, when all that came before is durable."""

    answer: ReplySlot[SessionState]


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused turn go on. Answers whether there was one."""

    answer: ReplySlot[bool]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Close the open turn. Answers whether there was one, when it is closed."""

    answer: ReplySlot[bool]
    by: str = ""
    "Who wants it; empty = not known."


@dataclass(frozen=True, slots=True)
class Retry:
    """Ask the newest turn, which failed, again. Answers with the event that begins it anew."""

    idempotency_key: str
    answer: ReplySlot[Accepted]


@dataclass(frozen=True, slots=True)
class End:
    """End the session, its open turn before it."""

    reason: EndReason
    answer: ReplySlot[None]
    by: str = ""
    "Who wants it; empty = not known."


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Give somebody the session, or take it back. Answers with those who have it then."""

    principal: str
    by: str
    is_withdrawn: bool
    answer: ReplySlot[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ClientDisconnected:
    """The client that waits for message `seq` went away."""

    seq: int
    answer: ReplySlot[None]


@dataclass(frozen=True, slots=True)
class RecordTurn:
    """The running turn's events."""

    bodies: tuple[Body, ...]
    answer: ReplySlot[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What became of the wish to have older turns summarised."""

    done: bool
    messages: int = 0
    "How many messages the summary stands for, those of earlier ones included."
    tokens_before: int = 0
    tokens_after: int = 0
    "What the next prompt is predicted to cost, before and after."
    source: SummarySource = "model"
    text: str = ""
    "In words: what was done, or why nothing was."


@dataclass(frozen=True, slots=True)
class Compact:
    """Have older turns summarised now. Answers when that is done, or at once if there are none."""

    focus: str
    "What the summary should keep above all; empty for nothing in particular."
    answer: ReplySlot[Compacted]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary is ready. Answers whether it was of use."""

    body: Summarised
    answer: ReplySlot[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveApproval:
    """Settle the approval of a call of the open step. Answers when that is durable."""

    call_id: str
    resolution: Resolution
    by: str
    "Who decides; empty = whoever runs the gateway, who may always."
    answer: ReplySlot[None]
    may_always: bool = False
    "Whether `by` need not stand among those who may answer."
    own: bool = False
    "The turn itself settles it: nobody answered in time, or a message came first."
    arguments_hash: str = ""
    "Of the arguments that were decided about; empty = those that were asked for."
    expires_at: datetime | None = None
    "Of the question that was answered: a call may be asked about anew. None = the present one."


@dataclass(frozen=True, slots=True)
class Pause:
    """The turn was stopped because nobody waits for it."""

    answer: ReplySlot[None]


@dataclass(frozen=True, slots=True)
class Stop:
    """Finish what runs, begin nothing, go."""

    answer: ReplySlot[None]


Command: TypeAlias = (
    Submit
    | StoreAmbient
    | Announce
    | Edit
    | Tick
    | RecordDelivery
    | GetState
    | Resume
    | Cancel
    | Retry
    | End
    | Share
    | ClientDisconnected
    | RecordTurn
    | ResolveApproval
    | Compact
    | Summary
    | Pause
    | Stop
)
