"""What an adapter hands over: something that came from its platform, not read yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from everturn_channels.adapter import ChatMoved, ChatRef, InboundEvent

ReadEvents: TypeAlias = Callable[[], Awaitable[Sequence[InboundEvent | ChatMoved]]]


async def nothing() -> None:
    """Do nothing."""


class PlatformEvent(Struct, frozen=True, kw_only=True, eq=False):
    """Something that came from a platform, with what has to happen once it is taken."""

    chat: str
    "Its place in the order: the events of a chat are taken one after the other."
    events: Sequence[InboundEvent | ChatMoved] = ()
    "What it means; none = it concerns nobody, or `read` says it."
    read: ReadEvents | None = None
    """Says what it means, once, when its turn comes, where that is not known yet.

    ConnectionLostError: that cannot be known now, and is asked again. Whatever else it raises: it
    cannot be read, and is passed over.
    """
    is_in_order: bool = False
    """Whether `read` waits for all before it in its chat, whatever holds them up.

    It does something to what they brought: a deletion. Others are looked at beside their queue,
    since a command may pass those before it.
    """
    at: int = 0
    """When it was written, in seconds since 1970, where the platform delivers in no order.

    `ChatQueues.reordering` goes by it. 0 = nobody knows: it stands where it came.
    """
    id: Hashable = None
    "Tells it from all others: what comes again is not taken again. None = it cannot be told."
    kind: str = "event"
    "What the platform calls its kind, for the log: `MESSAGE_CREATE`."
    awaited_at: ChatRef | None = None
    "Where somebody waits for an answer to it, if it cannot be read; None = nowhere."
    confirm: Callable[[], Awaitable[None]] = nothing
    "Called as soon as it is durable, or settled that it never will be: acknowledge it here."
    advance: Callable[[], Awaitable[None]] = nothing
    "Called when all before it in its chat is durable, too: move a cursor of the chat here."
    send_back: Callable[[float], Awaitable[None]] | None = None
    """Called instead of `confirm` while it cannot be taken, with the seconds to wait.

    The platform keeps it and brings it again. None = it stays in its queue and is tried again.
    """
    position: int = 0
    "The platform's number of it, where it can be sent back: those after it wait until it is again."
    gap: Gap | None = None
    "Where it can be read again if its queue is full; None = nowhere."


class Backfill(Struct, frozen=True, kw_only=True):
    """What was written in a gap."""

    events: Sequence[PlatformEvent] = ()
    "Those to be taken, oldest first."
    chat: ChatRef | None = None
    "Where people are told what was left out; None = nowhere."
    skipped: Sequence[tuple[int, str]] = ()
    "How many were left out, and why."


class Gap(Struct, frozen=True, kw_only=True, eq=False):
    """A stretch of a chat's history that was missed, and has to be read before what follows it."""

    chat: str
    read: Callable[[], Awaitable[Backfill]]
    "Reads it. ConnectionLostError: not now; it is asked again, and the chat waits."
    key: Hashable = field(default_factory=object)
    "What of the chat it covers: while it waits, events that name a gap of this key need not."
