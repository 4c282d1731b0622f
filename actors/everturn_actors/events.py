"""What is written to `events.jsonl`: one value a line, numbered without holes. Pure.

The log is the truth: state is only what a replay of these events gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from everturn_actors.model import (
    ConversationKey,
    EndReason,
    Outcome,
    SessionStatus,
    ToolCall,
    Usage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """The first event of every session."""

    session_id: str
    key: ConversationKey
    instructions: str = ""
    "Instructions that the caller gave for this session alone."


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message was accepted; it waits for its turn."""

    text: str
    sender: str = ""
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """A turn began to answer the received messages it names."""

    turn: int
    received: tuple[int, ...]
    "The seqs of the `Received` events, oldest first."
    window_messages: int
    "The message-count window in force from here on."


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished:
    """The turn is over; nothing more will be said in it."""

    turn: int
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChanged:
    """The session was paused, or goes on."""

    status: SessionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """The last event of a session."""

    reason: EndReason


Body: TypeAlias = (
    SessionStarted
    | Received
    | TurnStarted
    | StepStarted
    | ModelReplied
    | CallStarted
    | CallFinished
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
