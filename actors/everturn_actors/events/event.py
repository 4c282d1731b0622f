"""One line of a log. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from everturn_actors.codec import Value
from everturn_actors.events.calls import (
    ApprovalAsked,
    ApprovalDecided,
    CallFinished,
    CallsAnswered,
    CallsHandedOver,
    CallStarted,
)
from everturn_actors.events.deliveries import ChunkMarked, DeliveryPlanned, PreviewSent
from everturn_actors.events.messages import (
    AmbientStored,
    Announced,
    Branched,
    Discarded,
    Edited,
    Labelled,
    ModelChosen,
    Received,
    SessionEnded,
    SessionShared,
    SessionStarted,
    StatusChanged,
)
from everturn_actors.events.notes import NotesShown, OlderQuoted, Pinned, Unpinned
from everturn_actors.events.reductions import ContextReduced, Summarised
from everturn_actors.events.turns import (
    ModelCallFailed,
    ModelReplied,
    PromptCounted,
    ReplyBroken,
    Steered,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.events.voice import Spoken, Transcribed

Body: TypeAlias = (
    SessionStarted
    | Branched
    | SessionShared
    | Labelled
    | ModelChosen
    | Received
    | AmbientStored
    | Announced
    | Edited
    | Discarded
    | TurnStarted
    | StepStarted
    | ModelReplied
    | PromptCounted
    | ReplyBroken
    | ModelCallFailed
    | Steered
    | ApprovalAsked
    | ApprovalDecided
    | CallsHandedOver
    | CallsAnswered
    | CallStarted
    | CallFinished
    | PreviewSent
    | DeliveryPlanned
    | ChunkMarked
    | ContextReduced
    | Summarised
    | NotesShown
    | OlderQuoted
    | Pinned
    | Unpinned
    | Transcribed
    | Spoken
    | TurnFinished
    | StatusChanged
    | SessionEnded
)


class Event(Value, frozen=True, kw_only=True):
    """One line of the log."""

    seq: int
    "From 1, without holes."
    at: datetime
    "UTC, aware, microseconds."
    body: Body
