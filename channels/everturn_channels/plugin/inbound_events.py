"""Hands in what a plug-in received: in order for each chat, chats beside each other, bounded."""

from __future__ import annotations

import logging
from collections import deque
from datetime import datetime, timedelta

import anyio
import anyio.abc

from everturn_actors.ports import Clock
from everturn_channels.adapter import InboundHandler
from everturn_channels.errors import NotNowError
from everturn_channels.plugin.connection import Connection
from everturn_channels.plugin.protocol import WINDOW, Arrived, NotTaken, Taken

logger = logging.getLogger(__name__)


class InboundEvents:
    """What a plug-in has handed in and was not told to be safe yet."""

    def __init__(
        self,
        connection: Connection,
        handler: InboundHandler,
        clock: Clock,
        tasks: anyio.abc.TaskGroup,
        channel: str,
    ) -> None:
        self._connection, self._handler, self._clock = connection, handler, clock
        self._tasks, self._channel = tasks, channel
        self._room = anyio.Semaphore(WINDOW)
        self._chats: dict[str, deque[Arrived]] = {}
        self._held: dict[str, datetime] = {}
        "Until when the events of a chat are sent back, so that none overtakes one that was."

    async def put(self, arrived: Arrived) -> None:
        """Take an event over; wait while too many are unconfirmed."""
        await self._room.acquire()
        chat = arrived.event.chat.id
        if chat in self._chats:
            self._chats[chat].append(arrived)
            return
        self._chats[chat] = deque([arrived])
        self._tasks.start_soon(self._work, chat)

    async def _work(self, chat: str) -> None:
        waiting = self._chats[chat]
        while waiting:
            await self._hand_in(chat, waiting.popleft())
        del self._chats[chat]

    async def _hand_in(self, chat: str, arrived: Arrived) -> None:
        reply: Taken | NotTaken = Taken(id=arrived.id)
        left_s = self._held_s(chat)
        if left_s > 0:
            reply = NotTaken(id=arrived.id, retry_after_s=left_s)
        else:
            try:
                await self._handler.handle(arrived.event)
            except NotNowError as error:
                extra = {"channel": self._channel, "chat": chat, "why": str(error)}
                logger.info("message cannot be taken now; it is sent back", extra=extra)
                self._held[chat] = self._clock.now() + timedelta(seconds=error.retry_after_s)
                reply = NotTaken(id=arrived.id, retry_after_s=error.retry_after_s)
        await self._connection.tell(reply)
        self._room.release()

    def _held_s(self, chat: str) -> float:
        until = self._held.get(chat)
        if until is None:
            return 0
        left_s = (until - self._clock.now()).total_seconds()
        if left_s <= 0:
            del self._held[chat]
        return max(0, left_s)
