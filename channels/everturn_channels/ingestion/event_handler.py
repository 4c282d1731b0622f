"""One event between a platform and the handler of its channel: read, handed in, confirmed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import datetime
from typing import Final

import anyio
from msgspec import Struct

from everturn_channels.adapter import ChatMoved, Command, InboundEvent, InboundHandler
from everturn_channels.command_registry import PASSING
from everturn_channels.errors import ConnectionLostError, NotNowError
from everturn_channels.ingestion.events import PlatformEvent
from everturn_channels.rate_limits import RecentKeys

logger = logging.getLogger(__name__)

AT_ONCE: Final = 100  # events that are handed in at a time, each of another chat
TAKEN_KNOWN: Final = 5_000  # events that are known again when they come a second time


class Queued(Struct, eq=False):
    """An event that waits in the queue of its chat, and how far it is."""

    event: PlatformEvent
    meaning: Sequence[InboundEvent | ChatMoved] | None = None
    "None = it was not read yet."
    handled: int = 0
    "So many of those are durable."
    is_taken: bool = False
    is_blocked: bool = False
    "Whether its platform could not be asked what it means."
    is_looked_at: bool = False
    "Whether it was looked at whether it may pass those before it."
    ready_at: datetime | None = None
    "Until then what was written before it may still come; None = nothing is awaited."
    passing: anyio.Event | None = None
    "Set when that is over."


class EventHandler:
    """Hands single events to the handler of a channel; what fails with one stops no other."""

    def __init__(self, handler: InboundHandler) -> None:
        self._handler = handler
        self._at_once = anyio.CapacityLimiter(AT_ONCE)
        self._taken: RecentKeys[Hashable] = RecentKeys(TAKEN_KNOWN)

    async def take(self, queued: Queued) -> None:
        """Read an event, hand it in and confirm it; return when all of that is done.

        Raises:
            NotNowError: It cannot be taken, or read, now.
        """
        event = queued.event
        if event.id is None or event.id not in self._taken:
            for each in (await self.read(queued))[queued.handled :]:
                await self._hand_in(event, each)
                queued.handled += 1
            if event.id is not None:
                self._taken.note(event.id)
        queued.is_taken = True
        await self.notify(event, event.confirm)

    async def take_if_passing(self, queued: Queued) -> None:
        """Take an event before those that came before it, if it is a command that may pass them."""
        queued.is_looked_at, queued.passing = True, anyio.Event()
        try:
            match await self.read(queued):
                case [Command(name=name)] if name in PASSING:
                    await self.take(queued)
                case _:
                    pass
        except NotNowError:
            pass  # its queue comes to it, too
        finally:
            queued.passing.set()

    async def notify(self, event: PlatformEvent, told: Callable[[], Awaitable[None]]) -> None:
        """Tell the platform what became of an event, or keep a cursor: `told` does it.

        Where that fails the event may come again, and is known then.
        """
        try:
            await told()
        except Exception:
            fields = {"chat": event.chat, "kind": event.kind}
            logger.warning("an event could not be confirmed", extra=fields, exc_info=True)

    async def read(self, queued: Queued) -> Sequence[InboundEvent | ChatMoved]:
        """Return what an event means; nothing for one that cannot be read, which is told of.

        Raises:
            NotNowError: The platform has to be asked for that, and cannot be reached.
        """
        if queued.meaning is None:
            event = queued.event
            try:
                queued.meaning = await event.read() if event.read else event.events
                if queued.is_blocked:
                    self._handler.unblocked(event.chat)
            except ConnectionLostError as error:
                queued.is_blocked = True
                wait_s = self._handler.blocked(event.chat, str(error))
                raise NotNowError(str(error), retry_after_s=wait_s) from error
            except Exception as error:  # the boundary around one event
                self._handler.unreadable(event.kind, error, event.awaited_at)
                queued.meaning = ()
        return queued.meaning

    async def _hand_in(self, event: PlatformEvent, each: InboundEvent | ChatMoved) -> None:
        try:
            if isinstance(each, ChatMoved):
                await self._handler.moved(each.old, each.new)
            else:
                async with self._at_once:
                    await self._handler.handle(each)
        except NotNowError:
            raise
        except Exception as error:  # the boundary around one event
            self._handler.unreadable(event.kind, error)
