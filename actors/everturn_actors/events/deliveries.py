"""What was done to tell people. Pure."""

from __future__ import annotations

from everturn_actors.events.body import EventBody
from everturn_actors.model import Mark, PreviewMark


class PreviewSent(EventBody, frozen=True, kw_only=True):
    """A message that shows the text of a step as it comes is about to be sent, or was.

    Where the reply was complete before the platform had answered, it still takes its place.
    """

    turn: int
    step: int
    platform_id: str = ""
    "What the platform calls it, once it is sent; the reply takes its place."
    mark: PreviewMark = "sent"


class DeliveryPlanned(EventBody, frozen=True, kw_only=True):
    """What is pending for the people of a conversation was rendered."""

    item: int
    "The seq of the event that it follows from."
    chunks: tuple[str, ...]
    "In the words of the channel, in the order in which they are sent; empty = nothing to send."


class ChunkMarked(EventBody, frozen=True, kw_only=True):
    """One chunk is about to be sent, or it is known what became of it."""

    item: int
    chunk: int
    "Counts from 0."
    mark: Mark
    platform_id: str = ""
    error: str = ""
    "Why it was not sent, or is not known to be."
