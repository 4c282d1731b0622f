"""A turn: begun, taken on by calls of a model, ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from everturn_actors.events.body import EventBody
from everturn_actors.model import Attachment, Outcome, PromptFingerprint, ToolCall, Usage

OUTAGE_LINE = (
    "The model cannot be reached just now. Your message is kept, and answered as soon as it can be."
)
"What people read, once a turn, when calls go on failing."

_IMAGE_BEGINS = "[image made by the model: "


class TurnStarted(EventBody, frozen=True, kw_only=True):
    """A turn began to answer the received messages it names."""

    turn: int
    received: tuple[int, ...]
    "The seqs of the `Received` events, oldest first."
    window_messages: int
    "The message-count window in force from here on."
    ambient: tuple[int, ...] = ()
    """The seqs of the `AmbientStored` and `Announced` events that it is told of, and of the
    `ChunkMarked` with which something was given up, oldest first."""
    ambient_bytes: int = 0
    "How much of them it is told at most, as UTF-8: the newest; 0 = all."
    delivers: bool = False
    "Whether what is said in it goes to the people of a channel."
    retries: int = 0
    """The turn that failed and whose place it takes; 0 = none. It goes on with that one's messages,
    all of which are `received`, and with its steps: what a tool has done is not done again."""
    idempotency_key: str = ""
    "Of the request to ask again; the same key is the same request."


class StepStarted(EventBody, frozen=True, kw_only=True):
    """A model is about to be called."""

    turn: int
    step: int
    "Counts the steps of a turn from 1."
    model: str


class ModelReplied(EventBody, frozen=True, kw_only=True):
    """The reply to the call of the open step, complete."""

    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: str = "stop"
    model: str = ""
    fingerprint: PromptFingerprint = PromptFingerprint()
    "The request that it answers."
    opaque: str = ""
    "What the provider wants back with it, see `Reply.opaque`."
    fallback: str = ""
    "The model that answered in place of the agent's own, as `provider/name`; empty = its own."
    outside: tuple[str, ...] = ()
    "The text from outside that the request showed, by source; see `outside`."
    retells: bool = False
    "Whether it showed none itself any more, but what the agent wrote while it was shown."
    images: tuple[Attachment, ...] = ()
    "What the model made, and its people are sent; the bytes were kept before."

    @property
    def said(self) -> str:
        """The text as people of a channel read it, who are sent the images themselves."""
        return (
            self.text.removesuffix(images_text(self.images)).rstrip() if self.images else self.text
        )


def without_images(text: str) -> str:
    r"""Return the text of a reply without the lines for its images: as it is spoken.

    >>> without_images("A cat.\n\n[image made by the model: cat.png, image/png, 1 KB]")
    'A cat.'
    """
    lines = text.split("\n")
    return "\n".join(each for each in lines if not each.startswith(_IMAGE_BEGINS)).rstrip()


def images_text(images: Iterable[Attachment]) -> str:
    """Return what the model, and whoever reads words alone, reads of images that it made."""
    return "\n".join(f"{_IMAGE_BEGINS}{each.described}]" for each in images)


class PromptCounted(EventBody, frozen=True, kw_only=True):
    """The provider was asked what the next request of the open step would cost, and said it."""

    turn: int
    tokens: int
    fingerprint: PromptFingerprint
    "Of the request that it counted; the next one is compared with it."


class ReplyBroken(EventBody, frozen=True, kw_only=True):
    """A reply to the call of the open step that cannot be used; the model is called again."""

    turn: int
    step: int
    reason: str
    "What was wrong with it, in words for the model and for people."
    text: str = ""
    "What it said, as far as that could be read."
    usage: Usage = Usage()
    model: str = ""


class ModelCallFailed(EventBody, frozen=True, kw_only=True):
    """The call of the open step failed in a way that may pass; it is made again, and when."""

    turn: int
    step: int
    attempt: int
    "Counts these failures from 1, in a row: a reply ends the row."
    error: str
    "In words without secrets."
    retry_in_ms: int
    "So long after this event the call is made again."
    give_up_in_ms: int
    "So long after this event it is made for the last time; of the first in a row it holds for all."
    tells: bool = False
    "Whether people are told: the first of its turn."

    @property
    def line(self) -> str:
        """What people are told of it; empty where they know."""
        return OUTAGE_LINE if self.tells else ""


class Steered(EventBody, frozen=True, kw_only=True):
    """Messages that came while the turn ran; the model reads them with its next call."""

    turn: int
    received: tuple[int, ...]
    "The seqs of the `Received` events, oldest first."


class TurnFinished(EventBody, frozen=True, kw_only=True):
    """The turn is over; nothing more will be said in it."""

    turn: int
    outcome: Outcome
    error: str = ""
    by: str = ""
    "Who cancelled it, where that is known."
    partial: str = ""
    """What the model had said of the reply that was cut short; people may have read it.

    It is no part of the conversation: later requests do not have it.
    """
