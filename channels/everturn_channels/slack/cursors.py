"""How far each channel was read, and in which of its threads the bot takes part."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from everturn_actors.ports import Clock
from everturn_channels.adapter import InboundHandler
from everturn_channels.slack.formats.text import TS, order_of, ts_of

HEARD: Final = "heard"
"The cursor with the time when Slack was last heard from."
THREADS_MAX: Final = 20
"Threads of a channel that are looked at after an absence: those written in last."
CLOCKS_APART: Final = timedelta(days=1)
"More than that no clock of ours goes after Slack's."


class ChannelCursors:
    """The cursors of one bot, by channel: the newest message that was taken, or passed over.

    Threads stand in it with their channel: the ids of all its messages are times.
    """

    def __init__(self, handler: InboundHandler, clock: Clock) -> None:
        self._handler, self._clock = handler, clock

    def get(self, channel: str) -> str:
        """Return the newest message of a channel that was read; empty = none."""
        kept = self._handler.cursor(channel)
        return kept if TS.fullmatch(kept) else ""

    async def begin(self, channel: str, after: str) -> None:
        """Begin to read a channel after a message, unless it is read already."""
        if not self.get(channel):
            await self._handler.keep_cursor(channel, after)

    async def begin_before(self, channel: str, ts: str) -> None:
        """Begin to read a channel before a message, unless it is read already."""
        if not self.get(channel):
            known = [f"{order_of(ts)[0] - 1}.000000", self.heard_at() or self.now()]
            await self.begin(channel, min(known, key=order_of))

    async def move(self, channel: str, ts: str) -> None:
        """Keep that a message was read, and all before it."""
        if order_of(self.get(channel)) < order_of(ts) < order_of(self.newest_possible()):
            await self._handler.keep_cursor(channel, ts)

    def threads(self, channel: str) -> Sequence[str]:
        """Return the threads of a channel that the bot takes part in, those written in last."""
        kept = self._handler.cursor(f"threads {channel}").split(",")
        return [each for each in kept if TS.fullmatch(each)]

    async def note_thread(self, channel: str, thread: str) -> None:
        """Keep that somebody wrote in a thread."""
        known = self.threads(channel)
        if known[:1] != [thread]:
            newest = [thread, *(each for each in known if each != thread)][:THREADS_MAX]
            await self._handler.keep_cursor(f"threads {channel}", ",".join(newest))

    def heard_at(self) -> str:
        """Return when Slack was last heard from, as an id; empty = it never was."""
        return self.get(HEARD)

    async def hear(self) -> None:
        """Keep that Slack is heard from now."""
        await self._handler.keep_cursor(HEARD, self.now())

    def now(self) -> str:
        """Return the id that a message of now would have."""
        return ts_of(self._clock.now())

    def newest_possible(self) -> str:
        """Return an id that no message has yet, however the clocks go."""
        return ts_of(self._clock.now() + CLOCKS_APART)
