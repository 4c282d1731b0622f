"""In which channels something may have been said while nobody listened."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import anyio
import discord

from everturn_channels.discord.client import Client
from everturn_channels.discord.cursors import ChannelCursors
from everturn_channels.discord.failures import NETWORK_ERRORS
from everturn_channels.discord.mapping import chat_ref_of
from everturn_channels.discord.messages import Messages
from everturn_channels.discord.payloads import id_of
from everturn_channels.ingestion.events import Gap

OPENED_MAX: Final = 25
"Direct channels that are opened in one session; Discord blocks bots that open many at once."
OPEN_PAUSE_S: Final = 1.0
"Between two of them."

log = logging.getLogger(__name__)


class GapFinder:
    """Finds the gaps of one login."""

    def __init__(self, client: Client, cursors: ChannelCursors, messages: Messages) -> None:
        self._client, self._cursors, self._messages = client, cursors, messages

    async def gaps_of(self, guild: discord.Guild) -> Sequence[Gap]:
        """Return the gaps of those channels of a guild with something after their cursor.

        A channel that was never seen gets a cursor at its end: nothing old is read.
        """
        found: list[Gap] = []
        for channel in [*guild.channels, *guild.threads]:
            if isinstance(channel, discord.CategoryChannel):
                continue
            cursor = self._cursors.get(channel.id)
            last = channel.last_message_id or 0
            if cursor and isinstance(channel, discord.ForumChannel):
                continue
            if cursor:
                if last > cursor:
                    found.append(self._gap(channel, cursor))
            elif isinstance(channel, discord.Thread) and self._is_new(channel):
                found.append(self._gap(channel, channel.id - 1))
            else:
                # all messages of a channel have higher ids than itself
                await self._cursors.begin(channel.id, last or channel.id)
        for forum in guild.forums:
            await self._cursors.begin(forum.id, forum.last_message_id or forum.id)
        return found

    def gaps_of_dms(self) -> Sequence[Gap]:
        """Return the gaps of the direct channels that are known: Discord tells of none."""
        return [
            self._messages.gap(str(channel_id), channel_id, self._cursors.get(channel_id))
            for channel_id in self._cursors.dms
        ]

    async def open_dms(self, since: int) -> AsyncGenerator[Gap]:
        """Yield the gaps of people who are let in, and never wrote as far as is known.

        Of a first message that came while nobody listened Discord tells nothing; but it tells what
        was said last in a channel that is opened. Each person's is opened once.

        Args:
            since: An id of the time when Discord was last heard from; 0 = this is the first time.
        """
        for person in (await self._cursors.unknown_people())[:OPENED_MAX]:
            try:
                found = await self._client.http.start_private_message(int(person))
            except (discord.DiscordException, *NETWORK_ERRORS) as error:
                fields = {"person": person, "reason": type(error).__name__}
                log.info("a direct channel could not be opened", extra=fields)
                if not isinstance(error, discord.Forbidden | discord.NotFound):
                    return  # it is not this person's; the next session looks again
            else:
                channel_id, last = id_of(found, "id"), id_of(found, "last_message_id")
                if channel_id and not self._cursors.get(channel_id):
                    after = since or last or channel_id
                    await self._cursors.begin(channel_id, after)
                    await self._cursors.remember_dm(channel_id)
                    yield self._messages.gap(str(channel_id), channel_id, after)
                await self._cursors.remember_person(person, channel_id)
            await anyio.sleep(OPEN_PAUSE_S)

    def _is_new(self, thread: discord.Thread) -> bool:
        """Whether a thread was opened after what was last seen in its channel."""
        known = self._cursors.get(thread.parent_id)
        return 0 < known < thread.id

    def _gap(self, channel: discord.abc.GuildChannel | discord.Thread, after: int) -> Gap:
        return self._messages.gap(chat_ref_of(channel).id, channel.id, after)
