"""Settles what adapters hand in: it is durable, or never will be, or has to wait.

`dispositions` says which. What nobody foresaw is tried a few times and then counts as settled: it
is logged with its traceback, its sender is told, and the channel goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from everturn_actors.errors import ActorStoppedError
from everturn_actors.ports import Clock
from everturn_actors.supervisor import attempt
from everturn_channels.adapter import ButtonClick, Command, Edit, InboundEvent, Message
from everturn_channels.errors import NotNowError
from everturn_channels.health import Health
from everturn_channels.inbound.dispositions import disposition_of
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.rate_limits import Cooldown
from everturn_channels.texts import not_kept, not_yet_kept

logger = logging.getLogger(__name__)

FAULT_EVERY_S: Final = 60  # how often a chat is told of a fault of ours
UNCLEAR_S: Final = (1.0, 3.0)  # before the second and the third try of what nobody foresaw
BLOCKED_TOLD_S: Final = 30.0  # then a chat is told that what was written there is not taken yet
BLOCKED_TOLD_EVERY_S: Final = 900.0


class EventResolver:
    """Settles the events of one channel."""

    def __init__(
        self,
        receive: Callable[[InboundEvent], Awaitable[None]],
        *,
        channel: str,
        clock: Clock,
        health: Health,
        notifier: Notifier,
        tasks: BackgroundTasks,
    ) -> None:
        """Settle events by `receive`, which returns when one is durable, or refused in words."""
        self._receive, self._channel, self._clock = receive, channel, clock
        self._health, self._notifier, self._tasks = health, notifier, tasks
        self._faults: Cooldown[str] = Cooldown(FAULT_EVERY_S)
        self._late: Cooldown[str] = Cooldown(BLOCKED_TOLD_EVERY_S)

    async def resolve(self, event: InboundEvent) -> None:
        """Deal with an event for good.

        Raises:
            NotNowError: That has to wait.
        """
        # What a command or a click did before it failed must not be done again.
        pauses_s = UNCLEAR_S if isinstance(event, Message | Edit) else ()
        for backoff_s in (*pauses_s, None):
            began = self._clock.now()
            error = await attempt(partial(self._receive, event))
            if error is not None:
                match disposition_of(error):
                    case "not now":
                        # It stays with its platform, and holds its chat.
                        raise self._not_now(event, error, began) from error
                    case "unclear" if backoff_s is not None:
                        self._log_unclear(event, error)
                        await self._clock.sleep(backoff_s)
                        continue
                    case _:
                        # It would fail for ever, and what is behind it waits.
                        self._give_up(event, error)
            break
        self._health.lanes.release(
            event.chat.id, _what_of(event), is_passing=isinstance(event, Command)
        )

    def _not_now(self, event: InboundEvent, error: Exception, began: datetime) -> NotNowError:
        """Note that an event has to wait; return what its adapter is told."""
        why = str(error) or "it took too long"
        if isinstance(error, ActorStoppedError):
            # The gateway stops: the platform gives it again at the next start.
            return NotNowError(why)
        now, chat = self._clock.now(), event.chat.id
        lane = self._health.lanes.block(
            chat, _what_of(event), self._health.words(why), began_at=began, now=now
        )
        logger.warning(
            "an event cannot be taken now and is tried again",
            extra={**self._fields(event), "error": lane.why, "tries": lane.tries},
        )
        # A time-out may have been ours alone: the message may be in the log all the same, which
        # then knows it again. So nothing is said of its being lost, or of sending it again.
        is_late = now - lane.since >= timedelta(seconds=BLOCKED_TOLD_S)
        if is_late and _is_awaited(event) and self._late.may(chat, now):
            self._notifier.notify_soon(event.chat, not_yet_kept())
        return NotNowError(lane.why, retry_after_s=lane.retry_after_s)

    def _log_unclear(self, event: InboundEvent, error: Exception) -> None:
        logger.warning(
            "an event could not be dealt with and is tried again",
            extra={**self._fields(event), "error": str(error) or type(error).__name__},
        )

    def _give_up(self, event: InboundEvent, error: Exception) -> None:
        logger.error(
            "an event could not be dealt with and is left out",
            extra={**self._fields(event), "error": str(error)},
            exc_info=error,
        )
        self._tell_fault(event)

    def _tell_fault(self, event: InboundEvent) -> None:
        """Tell the sender of something that made our code fail, where they await an answer."""
        match event:
            case Command() | ButtonClick():
                self._tasks.start("an answer", partial(event.answer, not_kept()))
            case Message() if _is_awaited(event):
                if self._faults.may(event.chat.id, self._clock.now()):
                    self._notifier.notify_soon(event.chat, not_kept())
            case _:
                pass

    def _fields(self, event: InboundEvent) -> dict[str, str]:
        return {
            "channel": self._channel,
            "chat": event.chat.id,
            "kind": type(event).__name__,
        }


def _is_awaited(event: InboundEvent) -> bool:
    """Whether whoever sent something awaits an answer to it in their chat."""
    return isinstance(event, Message) and (event.is_addressed or event.chat.type == "dm")


def _what_of(event: InboundEvent) -> tuple[str, str]:
    """Return what tells an event from others of its chat."""
    what = event.data if isinstance(event, ButtonClick) else event.id
    return type(event).__name__, what
