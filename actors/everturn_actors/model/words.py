"""Words that values of a conversation are made of, and limits that all of it shares. Pure."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from everturn_actors.codec import Value

Outcome: TypeAlias = Literal["answered", "failed", "cancelled", "interrupted"]


SessionStatus: TypeAlias = Literal["active", "paused", "ended"]


EndReason: TypeAlias = Literal["reset", "expired", "deleted"]


Compaction: TypeAlias = Literal["archive", "discard", "disabled"]


Disposition: TypeAlias = Literal[
    "kept", "shortened", "masked", "cleared", "evicted", "summarised", "dropped"
]
"What becomes of a message on its way into a request."


SummarySource: TypeAlias = Literal["model", "digest", "provider"]


Decision: TypeAlias = Literal["allow_once", "allow_always", "deny", "answer"]
"What a person can say to an approval: `answer` to an `Inquiry`, one of the others to any other."


Resolution: TypeAlias = Literal[
    "allow_once", "allow_always", "deny", "answer", "expired", "overtaken", "withdrawn"
]
"""What became of an approval: a decision, nobody answered in time, a message came first, or who
asked does not want to know any more."""


Joins: TypeAlias = Literal["all", "own", "burst"]
"""Which turn answers a message: one with all that waits; one of its own; or that of the message
before it from the same sender, because the two were written within one debounce window."""


IncomingKind: TypeAlias = Literal["prompt", "ambient", "announcement"]
"What is said to the agent, beside it, or in its name; see `IncomingMessage`."

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


SCHEDULE: Final = "schedule"
"The sender of what scheduled jobs say and ask for."


MEMORY: Final = "memory"
"The sender of what asks an agent for notes, once a conversation is idle."


PROGRAM_SENDERS: Final = frozenset(("background_process", SCHEDULE, MEMORY))
"Senders that are programs of the gateway: they ask nobody and can answer nothing."


OWNER_PREFIX: Final = "owner:"
"Begins the name of an owner of agents where an event tells who did something; no sender has it."


# What every provider that takes images takes alike.
# Sources, read 2026-11-22: https://platform.openai.com/docs/guides/images-vision,
# https://platform.claude.com/docs/en/build-with-claude/vision.
IMAGE_TYPES: Final = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))


class ConversationKey(Value, frozen=True, kw_only=True):
    """Names one conversation: who talks where, with which agent."""

    channel: str
    chat: str
    agent: str
    topic: str = ""


class Labels(Value, frozen=True, kw_only=True):
    """How people sort a session; nothing that is said in it depends on it."""

    title: str = ""
    "Empty = nobody gave it one: its first words stand for it."
    pinned: bool = False
    "Whether it stands above the others in a list."
    archived: bool = False
    "Whether a list leaves it out unless it is asked for."


class Usage(Value, frozen=True, kw_only=True):
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
