"""The values a conversation is made of. Pure: no IO, no clock.

A `Turn` is one or more user messages and the steps that answer them; a `Step` is one model reply
with a result for every call it makes. A step is one value: half of one cannot be stored, trimmed
or rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

Outcome: TypeAlias = Literal["answered", "failed", "cancelled", "interrupted"]
SessionStatus: TypeAlias = Literal["active", "paused", "ended"]
EndReason: TypeAlias = Literal["reset", "expired", "deleted"]
Compaction: TypeAlias = Literal["archive", "discard", "disabled"]
Disposition: TypeAlias = Literal[
    "kept", "shortened", "masked", "cleared", "evicted", "summarised", "dropped"
]
"What becomes of a message on its way into a request."
SummarySource: TypeAlias = Literal["model", "digest"]
Decision: TypeAlias = Literal["allow_once", "allow_always", "deny"]
"What a person can answer to an approval."
Resolution: TypeAlias = Literal["allow_once", "allow_always", "deny", "expired", "overtaken"]
"What became of an approval: a decision, nobody answered in time, or a message came first."
Joins: TypeAlias = Literal["all", "own", "burst"]
"""Which turn answers a message: one with all that waits; one of its own; or that of the message
before it from the same sender, because the two were written in one breath."""
Overflow: TypeAlias = Literal["drop_old", "drop_new", "reject"]
"Where too many messages wait: the oldest goes, or the new one, silently or with a word."
OutboxItemKind: TypeAlias = Literal["reply", "file", "approval", "notice", "end", "undelivered"]
"""What an outbox item holds: a reply's text, files, a question, a line, why no answer came, or
that something else did not arrive."""
Mark: TypeAlias = Literal[
    "planned", "sending", "sent", "unsent", "unknown", "failed", "given_up", "closed"
]
"""What became of a chunk: not begun; under way; there; surely not sent, and to be tried again;
perhaps sent, and to be tried again; refused for good; tried in vain for too long; or, of a
question, shown as answered."""
PreviewMark: TypeAlias = Literal["sending", "sent", "unsent"]
"What became of a preview; where nothing is known after `sending`, it may be there."

T = TypeVar("T")

SCHEDULE: Final = "schedule"
"The sender of what scheduled jobs say and ask for."
PROGRAM_SENDERS: Final = frozenset(("background_process", SCHEDULE))
"Senders that are programs of the gateway: they ask nobody and can answer nothing."
OWNER_PREFIX: Final = "owner:"
"Begins the name of an owner of agents where an event tells who did something; no sender has it."

# What every provider that takes images takes alike.
# Sources, read 2026-11-22: https://platform.openai.com/docs/guides/images-vision,
# https://platform.claude.com/docs/en/build-with-claude/vision.
IMAGE_TYPES: Final = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationKey:
    """Names one conversation: who talks where, with which agent."""

    channel: str
    chat: str
    agent: str
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider reported them; zero where it did not."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    "The part of `input_tokens` that the provider read from its cache."
    cache_written_tokens: int = 0
    "The part of `input_tokens` that it wrote to its cache, where that has a price of its own."
    cost_nanodollars: int = 0
    "What it cost, in billionths of a US dollar; 0 where no price is known."

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_written_tokens=self.cache_written_tokens + other.cache_written_tokens,
            cost_nanodollars=self.cost_nanodollars + other.cost_nanodollars,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that a model asks for."""

    call_id: str
    name: str
    arguments: str = "{}"
    "JSON text of an object, as the model wrote it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering:
    """A value that carries what was once derived from it."""

    memo: dict[str, Any] = field(
        default_factory=dict[str, Any], init=False, compare=False, repr=False
    )
    "Forms derived from this value alone (a token count, wire bytes), kept by `remember`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Remembering):
    """What all messages share."""

    seq: int = 0
    "The event this message came from; 0 for one that stands in no log."


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAmbient:
    """What was said in a conversation beside its turns, until one is told of it."""

    seq: int
    text: str
    until: datetime
    "UTC. No turn that begins later is told of it."
    sender: str = ""
    untrusted: bool = False
    "Whether nobody vouches for it."
    own: bool = False
    "Whether it was said in the agent's name: an `Announcement`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with a message; its bytes are kept with the session."""

    name: str
    "Under the session's media: the SHA-256 of the bytes in hex, and an ending."
    media_type: str
    "For example `image/png`."
    file_name: str = ""
    "As the sender called it."
    size_bytes: int = 0

    @property
    def is_image(self) -> bool:
        """Whether it is a picture; a model is shown those of `IMAGE_TYPES`."""
        return self.media_type.startswith("image/")

    @property
    def described(self) -> str:
        """What it is, in a few words: `cat.png, image/png, 12 KB`."""
        size = self.size_bytes
        large = f"{size / _KIB / _KIB:.1f} MB" if size >= _KIB * _KIB else f"{size / _KIB:.0f} KB"
        told = large if size >= _KIB else f"{size} bytes"
        return f"{self.file_name or self.name}, {self.media_type}, {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage(Message):
    """Text from a person or a program."""

    text: str
    sender: str = ""
    attachments: tuple[Attachment, ...] = ()
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for, such as a program's output."
    reply_to: str = ""
    "The message on its platform that an answer replies to; empty = none."
    joins: Joins = "all"
    "Which turn answers it."
    quiet: bool = False
    "Whether it begins no turn: the next one reads it."
    retry_for_s: int = -1
    "For how long its sender wants calls made again in an outage; -1 = as the agent has it."

    @property
    def told(self) -> str:
        """The text, and a line for each attachment: for whoever reads words alone."""
        lines = [self.text] if self.text.strip() or not self.attachments else []
        return "\n".join((*lines, *(f"[attached: {each.described}]" for each in self.attachments)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Message):
    """One complete model reply."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: str = "stop"
    model: str = ""
    opaque: str = ""
    """JSON that the provider wants back unchanged with this reply, such as signed thinking.

    Only the provider that gave it understands it; every other one leaves it out.
    """
    fallback: str = ""
    "The model that answered in place of the agent's own, as `provider/name`; empty = its own."
    outside: tuple[str, ...] = ()
    "The text from outside that was shown to the model as it wrote this, by source; see `outside`."
    retells: bool = False
    "Whether no such text was shown itself any more, but what the agent wrote while it was."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(Message):
    """What one call gave."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    path: str = ""
    "Under the session's results, the file that holds the whole text; empty where this is it."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for: a web page, another's message."
    source: str = ""
    "untrusted: what that text is, in words: `the page https://...`; empty = not told."
    is_refused: bool = False
    "Whether the call did not run: the policy refuses it, or nobody allowed it in time."


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Message):
    """A line of the gateway to the model, for example how much of the conversation is left out."""

    text: str


AnyMessage: TypeAlias = UserMessage | Reply | ToolResult | Notice


def remember(value: Remembering, form: str, derive: Callable[[], T]) -> T:
    """Return `derive()`, computed once for this value and `form`.

    The caller promises that the result follows from the value and `form` alone.
    """
    found = value.memo.get(form)
    if found is None:
        found = value.memo[form] = derive()
    return cast("T", found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model reply and a result for each of its calls, in the order of the calls."""

    reply: Reply
    results: tuple[ToolResult, ...] = ()

    def __post_init__(self) -> None:
        called, answered = [c.call_id for c in self.reply.calls], [r.call_id for r in self.results]
        if called != answered:
            msg = f"a step needs one result a call, in order: calls {called}, results {answered}"
            raise ValueError(msg)

    @property
    def messages(self) -> tuple[Reply | ToolResult, ...]:
        """The reply, then its results."""
        return (self.reply, *self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """Messages that came while a turn ran, and that the model read before its next call."""

    after_steps: int
    "How many steps of the turn stand before them."
    users: tuple[UserMessage, ...]


def _size_messages(
    users: tuple[UserMessage, ...], steps: tuple[Step, ...], steered: tuple[Steering, ...]
) -> int:
    later = sum(len(each.users) for each in steered)
    return len(users) + later + sum(1 + len(step.results) for step in steps)


def _in_order(
    users: tuple[UserMessage, ...], steps: tuple[Step, ...], steered: tuple[Steering, ...]
) -> tuple[UserMessage | Step, ...]:
    if not steered:
        return (*users, *steps)
    blocks: list[UserMessage | Step] = list(users)
    done = 0
    for each in steered:
        blocks += steps[done : each.after_steps]
        blocks += each.users
        done = each.after_steps
    return (*blocks, *steps[done:])


def _is_tainted(heard: tuple[UserMessage, ...], steps: tuple[Step, ...]) -> bool:
    return any(user.untrusted for user in heard) or any(
        bool(step.reply.outside) or any(result.untrusted for result in step.results)
        for step in steps
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Remembering):
    """User messages and the steps that answered them, finished."""

    number: int
    "Counts the turns of a session from 1."
    users: tuple[UserMessage, ...]
    steps: tuple[Step, ...] = ()
    outcome: Outcome = "answered"
    error: str = ""
    "Why it was not answered; empty otherwise."
    steered: tuple[Steering, ...] = ()
    "What came while it ran, oldest first."

    @property
    def blocks(self) -> tuple[UserMessage | Step, ...]:
        """User messages and whole steps, oldest first."""
        return _in_order(self.users, self.steps, self.steered)

    @property
    def messages(self) -> tuple[AnyMessage, ...]:
        """All messages of the turn, oldest first."""
        if self.steered:
            each = (b.messages if isinstance(b, Step) else (b,) for b in self.blocks)
            return tuple(message for messages in each for message in messages)
        return (*self.users, *(m for step in self.steps for m in step.messages))

    @property
    def heard(self) -> tuple[UserMessage, ...]:
        """All its user messages, those that came while it ran included, oldest first."""
        return (*self.users, *(user for each in self.steered for user in each.users))

    @property
    def size_messages(self) -> int:
        """How many messages the turn holds."""
        return _size_messages(self.users, self.steps, self.steered)

    @property
    def text(self) -> str:
        """The reply a person sees: the text of the last step."""
        return self.steps[-1].reply.text if self.steps else ""

    @property
    def is_tainted(self) -> bool:
        """Whether it read text from outside that nobody vouches for, or was shown some."""
        return _is_tainted(self.heard, self.steps)

    @property
    def usage(self) -> Usage:
        """Tokens of all its model calls."""
        return sum((step.reply.usage for step in self.steps), Usage())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """What stood in a file of the workspace at one moment, so that a change of it is seen."""

    path: str
    "As people read it: below the workspace; a folder ends with `/`."
    digest: str
    "Equal only while what stands there is the same; in the words of whoever made it."
    is_there: bool = True
    "Whether anything stands there."


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A call that waits for a person's word, or has it."""

    call_id: str
    arguments_hash: str
    """Of the arguments it was asked for, and of `files`; the word holds for no others.

    See `ids.arguments_hash`.
    """
    expires_at: datetime
    "UTC. Nobody can answer after it, and the call does not run."
    reason: str = ""
    "Why it is asked, in words."
    pattern: str = ""
    "What allow_always would allow from then on; empty = this cannot be allowed for good."
    approvers: tuple[str, ...] = ()
    "Who may answer: sender ids, a trailing `*` matches the rest; empty = all who may talk here."
    files: tuple[FileDigest, ...] = ()
    "What the call may read or run of the workspace, as it stood when it was asked for."
    resolution: Resolution | None = None
    by: str = ""
    "Who answered."

    @property
    def is_allowed(self) -> bool:
        """Whether the call may run."""
        return self.resolution in {"allow_once", "allow_always"}

    def may_answer(self, sender: str) -> bool:
        """Whether this sender is one of those who may answer."""
        return not self.approvers or any(
            sender.startswith(each[:-1]) if each.endswith("*") else sender == each
            for each in self.approvers
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One message that a platform is to show."""

    payload: str
    "In the words of its channel, which alone reads it."
    mark: Mark = "planned"
    tries: int = 0
    "How often it is not known whether it was sent."
    platform_id: str = ""
    "What the platform calls it, once it is there."

    @property
    def is_done(self) -> bool:
        """Whether nothing more is tried."""
        return self.mark in {"sent", "failed", "given_up", "closed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxItem:
    """What the people of a conversation are owed, and how much of it reached them."""

    seq: int
    "The event that owes it; with the session, its name."
    turn: int
    kind: OutboxItemKind
    owed_at: datetime | None = None
    "UTC. Since when it is owed; undelivered: the oldest of what it tells of. None = not known."
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    call_id: str = ""
    "approval: the call."
    reply_to: str = ""
    "The message on the platform that it replies to; empty = none."
    preview: str = ""
    "What the platform calls the message that showed this reply as it came; empty = none did."
    preview_step: int = 0
    "The step whose reply it is, where nobody knows whether a message showed it; 0 = it is known."
    outcome: Outcome = "answered"
    "end: how the turn ended."
    chunks: tuple[Chunk, ...] | None = None
    "None until it is laid out."

    @property
    def is_delivered(self) -> bool:
        """Whether nothing of it is left to be sent."""
        return self.chunks is not None and all(chunk.is_done for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStep:
    """The step a running turn is in: a reply is awaited, or some of its calls are."""

    reply: Reply | None = None
    started: tuple[str, ...] = ()
    "Ids of the calls that may have begun to run."
    results: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    "Results so far, by call id."
    approvals: Mapping[str, Approval] = field(default_factory=dict[str, Approval])
    "By call id."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Calls of a model that failed one after the other, and when the next one is made. All UTC."""

    attempts: int
    since: datetime
    "When the first of them failed."
    failed_at: datetime
    "When the newest did."
    retry_at: datetime
    give_up_at: datetime
    "When the last try is made."
    error: str
    "Why the newest failed, in words."

    @property
    def described(self) -> str:
        """How things stand, in a line: since when, and when it is called again."""
        since, retry_at = (f"{at:%H:%M:%S} UTC" for at in (self.since, self.retry_at))
        return f"out of reach since {since}; called again at {retry_at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """A turn that is not finished yet."""

    number: int
    users: tuple[UserMessage, ...]
    started_at: datetime
    "UTC, aware. What the prompt calls the present time, so that a restart renders the same bytes."
    steps: tuple[Step, ...] = ()
    step: OpenStep | None = None
    steered: tuple[Steering, ...] = ()
    "What came while it ran, oldest first."
    broken: tuple[str, ...] = ()
    "Why the newest replies, one after the other, could not be used; empty after one that could."
    delivers: bool = False
    "Whether what is said in it is owed to the people of a channel."
    retried_steps: int = 0
    "How many of its steps are those of the turn that failed before it, and whose place it took."
    sent_files: bool = False
    "Whether a call of it sent files: where one did, the reply that ends it may be without a word."
    outage: Outage | None = None
    "Where the model of the open step is out of reach: until when it is waited for."
    told_of_outage: bool = False
    "Whether its people are told that the model is, or was, out of reach."
    told_of_drops: bool = False
    "Whether its people are told that messages which came meanwhile are not answered."
    preview_step: int = 0
    "The step whose text a message of the platform shows as it comes, or may show; 0 = none."
    preview_id: str = ""
    "What the platform calls that message; empty = nobody knows whether it is there."

    @property
    def blocks(self) -> tuple[UserMessage | Step, ...]:
        """User messages and finished steps, oldest first."""
        return _in_order(self.users, self.steps, self.steered)

    @property
    def heard(self) -> tuple[UserMessage, ...]:
        """All its user messages, those that came while it ran included, oldest first."""
        return (*self.users, *(user for each in self.steered for user in each.users))

    @property
    def reply_to(self) -> str:
        """The message on the platform that an answer replies to: the newest that names one."""
        return next((user.reply_to for user in reversed(self.heard) if user.reply_to), "")

    @property
    def is_tainted(self) -> bool:
        """Whether it has read text from outside that nobody vouches for, or was shown some.

        For one call it is `outside.behind_calls` that tells.
        """
        step = self.step
        if step is not None:
            if step.reply is not None and step.reply.outside:
                return True
            if any(result.untrusted for result in step.results.values()):
                return True
        return _is_tainted(self.heard, self.steps)

    @property
    def size_messages(self) -> int:
        """How many messages its users and finished steps have."""
        return _size_messages(self.users, self.steps, self.steered)

    def finished(self, outcome: Outcome, error: str) -> Turn:
        """Return this turn as a finished one; a step without its reply is left out."""
        return Turn(
            number=self.number,
            users=self.users,
            steps=self.steps,
            outcome=outcome,
            error=error,
            steered=self.steered,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """What stands for one message from now on."""

    seq: int
    "Of the message."
    disposition: Disposition
    text: str
    arguments: tuple[str, ...] = ()
    "New arguments for the calls of a reply, in their order; empty = as they are."


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What stands for the oldest messages of a session."""

    last_turn: int
    "The newest turn it tells of; it begins with the session."
    messages: int
    "How many messages it stands for, those of earlier summaries included."
    text: str
    source: SummarySource = "model"
    "Who wrote it."
    path: str = ""
    "Under the session's results, the file with what it stands for, where the log is discarded."
    outside: tuple[str, ...] = ()
    "The text from outside that stood in what it tells of, by source."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reductions:
    """What is hidden from the model for good, and what stands in its place."""

    cut_turn: int = 0
    "Finished turns with a lower number are not shown."
    replaced: Mapping[int, Replaced] = field(default_factory=dict[int, Replaced])
    "By the seq of the message."
    dropped: frozenset[int] = frozenset()
    "Seqs of messages that are not shown though their turn is; always whole steps."
    summary: Summary | None = None
    note: str = ""
    "What the summary does not tell and has to: what left in an emergency since it was made."
    failures: int = 0
    "Summaries in a row that no model could write."
    retry_at: datetime | None = None
    "No model is asked for a summary before this instant, UTC."


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFingerprint:
    """What is remembered of a request, to compare the next one with it."""

    prefix: str = ""
    "A hash of its bytes; empty = nothing to compare with."
    messages: int = 0
    units: int = 0
    "Its estimated tokens before scaling, in hundredths."
    is_cache_miss: bool = False
    "Whether it did not begin with the request before it, though nothing had been reduced."


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What `context` renders: finished turns, the running one, and what is no longer held."""

    turns: tuple[Turn, ...] = ()
    "Oldest first."
    current: OpenTurn | None = None
    left_messages: int = 0
    "Messages of this session that the message-count window let go."
    instructions: str = ""
    "Instructions the caller gave for this session alone."
    reductions: Reductions = field(default_factory=Reductions)
    fingerprint: PromptFingerprint = field(default_factory=PromptFingerprint)
    "The last request; empty since the last reduction, and before the first request."
    reported: Usage = Usage()
    "What the provider reported for it."
    window_messages: int = 0
    "How many messages the session holds; 0 = not known."
    counted_messages: int | None = None
    "Messages of the turns here, those of an open step left out; None = not counted yet."

    @property
    def held_messages(self) -> int:
        """How many messages the turns here have, those of an open step left out."""
        if self.counted_messages is not None:
            return self.counted_messages
        running = self.current.size_messages if self.current else 0
        return sum(turn.size_messages for turn in self.turns) + running


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file on its way into a conversation."""

    data: bytes = field(repr=False)
    media_type: str = ""
    "What its sender says it is; empty = what its bytes say."
    file_name: str = ""
    "As its sender calls it: a name, no path."


@dataclass(frozen=True, slots=True, kw_only=True)
class Queueing:
    """How a message joins those that wait for a turn."""

    hold_s: float = 0
    "Its turn waits so long for more of the same sender; the wait is bounded by four times that."
    joins: Literal["all", "own"] = "all"
    "Whether one turn answers all that waits, or each message, or burst, gets its own."
    drops_when_busy: bool = False
    "Whether it is refused while a turn runs."
    max_waiting: int | None = None
    "How many messages may wait; None = as many as a session takes."
    overflow: Overflow = "drop_old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """A message on its way into a conversation."""

    text: str
    "May be empty where files come with it."
    key: ConversationKey | None = None
    "The conversation, which goes on in its current session or starts one."
    session_id: str = ""
    "Or exactly this session."
    principal: str = ""
    "Who begins the session, where this is its first message; empty = it belongs to nobody."
    sender: str = ""
    idempotency_key: str = ""
    "The same key in one session is the same message, also after a restart; empty = a new one."
    attachments: tuple[Upload, ...] = ()
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."
    reply_to: str = ""
    "The message on its platform that an answer replies to; empty = none."
    quiet: bool = False
    "It begins no turn: the next one reads it, as one of its messages."
    retry_for_s: int | None = None
    "For how long calls of the model are made again in an outage; None = as the agent has it."
    queueing: Queueing = field(default_factory=Queueing)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmbientMessage:
    """A message of a conversation that did not speak to the agent."""

    text: str
    key: ConversationKey
    sender: str = ""
    idempotency_key: str = ""
    shown: bool = True
    "Whether the next turn is told of it; otherwise the log alone has it."
    untrusted: bool = False
    max_messages: int = 100
    "How many of them are kept for the next turn, the newest; never more than 100."
    max_age_s: int = 86_400
    "The next turn is told of those that are no older than this."


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """Something to be said in a conversation in the agent's name, without a turn."""

    text: str
    key: ConversationKey | None = None
    "The conversation, which goes on in its current session or starts one."
    session_id: str = ""
    "Or exactly this session."
    principal: str = ""
    "Who begins the session, where this is the first of it; empty = it belongs to nobody."
    sender: str = ""
    "Who has it said."
    idempotency_key: str = ""
    "The same key in one session is the same announcement, also after a restart; empty = a new one."
    title: str = ""
    "What the model is told that it comes from, for example the title of a scheduled job."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(Remembering):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    "JSON Schema of the arguments object."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model, without any provider's wire format."""

    model: str
    system: str
    "Empty where the agent has no prompt."
    messages: tuple[AnyMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: Literal["low", "medium", "high"] | None = None
    "How much it should think before it answers; None = as the provider does."
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """The bytes of the attachments that are shown, by `Attachment.name`.

    An attachment of a message whose bytes are not here is told in words: its name and type.
    """
    in_background: bool = False
    "Whether nobody waits for the reply; such a call lets all others go before it."
