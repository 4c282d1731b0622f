"""What can happen to a session, by subject. Pure values; the log is a list of them."""

from everturn_actors.events.calls import (
    ApprovalAsked,
    ApprovalDecided,
    CallFinished,
    CallsAnswered,
    CallsHandedOver,
    CallStarted,
)
from everturn_actors.events.deliveries import ChunkMarked, DeliveryPlanned, PreviewSent
from everturn_actors.events.event import Body, Event
from everturn_actors.events.messages import (
    Announced,
    Branched,
    Discarded,
    Edited,
    Labelled,
    Received,
    SessionEnded,
    SessionShared,
    SessionStarted,
    SilentMessage,
    StatusChanged,
)
from everturn_actors.events.reductions import EMERGENCY, OVERFLOW_LINE, ContextReduced, Summarised
from everturn_actors.events.turns import (
    OUTAGE_LINE,
    ModelCallFailed,
    ModelReplied,
    ReplyBroken,
    Steered,
    StepStarted,
    TurnFinished,
    TurnStarted,
)

__all__ = [
    "EMERGENCY",
    "OUTAGE_LINE",
    "OVERFLOW_LINE",
    "Announced",
    "ApprovalAsked",
    "ApprovalDecided",
    "Body",
    "Branched",
    "CallFinished",
    "CallStarted",
    "CallsAnswered",
    "CallsHandedOver",
    "ChunkMarked",
    "ContextReduced",
    "DeliveryPlanned",
    "Discarded",
    "Edited",
    "Event",
    "Labelled",
    "ModelCallFailed",
    "ModelReplied",
    "PreviewSent",
    "Received",
    "ReplyBroken",
    "SessionEnded",
    "SessionShared",
    "SessionStarted",
    "SilentMessage",
    "StatusChanged",
    "Steered",
    "StepStarted",
    "Summarised",
    "TurnFinished",
    "TurnStarted",
]
