"""Messages that are not read because they are too old or too many: they are counted and told of.

A gateway that was away for long must not answer what nobody waits for any more, nor drop it without
a word.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from everturn_channels.adapter import ChatRef
from everturn_channels.errors import ChannelError
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.languages import ready, speaking
from everturn_channels.texts import not_read

logger = logging.getLogger(__name__)

SETTLE_S: Final = 3  # nothing more may be left out for so long before it is told of
ROUNDS_MAX: Final = 100  # and after so many of these it is told of anyway
REPORT_S: Final = 900  # for the lines to all chats
CHATS_MAX: Final = 1000  # that are told of at once; those of further ones stand in the log


class _Skipped(Struct, frozen=True):
    """What was left out in one chat."""

    chat: ChatRef
    count: int
    why: str


class Backlog:
    """Counts what one channel leaves out, and tells of it once it is known how much."""

    def __init__(
        self,
        channel: RunningChannel,
        *,
        tasks: BackgroundTasks,
        notifier: Notifier,
        is_known: Callable[[ChatRef], Awaitable[bool]],
    ) -> None:
        """Begin with nothing left out.

        Args:
            channel: Whose messages they are.
            tasks: Runs the report.
            notifier: Tells it.
            is_known: Whether a conversation goes on in a chat: nobody else is told anything.
        """
        self._channel, self._health = channel.name, channel.health
        self._clock, self._language_of = channel.context.clock, channel.languages.of_chat
        self._tasks, self._notifier, self._is_known = tasks, notifier, is_known
        self._skipped: dict[tuple[str, str], _Skipped] = {}
        self._total = 0
        self._is_reporting = False

    def skip(self, chat: ChatRef, count: int, why: str) -> None:
        """Count messages of a chat that are not read, and why, in a few words."""
        if count <= 0:
            return
        self._health.count_skipped(count)
        self._total += count
        where = chat.id, chat.topic
        known = self._skipped.get(where)
        if known is not None:
            self._skipped[where] = replace(known, count=known.count + count)
        elif len(self._skipped) < CHATS_MAX:
            self._skipped[where] = _Skipped(chat, count, why)
        if not self._is_reporting:
            self._is_reporting = self._tasks.start("a report", self._report, within_s=REPORT_S)

    async def _report(self) -> None:
        try:
            for _ in range(ROUNDS_MAX):
                before = self._total
                await self._clock.sleep(SETTLE_S)
                if self._total == before:
                    break
        finally:
            self._is_reporting = False
            skipped, self._skipped = self._skipped, {}
            total, self._total = self._total, 0
            logger.warning(
                "messages were not read",
                extra={"channel": self._channel, "messages": total, "chats": len(skipped)},
            )
        for each in skipped.values():
            await self._tell(each)

    async def _tell(self, skipped: _Skipped) -> None:
        fields = {
            "channel": self._channel,
            "chat": skipped.chat.id,
            "topic": skipped.chat.topic,
            "messages": skipped.count,
            "why": skipped.why,
        }
        logger.warning("messages of a chat were not read", extra=fields)
        if not await self._is_known(skipped.chat):
            return
        try:
            with speaking(await ready(self._language_of(skipped.chat.id))):
                await self._notifier.notify(skipped.chat, not_read(skipped.count, skipped.why))
        except ChannelError as error:
            logger.info("could not be told", extra={**fields, "error": str(error)})
