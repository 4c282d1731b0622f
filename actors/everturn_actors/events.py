"""What is written to `events.jsonl`: one value a line, numbered without holes. Pure.

The log is the truth: state is only what a replay of these events gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from everturn_actors.model import (
    Attachment,
    ConversationKey,
    EndReason,
    FileDigest,
    Joins,
    Mark,
    Outcome,
    PreviewMark,
    PromptFingerprint,
    Replaced,
    Resolution,
    SessionStatus,
    SummarySource,
    ToolCall,
    Usage,
)

EMERGENCY = "halve"
"The stage of a reduction that was made because a provider found a request too long."
OVERFLOW_LINE = "Context window exceeded. Compressing history and retrying..."
"""What people read when a provider found a request too long.

Source: the seed document "Context boundaries" of PicoClaw.
"""


OUTAGE_LINE = (
    "The model cannot be reached just now. Your message is kept, and answered as soon as it can be."
)
"What people read, once a turn, when calls go on failing."


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """The first event of every session."""

    session_id: str
    key: ConversationKey
    instructions: str = ""
    "Instructions that the caller gave for this session alone."
    seen: tuple[str, ...] = ()
    "Idempotency keys of the conversation's session before this one: their messages are not new."
    principal: str = ""
    "Who began it, and pays for it; empty = a chat channel, or whoever runs the gateway."


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShared:
    """Somebody was given the session to see and to talk in, or it was taken back."""

    principal: str
    "Who is given it."
    by: str = ""
    "Who gives it."
    is_withdrawn: bool = False
    "Whether it is taken back."


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message was accepted; it waits for its turn."""

    text: str
    sender: str = ""
    idempotency_key: str = ""
    attachments: tuple[Attachment, ...] = ()
    "Files that came with it; their bytes were kept with the session before."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."
    reply_to: str = ""
    "The message on its platform that an answer replies to; empty = none."
    joins: Joins = "all"
    "Which turn answers it."
    quiet: bool = False
    "Whether it begins no turn: the next one reads it."
    retry_for_s: int = -1
    "For how long its sender wants calls made again in an outage; -1 = as the agent has it."


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentMessage:
    """A message that did not speak to the agent was kept."""

    text: str
    sender: str = ""
    idempotency_key: str = ""
    shown: bool = True
    "Whether the next turn is told of it; otherwise it stands here alone."
    untrusted: bool = False
    "Whether nobody vouches for it."
    max_messages: int = 100
    "The next turn is told of so many such messages, the newest."
    max_age_s: int = 86_400
    "And of this one only if it begins so soon."


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """Something was said in the agent's name, without a turn; the next one is told of it."""

    text: str
    sender: str = ""
    "Who had it said."
    idempotency_key: str = ""
    title: str = ""
    "What the model is told that it comes from."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."
    delivers: bool = False
    "Whether it is owed to the people of a channel."


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """Its writer changed a message that still waited."""

    received: int
    "The seq of the `Received` event."
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """Messages that waited are not answered."""

    received: tuple[int, ...]
    "The seqs of the `Received` events, oldest first."
    reason: str
    "In words."


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """A turn began to answer the received messages it names."""

    turn: int
    received: tuple[int, ...]
    "The seqs of the `Received` events, oldest first."
    window_messages: int
    "The message-count window in force from here on."
    ambient: tuple[int, ...] = ()
    """The seqs of the `SilentMessage` and `Announced` events that it is told of, and of the
    `ChunkMarked` with which something was given up, oldest first."""
    ambient_bytes: int = 0
    "How much of them it is told at most, as UTF-8: the newest; 0 = all."
    delivers: bool = False
    "Whether what is said in it is owed to the people of a channel."
    retries: int = 0
    """The turn that failed and whose place it takes; 0 = none. It goes on with that one's messages,
    all of which are `received`, and with its steps: what a tool has done is not done again."""
    idempotency_key: str = ""
    "Of the wish to ask again; the same key is the same wish."


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """A model is about to be called."""

    turn: int
    step: int
    "Counts the steps of a turn from 1."
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    """The reply to the call of the open step, complete."""

    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: str = "stop"
    model: str = ""
    fingerprint: PromptFingerprint = PromptFingerprint()
    "The request that it answers."
    opaque: str = ""
    "What the provider wants back with it, see `Reply.opaque`."
    fallback: str = ""
    "The model that answered in place of the agent's own, as `provider/name`; empty = its own."
    outside: tuple[str, ...] = ()
    "The text from outside that the request showed, by source; see `outside`."
    retells: bool = False
    "Whether it showed none itself any more, but what the agent wrote while it was shown."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyBroken:
    """A reply to the call of the open step that cannot be used; the model is called again."""

    turn: int
    step: int
    reason: str
    "What was wrong with it, in words for the model and for people."
    text: str = ""
    "What it said, as far as that could be read."
    usage: Usage = Usage()
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailed:
    """The call of the open step failed in a way that may pass; it is made again, and when."""

    turn: int
    step: int
    attempt: int
    "Counts these failures from 1, in a row: a reply ends the row."
    error: str
    "In words without secrets."
    retry_in_ms: int
    "So long after this event the call is made again."
    give_up_in_ms: int
    "So long after this event it is made for the last time; of the first in a row it holds for all."
    tells: bool = False
    "Whether people are told: the first of its turn."

    @property
    def line(self) -> str:
        """What people are told of it; empty where they know."""
        return OUTAGE_LINE if self.tells else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """Messages that came while the turn ran; the model reads them with its next call."""

    turn: int
    received: tuple[int, ...]
    "The seqs of the `Received` events, oldest first."


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked:
    """A call of the open step waits for a person."""

    call_id: str
    arguments_hash: str
    "Of the arguments it was asked for, and of `files`; see `ids.arguments_hash`."
    timeout_s: int
    "How long there is to answer, from this event on."
    reason: str = ""
    pattern: str = ""
    "What allow_always would allow from then on; empty = this cannot be allowed for good."
    approvers: tuple[str, ...] = ()
    "Who may answer; empty = all who may talk in this conversation."
    files: tuple[FileDigest, ...] = ()
    "Files of the workspace that the call names, as they stood: the word holds for no others."


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """What became of an approval that was asked for."""

    call_id: str
    decision: Resolution
    by: str = ""
    "Who decided; empty where nobody did."


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """A tool is about to run: from here on its outcome is unknown until `CallFinished`."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished:
    """The result of one call of the open step."""

    call_id: str
    text: str
    is_error: bool = False
    path: str = ""
    "Under the session's results, the file that holds the whole text; empty where this is it."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."
    source: str = ""
    "untrusted: what that text is, in words; empty = not told."
    is_refused: bool = False
    "Whether the call did not run: the policy refuses it, or nobody allowed it in time."
    attachments: tuple[Attachment, ...] = ()
    "Files that the call sends to the people of the conversation; their bytes were kept before."


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewSent:
    """A message that shows the text of a step as it comes is about to be sent, or was.

    Where the reply was complete before the platform had answered, it still takes its place.
    """

    turn: int
    step: int
    platform_id: str = ""
    "What the platform calls it, once it is sent; the reply takes its place."
    mark: PreviewMark = "sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPlanned:
    """What the people of a conversation are owed was laid out."""

    item: int
    "The seq of the event that owes it."
    chunks: tuple[str, ...]
    "In the words of the channel, in the order in which they are sent; empty = nothing to send."


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMarked:
    """One chunk is about to be sent, or it is known what became of it."""

    item: int
    chunk: int
    "Counts from 0."
    mark: Mark
    platform_id: str = ""
    error: str = ""
    "Why it was not sent, or is not known to be."


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReduced:
    """Something is hidden from the model from here on; the log keeps it."""

    stage: str
    "What did it."
    cut_turn: int = 0
    "Finished turns with a lower number are no longer shown; 0 = as before."
    dropped: tuple[int, ...] = ()
    "Seqs of further messages that are no longer shown."
    replaced: tuple[Replaced, ...] = ()
    "What stands for messages from now on."
    messages: int = 0
    "How many messages it concerns."
    tokens_before: int = 0
    "Estimated, of these messages alone."
    tokens_after: int = 0
    note: str = ""
    "What the summary has to tell besides, where it was done in an emergency."

    @property
    def line(self) -> str:
        """What people are told of it; empty where it is routine."""
        return OVERFLOW_LINE if self.stage == EMERGENCY else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarised:
    """A summary stands for all turns up to `last_turn` from here on; the log keeps them."""

    last_turn: int
    messages: int
    "How many messages it stands for, those of earlier summaries included."
    text: str
    source: SummarySource = "model"
    tries: int = 1
    "How often a model was asked; of a digest, in vain."
    model: str = ""
    usage: Usage = Usage()
    path: str = ""
    "Under the session's results, the file with what it stands for, where the log is discarded."
    error: str = ""
    "Why no model wrote it; empty where one did, or where none was asked."
    outside: tuple[str, ...] = ()
    "The text from outside that stood in what it tells of, by source."


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished:
    """The turn is over; nothing more will be said in it."""

    turn: int
    outcome: Outcome
    error: str = ""
    by: str = ""
    "Who cancelled it, where that is known."


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChanged:
    """The session was paused, or goes on."""

    status: SessionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """The last event of a session."""

    reason: EndReason
    by: str = ""
    "Who ended it, where that is known."


Body: TypeAlias = (
    SessionStarted
    | SessionShared
    | Received
    | SilentMessage
    | Announced
    | Edited
    | Discarded
    | TurnStarted
    | StepStarted
    | ModelReplied
    | ReplyBroken
    | ModelCallFailed
    | Steered
    | ApprovalAsked
    | ApprovalDecided
    | CallStarted
    | CallFinished
    | PreviewSent
    | DeliveryPlanned
    | ChunkMarked
    | ContextReduced
    | Summarised
    | TurnFinished
    | StatusChanged
    | SessionEnded
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the log."""

    seq: int
    "From 1, without holes."
    at: datetime
    "UTC, aware, microseconds."
    body: Body
