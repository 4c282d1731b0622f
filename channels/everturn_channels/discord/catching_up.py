"""What was said while nobody listened, read from the history of channels."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import anyio
import discord

from everturn_actors.ports import Clock
from everturn_channels.adapter import Inlet, Place
from everturn_channels.discord.client import Client
from everturn_channels.discord.failures import NETWORK_ERRORS
from everturn_channels.discord.mapping import UNREADABLE, is_from_people, place_of

AT_ONCE = 4
"Histories that are read at the same time."
COUNTED = 1_000
"Messages beyond those that are read are counted up to so many."
READ_S = 120.0
_ID = re.compile("[0-9]{1,20}")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A channel in which something may have been said."""

    chat: str
    channel_id: int
    after: int
    "The last message that is known."


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What was said in a channel."""

    place: Place | None = None
    "None = the channel is gone."
    messages: Sequence[discord.Message] = ()
    "Those to be dealt with, oldest first."
    newest: int = 0
    "The last message that was seen, whoever wrote it; 0 = none."
    skipped: Sequence[tuple[int, str]] = ()
    "How many were left out, and why."


class Looker:
    """Finds out what was missed."""

    def __init__(
        self, *, client: Client, inlet: Inlet, clock: Clock, max_messages: int, max_age_s: float
    ) -> None:
        self._client, self._inlet, self._clock = client, inlet, clock
        self._max_messages, self._max_age = max_messages, timedelta(seconds=max_age_s)
        self._slots = anyio.Semaphore(AT_ONCE)

    async def look_at(self, guild: discord.Guild) -> Sequence[Missed]:
        """Return the channels of a guild in which something was said after their cursor.

        A channel that was never seen gets a cursor at its end: nothing old is read.
        """
        found: list[Missed] = []
        for channel in [*guild.channels, *guild.threads]:
            if isinstance(channel, discord.CategoryChannel):
                continue
            cursor = self._cursor(channel.id)
            last = channel.last_message_id or 0
            if cursor and isinstance(channel, discord.ForumChannel):
                continue
            if cursor:
                if last > cursor:
                    found.append(_missed(channel, cursor))
            elif isinstance(channel, discord.Thread) and self._is_new(channel):
                found.append(_missed(channel, channel.id - 1))
            else:
                # all messages of a channel have higher ids than itself
                await self._inlet.keep_cursor(str(channel.id), str(last or channel.id))
        for forum in guild.forums:
            await self._inlet.keep_cursor(str(forum.id), str(forum.last_message_id or forum.id))
        return found

    def _is_new(self, thread: discord.Thread) -> bool:
        """Whether a thread was opened after what was last seen in its channel."""
        known = self._cursor(thread.parent_id)
        return 0 < known < thread.id

    def _cursor(self, channel_id: int) -> int:
        return cursor_of(self._inlet, channel_id)

    async def read(self, channel_id: int, after: int) -> Backlog | None:
        """Return what was said after a message; None where it cannot be known now."""
        if not after:
            return Backlog()
        fields = {"channel_id": channel_id}
        try:
            async with self._slots:
                with anyio.fail_after(READ_S):
                    return await self._read(channel_id, after)
        except (discord.NotFound, discord.Forbidden):
            log.warning("a channel with a cursor cannot be read any more", extra=fields)
            return Backlog()
        except (discord.DiscordException, *NETWORK_ERRORS, *UNREADABLE):
            log.warning("a history could not be read", extra=fields, exc_info=True)
            return None

    async def _read(self, channel_id: int, after: int) -> Backlog:
        channel = self._client.get_channel(channel_id)
        if channel is None:
            channel = await self._client.fetch_channel(channel_id)
        if not isinstance(channel, discord.abc.Messageable):
            return Backlog()
        oldest = self._clock.now() - self._max_age
        kept: list[discord.Message] = []
        newest = too_old = too_many = 0
        pages = channel.history(
            limit=self._max_messages + COUNTED, after=discord.Object(after), oldest_first=False
        )
        async for message in pages:
            newest = max(newest, message.id)
            if not is_from_people(message):
                continue
            if message.created_at < oldest:
                too_old += 1
            elif len(kept) >= self._max_messages:
                too_many += 1
            else:
                kept.append(message)
        return Backlog(
            place=place_of(channel),
            messages=kept[::-1],
            newest=newest,
            skipped=(
                (too_old, f"more than {self._max_age.total_seconds() / 3600:g} hours old"),
                (too_many, "too many messages came while the bot was away"),
            ),
        )


def _missed(channel: discord.abc.GuildChannel | discord.Thread, after: int) -> Missed:
    return Missed(chat=place_of(channel).chat, channel_id=channel.id, after=after)


def dms_of(kept: str) -> list[int]:
    """Return the direct channels that a cursor lists."""
    return [int(number) for number in _ID.findall(kept)]


def cursor_of(inlet: Inlet, channel_id: int) -> int:
    """Return the last message of a channel that was read; 0 = none, or the file says nonsense."""
    kept = inlet.cursor(str(channel_id))
    return int(kept) if _ID.fullmatch(kept) else 0
