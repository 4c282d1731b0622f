"""What can happen to a session, by subject. Pure values; the log is a list of them.

- `body`: what all events share
- `calls`: calls of tools
- `deliveries`: what was done to tell people
- `event`: one line of a log
- `messages`: what is said in a session, and to whom it belongs
- `notes`: what is put before the model besides what is said: notes, quotes, pinned messages
- `reductions`: what is hidden from the model
- `turns`: a turn: begun, taken on by calls of a model, ended
- `voice`: what is heard of people who speak, and said to them
"""

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
from everturn_actors.events.reductions import EMERGENCY, OVERFLOW_LINE, ContextReduced, Summarised
from everturn_actors.events.turns import (
    OUTAGE_LINE,
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

__all__ = [
    "EMERGENCY",
    "OUTAGE_LINE",
    "OVERFLOW_LINE",
    "AmbientStored",
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
    "ModelChosen",
    "ModelReplied",
    "NotesShown",
    "OlderQuoted",
    "Pinned",
    "PreviewSent",
    "PromptCounted",
    "Received",
    "ReplyBroken",
    "SessionEnded",
    "SessionShared",
    "SessionStarted",
    "Spoken",
    "StatusChanged",
    "Steered",
    "StepStarted",
    "Summarised",
    "Transcribed",
    "TurnFinished",
    "TurnStarted",
    "Unpinned",
]
