"""What is said in a session, and to whom it belongs. Pure."""

from __future__ import annotations

from everturn_actors.events.body import EventBody
from everturn_actors.model import (
    Attachment,
    CallOptions,
    ChosenModel,
    ConversationKey,
    EndReason,
    Joins,
    Labels,
    SessionStatus,
)


class SessionStarted(EventBody, frozen=True, kw_only=True):
    """The first event of every session."""

    session_id: str
    key: ConversationKey
    instructions: str = ""
    "Instructions that the caller gave for this session alone."
    seen: tuple[str, ...] = ()
    "Idempotency keys of the conversation's session before this one: their messages are not new."
    principal: str = ""
    "Who began it, and pays for it; empty = a chat channel, or whoever runs the gateway."
    branch_of: str = ""
    "The session with a part of which it begins; not all of that is here before `Branched`."


class Branched(EventBody, frozen=True, kw_only=True):
    """The session began with a part of another one, all of which is here; its own life begins."""

    of: str
    "The session that it comes from."
    at_seq: int
    "The last event of that one that is a part of this one."
    by: str = ""
    "Who did it."


class SessionShared(EventBody, frozen=True, kw_only=True):
    """Somebody was given the session to see and to talk in, or it was taken back."""

    principal: str
    "Who is given it."
    by: str = ""
    "Who gives it."
    is_withdrawn: bool = False
    "Whether it is taken back."


class Labelled(EventBody, frozen=True, kw_only=True):
    """Somebody gave the session a title, pinned or archived it, or took that back."""

    labels: Labels
    "All of them, as they are from now on."
    by: str = ""
    "Who did it."


class ModelChosen(EventBody, frozen=True, kw_only=True):
    """Another model answers from the next turn on."""

    model: ChosenModel | None
    "None = the agent's own again."
    by: str = ""
    "Who chose it."


class Received(EventBody, frozen=True, kw_only=True):
    """A message was accepted; it waits for its turn."""

    text: str
    sender: str = ""
    idempotency_key: str = ""
    attachments: tuple[Attachment, ...] = ()
    "Files that came with it; their bytes were kept with the session before."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."
    reply_to: str = ""
    "The message on its platform that an answer replies to; empty = none."
    joins: Joins = "all"
    "Which turn answers it."
    ambient: bool = False
    "Whether it begins no turn: the next one reads it."
    retry_for_s: int = -1
    "For how long its sender wants calls made again in an outage; -1 = as the agent has it."
    options: CallOptions | None = None
    "What the turn that answers it asks of the model."


class AmbientStored(EventBody, frozen=True, kw_only=True):
    """A message that did not speak to the agent was kept."""

    text: str
    sender: str = ""
    idempotency_key: str = ""
    shown: bool = True
    "Whether the next turn is told of it; otherwise it stands here alone."
    untrusted: bool = False
    "Whether nobody vouches for it."
    max_messages: int = 100
    "The next turn is told of so many such messages, the newest."
    max_age_s: int = 86_400
    "And of this one only if it begins so soon."


class Announced(EventBody, frozen=True, kw_only=True):
    """Something was said in the agent's name, without a turn; the next one is told of it."""

    text: str
    sender: str = ""
    "Who had it said."
    idempotency_key: str = ""
    title: str = ""
    "What the model is told that it comes from."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."
    delivers: bool = False
    "Whether it goes to the people of a channel."


class Edited(EventBody, frozen=True, kw_only=True):
    """Its writer changed a message that still waited."""

    received: int
    "The seq of the `Received` event."
    text: str


class Discarded(EventBody, frozen=True, kw_only=True):
    """Messages that waited are not answered."""

    received: tuple[int, ...]
    "The seqs of their `Received` events, oldest first; or of the one `AmbientStored`."
    reason: str
    "In words."


class StatusChanged(EventBody, frozen=True, kw_only=True):
    """The session was paused, or goes on."""

    status: SessionStatus


class SessionEnded(EventBody, frozen=True, kw_only=True):
    """The end of a session: nothing follows but how people sort it, see `Labelled`."""

    reason: EndReason
    by: str = ""
    "Who ended it, where that is known."
