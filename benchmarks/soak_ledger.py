"""What the soak knows by itself: every message sent, every fault made, every answer seen.

Nothing here comes from the gateway's own files: the audit holds those against this book.

A message carries a marker, `mk000042z`, and words that tell the model what to do with it. The
reply repeats the marker before and behind each of its parts: `mk000042z-1of3 ... mk000042z-1end`.
So every piece of text on a platform says which message it answers, and whether it is whole.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

import anyio

from everturn_gateway.clock import SystemClock

Kind: TypeAlias = Literal[
    "telegram chat",
    "telegram group",
    "discord dm",
    "discord channel",
    "http waiting",
    "http async",
    "http stream",
    "openai",
    "everturn run",
]
Phase: TypeAlias = Literal["warm-up", "faults", "calm", "rest"]

MARKER: Final = re.compile(r"mk\d{6}z")
TOKEN: Final = re.compile(r"mk\d{6}z-(?:\d+of\d+|\d+end)")
ASKED: Final = re.compile(r"(mk\d{6}z) parts (\d+) of (\d+) (tool|slow|plain)")
LABEL: Final = "(This may be a repeat.)"
WITNESS: Final = "witness"
"The file, in the agent's workspace, to which the tool appends the marker that it was called for."
AGENT: Final = "soak"
FILLER: Final = "so it goes on and on "
CLOCK: Final = SystemClock()


@dataclass(slots=True, kw_only=True)
class Message:
    """One message, and what its sender saw of it."""

    marker: str
    kind: Kind
    chat: str
    "What the gateway's log calls the conversation; empty where its sender does not know."
    text: str
    parts: int
    uses_tool: bool
    phase: Phase
    sent_s: float
    "On the driver's monotonic clock."
    is_certain: bool = True
    "Whether its sender saw to it that it is taken; a command that failed leaves that open."
    answered_s: float | None = None
    answers: list[str] = field(default_factory=list[str])
    "What its sender was told by HTTP, or by a command; chats are read from the platform."
    answered: anyio.Event = field(default_factory=anyio.Event)

    @property
    def tokens(self) -> list[str]:
        """What a whole reply shows of it, in order."""
        return [token for n in range(self.parts) for token in part_tokens(self.marker, n, self)]

    def note_answer(self, *texts: str) -> None:
        """Note that the answer is there."""
        self.answers += texts
        if self.answered_s is None:
            self.answered_s = anyio.current_time()
        self.answered.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at the process."""

    at_s: float
    life: int
    phase: Phase
    rss_mb: float
    fds: int
    threads: int


@dataclass(slots=True, kw_only=True)
class Life:
    """One process of the gateway."""

    number: int
    began_at: datetime
    ready_s: float | None = None
    "From its start until it listened."
    end: str = ""
    ended_at: datetime | None = None


@dataclass(slots=True)
class Ledger:
    """Everything that is noted; one for a run."""

    dice: random.Random
    phase: Phase = "warm-up"
    messages: dict[str, Message] = field(default_factory=dict[str, Message])
    faults: Counter[str] = field(default_factory=Counter[str])
    lost_answers: list[tuple[datetime, str]] = field(default_factory=list[tuple[datetime, str]])
    "Answers of a platform to a message to people that never reached the gateway: when, which chat."
    shown_at: dict[tuple[str, str], datetime] = field(
        default_factory=dict[tuple[str, str], datetime]
    )
    "When a platform took a message of the bot, by platform and its own number."
    lives: list[Life] = field(default_factory=list[Life])
    samples: list[Sample] = field(default_factory=list[Sample])
    rests: list[Sample] = field(default_factory=list[Sample])
    "The process when all had come to rest: after the first half of the calm phase, and the second."
    is_paused: bool = False
    "Nobody writes for a while."
    problems: list[str] = field(default_factory=list[str])
    "What a client or a command should not have seen."
    jobs: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    "Scheduled jobs: channel and chat by their id."

    def message(self, kind: Kind, chat: str, *, long_part: int = 0, prefix: str = "") -> Message:
        """Make up the next message of a conversation.

        Args:
            kind: How it is sent.
            chat: Of which conversation.
            long_part: How many characters fill a message of the platform; 0 = no long replies.
            prefix: What the text begins with.
        """
        marker = f"mk{len(self.messages):06d}z"
        does = self.dice.choices(("plain", "tool", "slow"), (80, 10, 10))[0]
        is_long = bool(long_part) and self.dice.random() < 0.12
        parts = self.dice.randint(2, 4) if is_long else 1
        size = long_part if is_long else 20
        text = f"{prefix}{marker} parts {parts} of {size} {does}"
        made = Message(
            marker=marker,
            kind=kind,
            chat=chat,
            text=text,
            parts=parts,
            uses_tool=does == "tool",
            phase=self.phase,
            sent_s=anyio.current_time(),
        )
        self.messages[marker] = made
        return made

    def strikes(self, share: float) -> bool:
        """Whether a fault is to happen now."""
        return self.phase == "faults" and self.dice.random() < share

    def note_shown(self, text: str) -> None:
        """Note what a platform shows: the last part of a reply answers its message."""
        for token in TOKEN.findall(text):
            marker, _, part = token.partition("-")
            message = self.messages.get(marker)
            if message is not None and part == f"{message.parts}end":
                message.note_answer()


def part_tokens(marker: str, number: int, message: Message) -> tuple[str, str]:
    """Return what stands before and behind a part, which is counted from 0."""
    return f"{marker}-{number + 1}of{message.parts}", f"{marker}-{number + 1}end"


def reply_to(asked: list[tuple[str, str, str, str]]) -> str:
    """Return the model's reply to messages, as `ASKED` finds them."""
    parts: list[str] = []
    for marker, count, size, _does in asked:
        for number in range(1, int(count) + 1):
            filler = (FILLER * (int(size) // len(FILLER) + 1))[: int(size)].strip()
            parts.append(f"{marker}-{number}of{count} {filler} {marker}-{number}end")
    return "\n\n".join(parts)
