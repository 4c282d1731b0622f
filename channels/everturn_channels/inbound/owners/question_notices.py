"""Brings questions that nobody answers to the private chats of owners who want that.

Only where an owner has written to the bot before: platforms let no bot begin. What was brought is
noted beside the channel's cursors, so that a restart brings it again only where that was lost.

It looks every few seconds into memory, and only where an owner wants it: whoever was asked first
has a moment to answer, and no turn does anything for it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, NoReturn

from everturn_actors.supervisor import attempt
from everturn_channels.access.owners import Owner, find_owner
from everturn_channels.adapter import ChatRef, InboundEvent
from everturn_channels.errors import ChannelError, NotSentError, SendError
from everturn_channels.inbound.notifier import Notifier
from everturn_channels.inbound.owners.commands import show_question
from everturn_channels.inbound.owners.open_questions import OpenQuestion, open_questions
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.languages import ready, speaking
from everturn_channels.rate_limits import RecentKeys

logger = logging.getLogger(__name__)

LOOK_S: Final = 15.0
"So long a question waits at least, and twice as long at most."
AT_ONCE_MAX: Final = 5  # to one account at one look; a crowd that asks must not bury its owner
BROUGHT_MAX: Final = 50
"Questions that are remembered over a restart, for each account: what a cursor has room for."


class QuestionNotices:
    """The notices of one channel."""

    def __init__(self, channel: RunningChannel, notifier: Notifier) -> None:
        self._channel, self._context = channel.name, channel.context
        self._cursors, self._language_of = channel.cursors, channel.languages.of_chat
        self._notifier = notifier
        self._seen: frozenset[str] = frozenset()
        "Tokens of what waited at the look before."
        self._brought: RecentKeys[tuple[str, str]] = RecentKeys()
        "What was brought to which account; beyond a restart, the cursor knows the newest of it."

    async def heard(self, event: InboundEvent) -> None:
        """Note in which private chat an owner writes, where that can be noted."""
        chat, sender = event.chat, event.sender
        if chat.type != "dm" or find_owner(self._context.owners(), self._channel, sender) is None:
            return
        try:
            await self._cursors.put(chat_cursor(sender.id), chat.id)
        except (ChannelError, OSError) as error:
            extra = {"channel": self._channel, "error": str(error)}
            logger.warning("an owner's private chat cannot be noted", extra=extra)

    async def run(self) -> NoReturn:
        """Look until cancelled; what fails is logged, and looked at again."""
        while True:
            await self._context.clock.sleep(LOOK_S)
            failure = await attempt(self.look)
            if failure is not None:
                logger.error(
                    "questions could not be brought to owners",
                    extra={"channel": self._channel},
                    exc_info=failure,
                )

    async def look(self) -> None:
        """Bring what waited at the look before, waits still, and was not brought yet."""
        wanting = [
            (owner, account)
            for owner in self._context.owners()
            if owner.notify
            for channel, account in sorted(owner.accounts)
            if channel == self._channel and self._cursors.get(chat_cursor(account))
        ]
        if not wanting:
            self._seen = frozenset()
            return
        states = await self._context.service.activity.awaiting_approval()
        seen, self._seen = self._seen, frozenset()
        for owner, account in wanting:
            questions = open_questions(states, owner)
            self._seen |= {each.token for each in questions}
            waited = [each for each in questions if each.token in seen]
            failure = await attempt(partial(self._bring, owner, account, waited))
            if failure is not None:  # one owner's chat that is gone keeps no other waiting
                fields = {"channel": self._channel, "owner": owner.name, "error": str(failure)}
                logger.warning("a question could not be brought to an owner", extra=fields)

    async def _bring(self, owner: Owner, account: str, questions: Sequence[OpenQuestion]) -> None:
        """Show what was not shown yet, and note that it was.

        Raises:
            SendError: Something was not sent; what surely was not is brought at the next look.
            ChannelError: What was brought cannot be noted.
        """
        chat = ChatRef(id=self._cursors.get(chat_cursor(account)))
        before = self._cursors.get(_brought_to(account))
        brought = [*filter(None, before.split(","))]
        new = [
            each
            for each in questions
            if each.token not in brought
            and (account, each.token) not in self._brought
            and not self._is_asked_in(each, chat)
        ]
        try:
            for each in new[:AT_ONCE_MAX]:
                await self._show(chat, each, brought)
                fields = {"channel": self._channel, "owner": owner.name}
                logger.info(
                    "a question was brought to an owner",
                    extra={**fields, "session_id": each.session_id},
                )
        finally:
            for token in brought:
                self._brought.note((account, token))
            kept = ",".join(brought[-BROUGHT_MAX:])
            if kept != before:
                await self._cursors.put(_brought_to(account), kept)

    async def _show(self, chat: ChatRef, question: OpenQuestion, brought: list[str]) -> None:
        """Show a question and count it as brought, unless it surely was not sent.

        Raises:
            SendError: It was not, or may not have been.
        """
        try:
            with speaking(await ready(self._language_of(chat.id))):
                await show_question(self._notifier, chat, question)
        except NotSentError:
            raise
        except SendError:
            brought.append(question.token)  # tried again, it might come for ever
            raise
        brought.append(question.token)

    def _is_asked_in(self, question: OpenQuestion, chat: ChatRef) -> bool:
        """Whether a question stands in an owner's own chat anyway."""
        return (question.key.channel, question.key.chat) == (self._channel, chat.id)


def chat_cursor(account: str) -> str:
    """Return the name of the cursor that keeps an owner's private chat."""
    return f"owner {account}"


def _brought_to(account: str) -> str:
    """Return the name of the cursor that keeps what was brought there."""
    return f"brought {account}"
