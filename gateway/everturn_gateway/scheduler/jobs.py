"""What a scheduled job is, and what became of its runs. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, time
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from everturn_actors.codec import Count, Timestamp, Value
from everturn_actors.model import ConversationKey

Misfire: TypeAlias = Literal["run_once", "skip", "run_all"]
"""What becomes of runs that could not run in time: the newest runs, none does, or all do.

Whatever the policy, one that is later than the job's grace does not run."""
Where: TypeAlias = Literal["conversation", "isolated"]
"Whether a task runs in the conversation it is for, or in a session of its own."
MadeBy: TypeAlias = Literal["file", "agent", "heartbeat", "tool", "cli", "http"]
"""Who defined a job: a file that somebody wrote, `agent.yaml`, its heartbeat, or one of those that
write a file of their own."""
RunOutcome: TypeAlias = Literal["answered", "sent", "silent", "failed", "cancelled", "misfired"]
"""How a run came out: a task was done, a message is on its way, there was nothing to say,
all tries failed, it was called off, or it was not run at all."""

SENDER: Final = "schedule"
"The sender of what a job says in a conversation."
ISOLATED: Final = "schedule"
"The channel of conversations in which isolated tasks run. No person is there."
WRITTEN: Final = frozenset(("tool", "cli", "http"))
"Who makes jobs whose files Everturn writes, and takes away again."
GRACE_S: Final[dict[Misfire, int]] = {"run_once": 86_400, "run_all": 86_400, "skip": 10}
"How late a run may be and still run, where the job does not say."


class At(msgspec.Struct, frozen=True, kw_only=True):
    """Once."""

    scheduled_at: datetime
    "UTC."


class Every(msgspec.Struct, frozen=True, kw_only=True):
    """Again and again, at whole multiples of `interval_s` after an anchor: runs cause no drift."""

    interval_s: int


class Cron(msgspec.Struct, frozen=True, kw_only=True):
    """By the clock on the wall of a time zone."""

    expression: str
    "Five fields."
    timezone: str
    "Name of an IANA zone."


When: TypeAlias = At | Every | Cron


class QuietHours(msgspec.Struct, frozen=True, kw_only=True):
    """A part of each day in which no run falls."""

    begins: time
    ends: time
    "Not in it any more. Before `begins`, it is of the next day."
    timezone: str
    "Name of an IANA zone."


class SendMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Say a text as it stands; no model is called."""

    text: str


class RunTask(msgspec.Struct, frozen=True, kw_only=True):
    """Give the agent a text to act on, in a turn with its tools; what it answers is the result."""

    text: str
    silent_answer: str = ""
    "An answer that means that there is nothing to say, and is not passed on; empty = none does."


Payload: TypeAlias = SendMessage | RunTask


class ToChat(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation of the job's agent in a chat: its current session, or a new one."""

    channel: str
    chat: str
    topic: str = ""


class ToSession(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly this session; when it has ended, nobody is reached."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToWebhook:
    """An address that takes the result by HTTP."""

    url: str = field(repr=False)
    "It may hold a secret, and is never shown."


Destination: TypeAlias = ToChat | ToSession | ToWebhook


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """What follows a run that failed."""

    most: int = 3
    "Tries after the first one."
    backoff_s: float = 30
    "Before the second try, a fifth more or less; doubled with each, up to an hour."


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Who made a job, and when."""

    by: MadeBy
    at: datetime | None = None
    "UTC; None for what people wrote themselves."
    key: ConversationKey | None = None
    "tool: the conversation in which it was made."
    untrusted: bool = False
    "tool: made in a turn that had read text from outside; its own turns count as if they had, too."
    principal: str = ""
    "Whose job it is, and who pays for its sessions; empty = whoever runs the gateway."


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job as it is defined. Equal definitions are equal values."""

    job_id: str
    "Lower-case letters, digits, `-`, `_` and dots inside; at most 80 of them."
    agent: str
    when: When
    payload: Payload
    to: Destination | None = None
    "None: the result stays in the session of the task."
    where: Where = "conversation"
    "Always `isolated` where `to` names no conversation."
    misfire: Misfire = "run_once"
    grace_s: int = GRACE_S["run_once"]
    jitter_s: int = 0
    "A run runs up to so much later than it is due, always the same for the same one."
    begins_at: datetime | None = None
    "UTC. No run before it; of `Every`, its anchor."
    ends_at: datetime | None = None
    "UTC. No run after it."
    max_runs: int | None = None
    "It is over after so many runs that ran; None = no such limit."
    retries: Retries = field(default_factory=Retries)
    quiet: QuietHours | None = None
    paused: bool = False
    "Its definition says that it does not run."
    process: str = ""
    "The background process it is tied to: it is over when that ends; empty = none."
    label: str = ""
    "What people call it; empty = its id."
    timezone: str = field(default="UTC", compare=False)
    "The zone in which people read its times: that of its cron, or the one it was written for."
    made: Made = field(default_factory=lambda: Made(by="file"))
    file: Path = field(default=Path(), compare=False)
    "Where it stands."
    line: int = field(default=0, compare=False)
    written_at: datetime | None = field(default=None, compare=False)
    "UTC. When its definition was written, as its file tells; None = not known."

    @property
    def is_once(self) -> bool:
        """Whether it has a single run."""
        return isinstance(self.when, At)

    @property
    def title(self) -> str:
        """What it is called in what people read."""
        return self.label or self.job_id


class Run(Value, frozen=True, kw_only=True):
    """One run of a job that was begun, or passed over; (job, instant) is its name."""

    scheduled_at: Timestamp
    "When it was due, UTC."
    started_at: Timestamp
    attempt: Count = 1
    "The newest try, counted from 1."
    by_hand: bool = False
    "Somebody asked for it; it is none of the job's own instants."
    session_id: str = ""
    "Where the newest try runs; empty = nowhere yet, or no session takes part."
    seq: Count = 0
    "The event there that began it; 0 = none yet."
    outcome: RunOutcome | None = None
    "None: it is under way."
    turn: Count = 0
    "The turn that did the task; 0 = none."
    error: str = ""
    "Why it failed, was called off or misfired."
    finished_at: Timestamp | None = None
    misfired: Count = 0
    "misfired: how many runs this stands for; `scheduled_at` is the newest of them."
    first_misfired: Timestamp | None = None
    "misfired: the oldest of them."


class Span(Value, frozen=True, kw_only=True):
    """A stretch of time, and the runs that are due in it."""

    begins: Timestamp
    "UTC; it is no part of the span."
    ends: Timestamp
    "UTC; it is part of it."


class JobState(Value, frozen=True, kw_only=True):
    """What is known of the past of a job; everything else about it is its definition."""

    schedule: str = ""
    "Names the times that the rest is about (`rules.schedule_name`); empty = never armed."
    anchor: Timestamp | None = None
    """UTC. When it was armed with these times, or earlier where the clock was found to be behind
    that: no run is older; `Every` counts from it."""
    armed: Timestamp | None = None
    "UTC. When it was armed, as the clock said then: by one that has come there none is older."
    cursor: Timestamp | None = None
    "UTC. Runs up to here are settled or begun."
    skipped: tuple[Span, ...] = ()
    """Those up to `cursor` that were missed, oldest first; bounded. Where the clock is set back
    before them they are still to come."""
    left_out: tuple[Span, ...] = ()
    "Those that were left out last without being missed: it was paused, or they are older than it."
    resolved: tuple[Span, ...] = ()
    "Those beyond `cursor` that are settled too, oldest first: they ran by a clock that was ahead."
    ran: Count = 0
    "Runs that ran since then, those by hand left out."
    open: tuple[Run, ...] = ()
    "Begun and not finished, oldest first."
    recent: tuple[Run, ...] = ()
    "Finished, oldest first; bounded."
    paused: bool = False
    "Somebody paused it, otherwise than in its definition."
    paused_in_file: bool = False
    "Its definition paused it when it was last looked at."
    cancelled: bool = False
    "Somebody called it off: nothing of it runs any more."

    @property
    def last(self) -> Run | None:
        """The newest run that is finished."""
        return self.recent[-1] if self.recent else None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its state, for whoever asks."""

    job: Job
    state: Literal["scheduled", "running", "paused", "waiting", "done"]
    "waiting: it cannot run now, `why` says what is missing; done: nothing of it is to come."
    why: str = ""
    next_at: datetime | None = None
    "UTC. When it is due next."
    job_state: JobState = msgspec.field(default_factory=JobState)
