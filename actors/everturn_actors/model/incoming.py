"""What callers hand in: messages on their way into a conversation. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from everturn_actors.codec import Value
from everturn_actors.model.options import CallOptions
from everturn_actors.model.words import ConversationKey, IncomingKind, Overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file on its way into a conversation."""

    data: bytes = field(repr=False)
    media_type: str = ""
    "What its sender says it is; empty = what its bytes say."
    file_name: str = ""
    "As its sender calls it: a name, no path."
    is_voice: bool = False
    "Whether it is a voice note, see `Attachment.is_voice`."
    duration_s: float = 0
    "How long it sounds; 0 = nobody says."


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


class AmbientRules(Value, frozen=True, kw_only=True):
    """What the next turn is told of an ambient message."""

    shown: Literal["message", "note", "never"] = "note"
    "As one of its messages; with others in a note before them; or not at all, only the log has it."
    max_messages: int = 100
    "note: how many of them are kept for the next turn, the newest; never more than 100."
    max_age_s: int = 86_400
    "note: the next turn is told of those that are no older than this."


class IncomingMessage(Value, frozen=True, kw_only=True):
    """What is said in a conversation from outside: to the agent, beside it, or in its name.

    A `prompt` speaks to the agent, and a turn answers it. An `ambient` one does not: it begins no
    turn, and the next one is told of it. An `announcement` is said in the agent's name without a
    turn: to the people of the channel, and the next turn is told of it.
    """

    text: str
    "May be empty where files come with it."
    kind: IncomingKind = "prompt"
    key: ConversationKey | None = None
    "The conversation, which goes on in its current session or starts one."
    session_id: str = ""
    "Or exactly this session."
    principal: str = ""
    "Who begins the session, where this is its first message; empty = it belongs to nobody."
    sender: str = ""
    "Who says it, or has it said."
    idempotency_key: str = ""
    "The same key in one session is the same message, also after a restart; empty = a new one."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."
    attachments: tuple[Upload, ...] = ()
    "Of what waits for a turn, see `waits`."
    reply_to: str = ""
    "prompt: the message on its platform that an answer replies to; empty = none."
    retry_for_s: int | None = None
    "prompt: for how long calls of the model are made again in an outage; None = as the agent does."
    options: CallOptions | None = None
    "prompt: what the turn that answers it asks of the model, beside what the agent is."
    queueing: Queueing = msgspec.field(default_factory=Queueing)
    ambient: AmbientRules = msgspec.field(default_factory=AmbientRules)
    title: str = ""
    "announcement: what the model is told that it comes from, such as the title of a job."

    @property
    def waits(self) -> bool:
        """Whether it waits for a turn, which has it as one of its messages."""
        if self.kind == "ambient":
            return self.ambient.shown == "message"
        return self.kind == "prompt"
