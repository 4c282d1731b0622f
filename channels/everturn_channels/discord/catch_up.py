"""What was said while nobody listened, read from the history of channels."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anyio
import discord

from everturn_actors.ports import Clock
from everturn_channels.adapter import ChatRef, InboundHandler
from everturn_channels.discord.client import Client
from everturn_channels.discord.failures import NETWORK_ERRORS
from everturn_channels.discord.mapping import chat_ref_of, is_from_people
from everturn_channels.discord.payloads import Heard, Payload, awaited_at, id_of

HEARD = "heard"
"The cursor with an id of the time when Discord was last heard from."
OPENED_MAX = 25
"Direct channels that are opened in one session; Discord blocks bots that open many at once."
OPEN_PAUSE_S = 1.0
"Between two of them."
AT_ONCE = 4
"Histories that are read at the same time."
COUNTED = 1_000
"Messages beyond those that are read are counted up to so many."
PAGE = 100
"Messages of a history that Discord tells at once, at most."
READ_S = 120.0
CLOCKS_APART = timedelta(days=1)
"More than that no clock of ours goes after Discord's."
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

    chat: ChatRef | None = None
    "None = the channel is gone."
    messages: Sequence[Heard] = ()
    "Those to be dealt with, oldest first."
    newest: int = 0
    "The last message that was seen, whoever wrote it; 0 = none."
    skipped: Sequence[tuple[int, str]] = ()
    "How many were left out, and why."


class Looker:
    """Finds out what was missed."""

    def __init__(
        self,
        *,
        client: Client,
        handler: InboundHandler,
        clock: Clock,
        max_messages: int,
        max_age_s: float,
    ) -> None:
        self._client, self._handler, self._clock = client, handler, clock
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
                await self._handler.keep_cursor(str(channel.id), str(last or channel.id))
        for forum in guild.forums:
            await self._handler.keep_cursor(str(forum.id), str(forum.last_message_id or forum.id))
        return found

    async def open_dms(self, since: int) -> AsyncGenerator[Missed]:
        """Yield the direct channels of people who are let in, and never wrote as far as is known.

        Of a first message that came while nobody listened Discord tells nothing; but it tells what
        was said last in a channel that is opened. Each person's is opened once.

        Args:
            since: An id of the time when Discord was last heard from; 0 = this is the first time.
        """
        people = [person for person in await self._handler.people() if _ID.fullmatch(person)]
        unknown = [person for person in people if not self._handler.cursor(f"person {person}")]
        for person in unknown[:OPENED_MAX]:
            try:
                found = await self._client.http.start_private_message(int(person))
            except (discord.DiscordException, *NETWORK_ERRORS) as error:
                fields = {"person": person, "reason": type(error).__name__}
                log.info("a direct channel could not be opened", extra=fields)
                if not isinstance(error, discord.Forbidden | discord.NotFound):
                    return  # it is not this person's; the next session looks again
            else:
                channel_id, last = id_of(found, "id"), id_of(found, "last_message_id")
                if channel_id and not self._cursor(channel_id):
                    after = since or last or channel_id
                    await self._handler.keep_cursor(str(channel_id), str(after))
                    yield Missed(chat=str(channel_id), channel_id=channel_id, after=after)
                await self._handler.keep_cursor(f"person {person}", str(channel_id))
            await anyio.sleep(OPEN_PAUSE_S)

    def _is_new(self, thread: discord.Thread) -> bool:
        """Whether a thread was opened after what was last seen in its channel."""
        known = self._cursor(thread.parent_id)
        return 0 < known < thread.id

    def _cursor(self, channel_id: int) -> int:
        return cursor_of(self._handler, channel_id)

    async def read(self, channel_id: int, after: int) -> Backlog | None:
        """Return what was said after a message; None where Discord does not tell it now.

        Where it never will, or what it tells cannot be read at all, that is an empty one.
        """
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
        except (discord.DiscordServerError, discord.RateLimited, *NETWORK_ERRORS):
            log.warning("a history could not be read", extra=fields, exc_info=True)
            return None
        except Exception as error:  # noqa: BLE001 - the boundary around one history
            # What came once comes again: to ask for it for ever would leave the chat deaf.
            self._handler.unreadable("history", error)
            return Backlog()

    async def _read(self, channel_id: int, after: int) -> Backlog:
        channel = self._client.get_channel(channel_id)
        if channel is None:
            channel = await self._client.fetch_channel(channel_id)
        if not isinstance(channel, discord.abc.Messageable):
            return Backlog()
        oldest = self._clock.now() - self._max_age
        kept: list[Heard] = []
        newest = too_old = too_many = 0
        async for raw in self._pages(channel_id, after):
            if (number := id_of(raw, "id")) < self.newest_possible():
                newest = max(newest, number)
            heard = self._client.payloads.message(raw, channel)
            if heard is None:
                me = self._client.user.id if self._client.user else 0
                where = chat_ref_of(channel)
                chat = where if where.type == "dm" or awaited_at(raw, me) else None
                self._handler.unreadable("MESSAGE", "nothing of it can be read", chat)
            elif not _may_be_from_people(heard.message):
                continue
            elif heard.message.created_at < oldest:
                too_old += 1
            elif len(kept) >= self._max_messages:
                too_many += 1
            else:
                kept.append(heard)
        return Backlog(
            chat=chat_ref_of(channel),
            messages=kept[::-1],
            newest=newest,
            skipped=(
                (too_old, f"more than {self._max_age.total_seconds() / 3600:g} hours old"),
                (too_many, "too many messages came while the bot was away"),
            ),
        )

    async def _pages(self, channel_id: int, after: int) -> AsyncGenerator[Payload]:
        """Yield the raw messages of a channel after one, newest first."""
        before: int | None = None
        left = self._max_messages + COUNTED
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

    def newest_possible(self) -> int:
        """Return an id that no message has yet, however the clocks go.

        A cursor beyond it would keep a channel from being caught up for ever.
        """
        return discord.utils.time_snowflake(self._clock.now() + CLOCKS_APART)


def _may_be_from_people(message: discord.Message) -> bool:
    try:
        return is_from_people(message)
    except Exception:  # noqa: BLE001 - what it is shows where it is taken
        return True


def _missed(channel: discord.abc.GuildChannel | discord.Thread, after: int) -> Missed:
    return Missed(chat=chat_ref_of(channel).id, channel_id=channel.id, after=after)


def dms_of(kept: str) -> list[int]:
    """Return the direct channels that a cursor lists."""
    return [int(number) for number in _ID.findall(kept)]


def cursor_of(handler: InboundHandler, channel_id: int) -> int:
    """Return the last message of a channel that was read; 0 = none, or the file says nonsense."""
    kept = handler.cursor(str(channel_id))
    return int(kept) if _ID.fullmatch(kept) else 0
