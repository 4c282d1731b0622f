"""The order of what comes: one lane for each chat, one thing of it after the other.

Lanes are bounded, and held until it is known what was missed. Commands that something slow (a file)
would hold up are taken beside their lane.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import anyio
import discord
from anyio.abc import TaskGroup

from everturn_channels.adapter import InboundEvent
from everturn_channels.discord.mapping import chat_ref_of
from everturn_channels.discord.payloads import Heard
from everturn_channels.errors import NotNowError

LANE_LIMIT: Final = 500
"What waits in one chat."
PATIENCE_S: Final = 0.5
"So long a command waits in its lane before it is taken beside it."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Said:
    """A message."""

    heard: Heard


@dataclass(frozen=True, slots=True)
class Passed:
    """A message that cannot be read."""

    channel_id: int
    message_id: int


@dataclass(frozen=True, slots=True)
class Changed:
    """An edit."""

    message: discord.Message


@dataclass(frozen=True, slots=True)
class Given:
    """A command or a click, and what is called when it was taken."""

    event: InboundEvent
    then: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Missed:
    """What was said in a channel while nobody listened."""

    channel_id: int
    after: int
    "The last message that is known; all before it stands in the lane already, or was taken."


Item: TypeAlias = Said | Changed | Given | Missed | Passed


@dataclass(slots=True)
class _Lane:
    items: deque[Item] = field(default_factory=deque[Item])
    missed: set[int] = field(default_factory=set[int])
    "Channels whose history is about to be read: what is said there need not wait in memory."


class Dealer(Protocol):
    """Does what an item says."""

    async def deal(self, chat: str, item: Item) -> None:
        """Deal with the first item of a lane.

        Raises:
            NotNowError: The gateway stops.
        """
        ...

    async def pass_by(self, said: Said) -> None:
        """Take a message that still waits in its lane, if it is a command that may pass others.

        Raises:
            NotNowError: The gateway stops.
        """
        ...

    def failed(self, item: Item, fault: Exception) -> None:
        """Tell of an item that could not be dealt with."""
        ...


class Lanes:
    """The lanes of one login."""

    def __init__(self, dealer: Dealer, tasks: TaskGroup) -> None:
        """Begin held: nothing is dealt with before `release`."""
        self._dealer, self._tasks = dealer, tasks
        self._lanes: dict[str, _Lane] = {}
        self._released = anyio.Event()
        self._is_stopping = False

    @property
    def is_released(self) -> bool:
        """Whether what waits is dealt with."""
        return self._released.is_set()

    def hold(self) -> None:
        """Deal with nothing more until it is known what was missed."""
        if self._released.is_set():
            self._released = anyio.Event()

    def release(self) -> None:
        """Deal with what waits."""
        self._released.set()

    def put(self, message: discord.Message, item: Said | Changed) -> None:
        """Put a message into the lane of its chat; what has no room is read from its history."""
        chat, channel_id = chat_ref_of(message.channel).id, message.channel.id
        lane = self._lanes.get(chat)
        if lane is not None and channel_id in lane.missed:
            return  # its history is read later than now
        if self.add(chat, item) or isinstance(item, Changed):
            return
        log.warning("too much waits in a chat; the rest is read from its history later")
        lane = self._lanes[chat]
        lane.missed.add(channel_id)
        lane.items.append(Missed(channel_id, message.id - 1))

    def add(self, chat: str, item: Item) -> bool:
        """Put something at the end of a lane; return whether there was room."""
        if self._is_stopping:
            return True  # nothing is confirmed any more
        lane = self._lane(chat)
        if len(lane.items) >= LANE_LIMIT:
            return False
        lane.items.append(item)
        return True

    def miss(self, chat: str, channel_id: int, after: int) -> None:
        """Read the history of a channel before all else of its lane."""
        lane = self._lane(chat)
        lane.items.appendleft(Missed(channel_id, after))

    def hurry(self, chat: str, item: Said | Given) -> None:
        """See to it that a command does not wait long in its lane."""
        lane = self._lanes.get(chat)
        if lane is not None:
            self._tasks.start_soon(self._take_beside, chat, lane, item)

    def _lane(self, chat: str) -> _Lane:
        lane = self._lanes.get(chat)
        if lane is None:
            lane = self._lanes[chat] = _Lane()
            self._tasks.start_soon(self._work, chat, lane, name=f"discord:{chat}")
        return lane

    async def _work(self, chat: str, lane: _Lane) -> None:
        """Deal with what waits in a lane, until it is empty."""
        try:
            while lane.items and not self._is_stopping:
                await self._released.wait()
                await self._deal_or_pass(chat, lane, lane.items.popleft())
        except NotNowError:
            self._is_stopping = True
        finally:
            self._lanes.pop(chat, None)

    async def _deal_or_pass(self, chat: str, lane: _Lane, item: Item) -> None:
        """Deal with an item, or pass over it: what fails with one must stop no other.

        Raises:
            NotNowError: The gateway stops.
        """
        try:
            if isinstance(item, Missed):
                lane.missed.discard(item.channel_id)
            await self._dealer.deal(chat, item)
        except NotNowError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary around one event
            self._dealer.failed(item, error)

    async def _take_beside(self, chat: str, lane: _Lane, item: Said | Given) -> None:
        """Take a command that still waits in its lane after a moment."""
        await self._released.wait()
        await anyio.sleep(PATIENCE_S)
        if item not in lane.items or self._is_stopping:
            return
        try:
            if isinstance(item, Said):  # its place stays: there the cursor moves
                await self._dealer.pass_by(item)
            else:
                lane.items.remove(item)
                await self._deal_or_pass(chat, lane, item)
        except NotNowError:
            self._is_stopping = True
