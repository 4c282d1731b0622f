"""Reactions on a person's message that say how far it is: seen, being worked on, done.

They are signs, and not durable: after a restart the last one stays as it is.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from functools import partial
from typing import Final

from everturn_actors.events import (
    Discarded,
    Event,
    SessionEnded,
    Steered,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.service import Submission, TextDelta, Update
from everturn_channels.adapter import Adapter, Message
from everturn_channels.errors import SendError
from everturn_channels.health import mask_token
from everturn_channels.inbound.notifier import BackgroundTasks
from everturn_channels.settings import ChannelSettings

logger = logging.getLogger(__name__)

FOLLOWED_MAX: Final = 64
"Messages whose turns are followed at a time; of others it is shown alone that they are taken."
FOLLOWED_S: Final = 3600.0
"A turn that takes longer leaves the sign that it works."


class StatusReactor:
    """Shows on messages of one channel how far they are."""

    def __init__(self, adapter: Adapter, settings: ChannelSettings, tasks: BackgroundTasks) -> None:
        self._adapter, self._tasks = adapter, tasks
        self._seen, self._reactions = settings.acknowledge, settings.status_reactions
        self._followed = 0

    def show(self, message: Message, submission: Submission) -> None:
        """Show that a message is taken, and what becomes of it from then on; returns at once."""
        if not self._adapter.capabilities.reactions:
            return
        if self._reactions and self._followed < FOLLOWED_MAX:
            follow = partial(self._follow, message, submission)
            self._tasks.start("reactions", follow, within_s=FOLLOWED_S)
        elif self._seen:
            self._tasks.start("a reaction", partial(self._react, message, self._seen))

    async def _follow(self, message: Message, submission: Submission) -> None:
        self._followed += 1
        shown = ""
        try:
            if self._seen:
                await self._react(message, self._seen)
                shown = self._seen
            async with aclosing(submission.updates(take=_takes_nothing)) as updates:
                async for update in updates:
                    wanted = self._wanted(update, shown)
                    if wanted != shown:
                        await self._react(message, wanted)
                        shown = wanted
        finally:
            self._followed -= 1

    def _wanted(self, update: Update, shown: str) -> str:
        """Return what is to be shown after something happened."""
        match update:
            case Event(body=TurnStarted() | Steered()):
                return self._reactions.working or shown
            case Event(body=TurnFinished(outcome="failed")):
                return self._reactions.failed or self._reactions.done
            case Event(body=TurnFinished() | Discarded() | SessionEnded()):
                return self._reactions.done
            case _:
                return shown

    async def _react(self, message: Message, emoji: str) -> None:
        """Show one; what cannot be shown keeps the next one from nothing."""
        try:
            await self._adapter.react(message.chat.id, message.id, emoji)
        except SendError as error:
            fields = {"channel": self._adapter.name, "chat": message.chat.id}
            reason = mask_token(str(error))
            logger.debug("a reaction could not be shown", extra={**fields, "reason": reason})


def _takes_nothing(_piece: TextDelta) -> bool:
    return False
