"""What is pending for people of a channel, and what became of its chunks. Pure."""

from __future__ import annotations

from everturn_actors.codec import Timestamp, Value
from everturn_actors.model.messages import Attachment
from everturn_actors.model.turns import Inquiry
from everturn_actors.model.words import Mark, OutboxItemKind, Outcome


class Chunk(Value, frozen=True, kw_only=True):
    """One message that a platform is to show."""

    payload: str
    "In the words of its channel, which alone reads it."
    mark: Mark = "planned"
    tries: int = 0
    "How often it is not known whether it was sent."
    platform_id: str = ""
    "What the platform calls it, once it is there."

    @property
    def is_done(self) -> bool:
        """Whether nothing more is tried."""
        return self.mark in {"sent", "failed", "given_up", "closed"}


class OutboxItem(Value, frozen=True, kw_only=True):
    """What is pending for the people of a conversation, and how much of it reached them."""

    seq: int
    "The event that it follows from; with the session, its name."
    turn: int
    kind: OutboxItemKind
    pending_since: Timestamp | None = None
    "UTC. Since when it is pending; undelivered: the oldest of what it tells of. None = not known."
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    call_id: str = ""
    "approval: the call."
    inquiry: Inquiry | None = None
    "approval: what the agent wants to know, where it is a question of that kind."
    reply_to: str = ""
    "The message on the platform that it replies to; empty = none."
    preview: str = ""
    "What the platform calls the message that showed this reply as it came; empty = none did."
    preview_step: int = 0
    "The step whose reply it is, where nobody knows whether a message showed it; 0 = it is known."
    outcome: Outcome = "answered"
    "end: how the turn ended."
    chunks: tuple[Chunk, ...] | None = None
    "None until it is rendered."

    @property
    def is_delivered(self) -> bool:
        """Whether nothing of it is left to be sent."""
        return self.chunks is not None and all(chunk.is_done for chunk in self.chunks)
