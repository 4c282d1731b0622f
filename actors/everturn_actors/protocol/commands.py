"""What an actor can be asked to do. Each command carries the slot for its answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from everturn_actors.events import Body, Summarised
from everturn_actors.model import (
    Announcement,
    Aside,
    Attachment,
    EndReason,
    Inbound,
    Settled,
    SummarySource,
)
from everturn_actors.protocol.mailbox import Answer
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
    answer: Answer[Accepted]
    attachments: tuple[Attachment, ...] = ()
    "What came with it; the bytes are kept already."


@dataclass(frozen=True, slots=True)
class KeepAside:
    """Keep a message that did not speak to the agent. Answers whether it is a new one."""

    aside: Aside
    answer: Answer[bool]


@dataclass(frozen=True, slots=True)
class Announce:
    """Say something in the agent's name."""

    announcement: Announcement
    answer: Answer[Accepted]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of a message that waits. Answers whether it still did."""

    idempotency_key: str
    text: str
    answer: Answer[bool]


@dataclass(frozen=True, slots=True)
class Wake:
    """Look again whether there is something to do."""

    answer: Answer[None]
    release: bool = False
    "Whether a turn that is held begins now."


@dataclass(frozen=True, slots=True)
class Tell:
    """The delivery port's events."""

    bodies: tuple[Body, ...]
    answer: Answer[None]


@dataclass(frozen=True, slots=True)
class Look:
    """Tell the present state, when all that came before is durable."""

    answer: Answer[SessionState]


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused turn go on. Answers whether there was one."""

    answer: Answer[bool]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Close the open turn. Answers whether there was one, when it is closed."""

    answer: Answer[bool]
    by: str = ""
    "Who wants it; empty = not known."


@dataclass(frozen=True, slots=True)
class Retry:
    """Ask the newest turn, which failed, again. Answers with the event that begins it anew."""

    idempotency_key: str
    answer: Answer[Accepted]


@dataclass(frozen=True, slots=True)
class End:
    """End the session, its open turn before it."""

    reason: EndReason
    answer: Answer[None]
    by: str = ""
    "Who wants it; empty = not known."


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Give somebody the session, or take it back. Answers with those who have it then."""

    principal: str
    by: str
    is_withdrawn: bool
    answer: Answer[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Leave:
    """The client that waits for message `seq` went away."""

    seq: int
    answer: Answer[None]


@dataclass(frozen=True, slots=True)
class Record:
    """The running turn's events."""

    bodies: tuple[Body, ...]
    answer: Answer[None]


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
    answer: Answer[Compacted]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary is ready. Answers whether it was of use."""

    body: Summarised
    answer: Answer[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Settle the approval of a call of the open step. Answers when that is durable."""

    call_id: str
    settled: Settled
    by: str
    "Who decides; empty = whoever runs the gateway, who may always."
    answer: Answer[None]
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

    answer: Answer[None]


@dataclass(frozen=True, slots=True)
class Stop:
    """Finish what runs, begin nothing, go."""

    answer: Answer[None]


Command: TypeAlias = (
    Submit
    | KeepAside
    | Announce
    | Edit
    | Wake
    | Tell
    | Look
    | Resume
    | Cancel
    | Retry
    | End
    | Share
    | Leave
    | Record
    | Settle
    | Compact
    | Summary
    | Pause
    | Stop
)
