"""The values a conversation is made of, by subject. Pure: no IO, no clock.

- `conversation`: what the model is shown: the conversation, what is hidden from it, and the request
- `incoming`: what callers hand in: messages on their way into a conversation
- `messages`: messages: what people, models and tools say, once it is durable
- `options`: what a caller asks of the model for its own turn, beside what the agent is
- `outbox`: what is pending for people of a channel, and what became of its chunks
- `remembering`: values that carry what was derived from them
- `turns`: turns and their steps, finished and open
- `words`: words that values of a conversation are made of, and limits that all of it shares
"""

from everturn_actors.model.conversation import (
    ChosenModel,
    Conversation,
    ModelRequest,
    Pin,
    PromptFingerprint,
    Reductions,
    Replaced,
    ShownNotes,
    Summary,
)
from everturn_actors.model.incoming import (
    AmbientRules,
    IncomingMessage,
    Queueing,
    Upload,
)
from everturn_actors.model.messages import (
    AnyMessage,
    Attachment,
    Message,
    Notice,
    PendingAmbient,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from everturn_actors.model.options import DEFAULT_OPTIONS, CallOptions, ToolDefinition
from everturn_actors.model.outbox import Chunk, OutboxItem
from everturn_actors.model.remembering import Remembering, remember
from everturn_actors.model.turns import (
    Approval,
    CallAnswer,
    FileDigest,
    Inquiry,
    OpenStep,
    OpenTurn,
    Outage,
    Steering,
    Step,
    Turn,
)
from everturn_actors.model.words import (
    IMAGE_TYPES,
    MEMORY,
    OWNER_PREFIX,
    PROGRAM_SENDERS,
    SCHEDULE,
    Compaction,
    ConversationKey,
    Decision,
    Disposition,
    EndReason,
    IncomingKind,
    Joins,
    Labels,
    Mark,
    OutboxItemKind,
    Outcome,
    Overflow,
    PreviewMark,
    Resolution,
    SessionStatus,
    SummarySource,
    Usage,
)

__all__ = [
    "DEFAULT_OPTIONS",
    "IMAGE_TYPES",
    "MEMORY",
    "OWNER_PREFIX",
    "PROGRAM_SENDERS",
    "SCHEDULE",
    "AmbientRules",
    "AnyMessage",
    "Approval",
    "Attachment",
    "CallAnswer",
    "CallOptions",
    "ChosenModel",
    "Chunk",
    "Compaction",
    "Conversation",
    "ConversationKey",
    "Decision",
    "Disposition",
    "EndReason",
    "FileDigest",
    "IncomingKind",
    "IncomingMessage",
    "Inquiry",
    "Joins",
    "Labels",
    "Mark",
    "Message",
    "ModelRequest",
    "Notice",
    "OpenStep",
    "OpenTurn",
    "Outage",
    "OutboxItem",
    "OutboxItemKind",
    "Outcome",
    "Overflow",
    "PendingAmbient",
    "Pin",
    "PreviewMark",
    "PromptFingerprint",
    "Queueing",
    "Reductions",
    "Remembering",
    "Replaced",
    "Reply",
    "Resolution",
    "SessionStatus",
    "ShownNotes",
    "Steering",
    "Step",
    "Summary",
    "SummarySource",
    "ToolCall",
    "ToolDefinition",
    "ToolResult",
    "Turn",
    "Upload",
    "Usage",
    "UserMessage",
    "remember",
]
