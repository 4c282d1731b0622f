"""Messages that are not read, being too old, too many or garbled: they are counted and told of.

A gateway that was away for long must not answer what nobody waits for any more, nor drop it without
a word.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from everturn_channels.adapter import ChatRef, InboundEvent, Message
from everturn_channels.errors import ChannelError
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.languages import ready, speaking
from everturn_channels.rate_limits import Cooldown
from everturn_channels.texts import not_read, not_readable

logger = logging.getLogger(__name__)

SETTLE_S: Final = 3  # nothing more may be left out for so long before it is told of
ROUNDS_MAX: Final = 100  # and after so many of these it is told of anyway
REPORT_S: Final = 900  # for the lines to all chats
UNREADABLE_TOLD_EVERY_S: Final = 900.0  # in one chat
UNREADABLE_LOGGED_EVERY_S: Final = 600.0  # with its traceback, for each kind
_HOUR_S: Final = 3600
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
        self._age_max_s = channel.settings.backlog_max_age_s
        self._began = self._clock.now()
        self._skipped: dict[tuple[str, str], _Skipped] = {}
        self._total = 0
        self._is_reporting = False
        self._unreadable_chats: Cooldown[str] = Cooldown(UNREADABLE_TOLD_EVERY_S)
        self._unreadable_kinds: Cooldown[str] = Cooldown(UNREADABLE_LOGGED_EVERY_S)

    def leaves_out(self, event: InboundEvent) -> bool:
        """Whether something was written so long before the start that nobody waits for it now."""
        age = self._clock.now() - event.at
        if event.at >= self._began or age <= timedelta(seconds=self._age_max_s):
            return False
        if isinstance(event, Message):
            # Told in one line a chat, not one a message.
            self.skip(event.chat, 1, f"more than {self._age_max_s / _HOUR_S:g} hours old")
        return True

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

    def unreadable(self, kind: str, fault: Exception | str, chat: ChatRef | None) -> None:
        """Count what cannot be read, and tell of it where that was not done a moment ago.

        Args:
            kind: What the platform calls it.
            fault: Why it cannot be read.
            chat: Whose people are told; None = it is not known where it was.
        """
        self._health.count_unreadable()
        now, fields = self._clock.now(), {"channel": self._channel, "kind": kind}
        if self._unreadable_kinds.may(kind, now):
            fields["chat"] = chat.id if chat is not None else ""
            fields["error"] = self._health.words(str(fault) or type(fault).__name__)
            trace = fault if isinstance(fault, Exception) else None
            logger.warning(
                "an event cannot be read and is passed over", extra=fields, exc_info=trace
            )
        if chat is not None and self._unreadable_chats.may(chat.id, now):
            self._tasks.start("a line", partial(self._tell_unreadable, chat))

    async def _tell_unreadable(self, chat: ChatRef) -> None:
        if await self._is_known(chat):  # strangers are told nothing, not even that
            with speaking(await ready(self._language_of(chat.id))):
                await self._notifier.notify(chat, not_readable())

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
