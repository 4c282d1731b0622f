"""Tells owners in private that what an agent said does not get there.

Of what a platform refuses at once, the log and the session tell. This is for what it takes, and
then says that it cannot deliver, and for what has to wait until a person writes: nobody would see.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from everturn_channels.access.owners import Owner
from everturn_channels.adapter import ChatRef
from everturn_channels.inbound.access_control import AccessControl
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.inbound.owners.question_notices import chat_cursor
from everturn_channels.inbound.owners.texts import undelivered_text
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.languages import ready, speaking
from everturn_channels.rate_limits import Cooldown

logger = logging.getLogger(__name__)

EVERY_S: Final = 3600.0
"An owner is told once in so long of one chat."


class DeliveryNotices:
    """The notices of one channel."""

    def __init__(
        self,
        channel: RunningChannel,
        access: AccessControl,
        *,
        notifier: Notifier,
        tasks: BackgroundTasks,
    ) -> None:
        self._channel, self._context = channel.name, channel.context
        self._aliases, self._health = channel.aliases, channel.health
        self._cursors, self._language_of = channel.cursors, channel.languages.of_chat
        self._access, self._notifier, self._tasks = access, notifier, tasks
        self._told: Cooldown[tuple[str, bool]] = Cooldown(EVERY_S)

    def tell(self, chat: str, why: str, *, is_lost: bool) -> None:
        """Tell the log, and the owners of the chat's agent who want to be told; returns at once.

        Args:
            chat: Whose people it does not reach.
            why: In the platform's words.
            is_lost: Whether it never gets there; False = it waits.
        """
        chat, why = self._aliases.first(chat), self._health.words(why)
        if is_lost:
            self._health.count_given_up()
        logger.warning(
            "what was said is not delivered" if is_lost else "what is said waits for its person",
            extra={"channel": self._channel, "chat": chat, "why": why},
        )
        # Platforms tell of each message: of one chat, an owner hears once in a while.
        if not self._told.may((chat, is_lost), self._context.clock.now()):
            return
        key = self._access.key_of(ChatRef(id=chat))
        agent = key.agent if key is not None else ""
        for owner in self._context.owners():
            if not owner.notify or not owner.owns(agent):
                continue
            for channel, account in sorted(owner.accounts):
                to = self._cursors.get(chat_cursor(account))
                # Not into the very chat that gets nothing.
                if channel == self._channel and to not in {"", chat}:
                    tell = partial(self._tell, to, chat, why, owner, is_lost=is_lost)
                    self._tasks.start("a word to an owner", tell)

    async def _tell(self, to: str, chat: str, why: str, owner: Owner, *, is_lost: bool) -> None:
        with speaking(await ready(self._language_of(to))):
            await self._notifier.notify(
                ChatRef(id=to), undelivered_text(chat, why, is_lost=is_lost)
            )
        fields = {"channel": self._channel, "owner": owner.name}
        logger.info("an owner was told that something is not delivered", extra=fields)
