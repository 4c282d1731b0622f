"""What callers hand in: messages on their way into a conversation. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from everturn_actors.codec import Value
from everturn_actors.model.options import CallOptions
from everturn_actors.model.words import ConversationKey, Overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file on its way into a conversation."""

    data: bytes = field(repr=False)
    media_type: str = ""
    "What its sender says it is; empty = what its bytes say."
    file_name: str = ""
    "As its sender calls it: a name, no path."


class Queueing(Value, frozen=True, kw_only=True):
    """How a message joins those that wait for a turn."""

    debounce_s: float = 0
    "Its turn waits so long for more of the same sender; the wait is bounded by four times that."
    joins: Literal["all", "own"] = "all"
    "Whether one turn answers all that waits, or each message, or burst, gets its own."
    drops_when_busy: bool = False
    "Whether it is refused while a turn runs."
    max_waiting: int | None = None
    "How many messages may wait; None = as many as a session takes."
    overflow: Overflow = "drop_old"


class IncomingMessage(Value, frozen=True, kw_only=True):
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
    ambient: bool = False
    "It begins no turn: the next one reads it, as one of its messages."
    retry_for_s: int | None = None
    "For how long calls of the model are made again in an outage; None = as the agent has it."
    options: CallOptions | None = None
    "What the turn that answers it asks of the model, beside what the agent is."
    queueing: Queueing = msgspec.field(default_factory=Queueing)


class AmbientMessage(Value, frozen=True, kw_only=True):
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


class Announcement(Value, frozen=True, kw_only=True):
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
