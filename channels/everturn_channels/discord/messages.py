"""Messages as they come, and as the histories of channels tell them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any, Final

import anyio
import discord

from everturn_actors.ports import Clock
from everturn_channels.adapter import InboundEvent, InboundHandler
from everturn_channels.discord.client import Client
from everturn_channels.discord.cursors import ChannelCursors
from everturn_channels.discord.event_reader import EventReader
from everturn_channels.discord.failures import NETWORK_ERRORS
from everturn_channels.discord.mapping import chat_ref_of, is_from_people
from everturn_channels.discord.payloads import Heard, Payload, awaited_at, id_of
from everturn_channels.errors import ConnectionLostError
from everturn_channels.ingestion.events import Backfill, Gap, PlatformEvent
from everturn_channels.ingestion.history import BacklogLimits, History

AT_ONCE: Final = 4
"Histories that are read at the same time."
PAGE: Final = 100
"Messages of a history that Discord tells at once, at most."
READ_S: Final = 120.0
_MISSED: Final = "what was said there while nobody listened cannot be read"

log = logging.getLogger(__name__)


class Messages:
    """The messages of one login."""

    def __init__(
        self,
        *,
        client: Client,
        handler: InboundHandler,
        reader: EventReader,
        cursors: ChannelCursors,
        clock: Clock,
        limits: BacklogLimits,
    ) -> None:
        self._client, self._handler, self._reader = client, handler, reader
        self._cursors, self._clock, self._limits = cursors, clock, limits
        self._slots = anyio.Semaphore(AT_ONCE)

    def event(self, heard: Heard) -> PlatformEvent:
        """Return what is handed over for a message."""
        message = heard.message
        chat, channel_id = chat_ref_of(message.channel).id, message.channel.id
        return PlatformEvent(
            chat=chat,
            id=message.id,
            read=partial(self._meaning, heard),
            kind="MESSAGE",
            awaited_at=awaited_at(heard.raw, self._reader.me),
            advance=partial(self._passed, message),
            gap=self.gap(chat, channel_id, message.id - 1),
        )

    def passed_over(self, chat: str, channel_id: int, message_id: int) -> PlatformEvent:
        """Return what is handed over so that the cursor passes a message that nobody reads."""
        advance = partial(self._cursors.move, channel_id, message_id)
        return PlatformEvent(chat=chat, advance=advance)

    def gap(self, chat: str, channel_id: int, after: int) -> Gap:
        """Return what was said in a channel after a message."""
        return Gap(chat=chat, key=channel_id, read=partial(self._backfill, chat, channel_id, after))

    async def _meaning(self, heard: Heard) -> Sequence[InboundEvent]:
        event = await self._reader.read(heard)
        return () if event is None else (event,)

    async def _passed(self, message: discord.Message) -> None:
        await self._cursors.move(message.channel.id, message.id)
        if message.guild is None and isinstance(message.channel, discord.DMChannel):
            await self._cursors.remember_dm(message.channel.id)

    # --- histories ---

    async def _backfill(self, chat: str, channel_id: int, after: int) -> Backfill:
        """Return what was said in a channel; nothing where Discord will never tell it.

        Raises:
            ConnectionLostError: Discord does not tell it now.
        """
        if not after:
            return Backfill()
        fields = {"channel_id": channel_id}
        try:
            async with self._slots:
                with anyio.fail_after(READ_S):
                    return await self._read(chat, channel_id, after)
        except (discord.NotFound, discord.Forbidden):
            log.warning("a channel with a cursor cannot be read any more", extra=fields)
            return Backfill()
        except (discord.DiscordServerError, discord.RateLimited, *NETWORK_ERRORS) as error:
            log.warning("a history could not be read", extra=fields, exc_info=True)
            raise ConnectionLostError(_MISSED) from error

    async def _read(self, chat: str, channel_id: int, after: int) -> Backfill:
        channel = self._client.get_channel(channel_id)
        if channel is None:
            channel = await self._client.fetch_channel(channel_id)
        if not isinstance(channel, discord.abc.Messageable):
            return Backfill()
        history, newest = History(self._limits, self._clock.now()), 0
        where = chat_ref_of(channel)
        async for raw in self._pages(channel_id, after, history):
            if (number := id_of(raw, "id")) < self._cursors.newest_possible():
                newest = max(newest, number)
            heard = self._client.payloads.message(raw, channel)
            if heard is None:
                me = self._client.user.id if self._client.user else 0
                awaited = where if where.type == "dm" or awaited_at(raw, me) else None
                self._handler.unreadable("MESSAGE", "nothing of it can be read", awaited)
            elif _may_be_from_people(heard.message):
                history.add(self.event(heard), heard.message.created_at)
        # What was written by nobody is read, too.
        return history.backfill(where, self.passed_over(chat, channel_id, newest))

    async def _pages(
        self, channel_id: int, after: int, history: History
    ) -> AsyncGenerator[Payload]:
        """Yield the raw messages of a channel after one, newest first."""
        before: int | None = None
        left = history.left
        while left > 0:
            asked = min(left, PAGE)
            page: list[Any] = list(
                await self._client.http.logs_from(channel_id, asked, before=before)
            )
            numbers = [number for number in (id_of(raw, "id") for raw in page) if number]
            for raw in page:
                if id_of(raw, "id") > after:
                    yield raw
            left -= len(page)
            if len(page) < asked:
                return
            # Each page has to begin further back, or the same one would come for ever.
            if not numbers or min(numbers) <= after or (before and min(numbers) >= before):
                return
            before = min(numbers)


def _may_be_from_people(message: discord.Message) -> bool:
    try:
        return is_from_people(message)
    except Exception:  # what it is shows where it is taken
        return True
