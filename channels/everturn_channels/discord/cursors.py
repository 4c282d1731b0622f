"""How far each Discord channel was read, and which direct channels there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import discord

from everturn_actors.ports import Clock
from everturn_channels.adapter import InboundHandler

HEARD: Final = "heard"
"The cursor with an id of the time when Discord was last heard from."
DMS_LIMIT: Final = 500
"Direct channels whose history is looked at after an absence: those written in last."
CLOCKS_APART: Final = timedelta(days=1)
"More than that no clock of ours goes after Discord's."
_DMS_A_CURSOR: Final = 45
"An id has up to 20 digits, and a cursor 1,000 characters."
_DMS: Final = ("dms", *(f"dms {n}" for n in range(2, -(-DMS_LIMIT // _DMS_A_CURSOR) + 1)))
"The cursors that list them, those written in last first."
_ID: Final = re.compile("[0-9]{1,20}")


class ChannelCursors:
    """The cursors of one bot, by channel: the last message that was taken, or passed over."""

    def __init__(self, handler: InboundHandler, clock: Clock) -> None:
        self._handler, self._clock = handler, clock
        self._dms = dms_of(",".join(map(handler.cursor, _DMS)))

    def get(self, channel_id: int) -> int:
        """Return the last message of a channel that was read; 0 = none."""
        return cursor_of(self._handler, channel_id)

    async def begin(self, channel_id: int, after: int) -> None:
        """Begin to read a channel after a message."""
        await self._handler.keep_cursor(str(channel_id), str(after))

    async def move(self, channel_id: int, message_id: int) -> None:
        """Keep that a message was read, and all before it."""
        if self.get(channel_id) < message_id < self.newest_possible():
            await self.begin(channel_id, message_id)

    def newest_possible(self) -> int:
        """Return an id that no message has yet, however the clocks go.

        A cursor beyond it would keep a channel from being caught up for ever.
        """
        return discord.utils.time_snowflake(self._clock.now() + CLOCKS_APART)

    # --- what Discord does not list ---

    @property
    def dms(self) -> Sequence[int]:
        """The direct channels that are known, those written in last first."""
        return self._dms

    async def remember_dm(self, channel_id: int) -> None:
        """Keep that there is a direct channel."""
        if channel_id in self._dms:
            return
        self._dms.append(channel_id)
        self._dms.sort(key=self.get, reverse=True)
        del self._dms[DMS_LIMIT:]
        for number, name in enumerate(_DMS):
            begin = number * _DMS_A_CURSOR
            if listed := self._dms[begin : begin + _DMS_A_CURSOR]:
                await self._handler.keep_cursor(name, ",".join(map(str, listed)))

    async def unknown_people(self) -> list[str]:
        """Return who is let in by name, and whose direct channel was never opened."""
        people = [person for person in await self._handler.people() if _ID.fullmatch(person)]
        return [person for person in people if not self._handler.cursor(f"person {person}")]

    async def remember_person(self, person: str, channel_id: int) -> None:
        """Keep which direct channel is that of somebody; 0 = they have none."""
        await self._handler.keep_cursor(f"person {person}", str(channel_id))

    # --- when Discord was heard from ---

    def heard_at(self) -> int:
        """Return an id of the time when Discord was last heard from; 0 = it never was."""
        return next(iter(dms_of(self._handler.cursor(HEARD))), 0)

    async def hear(self) -> None:
        """Keep that Discord is heard from now."""
        now = discord.utils.time_snowflake(self._clock.now())
        await self._handler.keep_cursor(HEARD, str(now))


def dms_of(kept: str) -> list[int]:
    """Return the ids that a cursor lists."""
    return [int(number) for number in _ID.findall(kept)]


def cursor_of(handler: InboundHandler, channel_id: int) -> int:
    """Return the last message of a channel that was read; 0 = none, or the file says nonsense."""
    kept = handler.cursor(str(channel_id))
    return int(kept) if _ID.fullmatch(kept) else 0
