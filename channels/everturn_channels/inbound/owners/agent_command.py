"""`/agent` in a chat: lets an owner choose which agent answers there, or in a topic of it."""

from __future__ import annotations

import logging
from typing import Final

from everturn_actors.errors import JournalError
from everturn_channels.access.owners import Owner
from everturn_channels.adapter import Command
from everturn_channels.channel_context import ChannelContext
from everturn_channels.inbound.access_control import LATER, AccessControl
from everturn_channels.languages import t
from everturn_channels.names import one_line
from everturn_channels.texts import code_span, group_closed

DEFAULT: Final = "default"
AGENTS_SHOWN: Final = 20

logger = logging.getLogger(__name__)


class AgentCommand:
    """Answers `/agent` on one channel."""

    def __init__(self, *, channel: str, context: ChannelContext, access: AccessControl) -> None:
        self._channel, self._context, self._access = channel, context, access

    async def answer(self, command: Command, owner: Owner) -> str:
        """Say who answers in a chat, or choose another agent for it; return what is told.

        Who answers there before and after has to be one of the owner's.
        """
        chat, wanted = command.chat, command.argument.strip()
        key = self._access.key_of(chat, command.sender)
        if key is not None and not owner.owns(key.agent):
            return group_closed("not yours")
        names = [name for name in self._context.agents() if owner.owns(name)]
        if not wanted:
            return _shown(key.agent if key is not None else "", names)
        if wanted not in (*names, DEFAULT):
            return t("There is no agent {agent} of yours.", agent=code_span(one_line(wanted)))
        chosen = "" if wanted == DEFAULT else wanted
        try:
            is_kept = await self._context.pairing.agents.choose(
                self._channel, (chat.id, *chat.aliases), chat.topic, chosen, by=owner.by
            )
        except JournalError as error:
            logger.warning("an owner could not choose an agent", extra={"error": str(error)})
            return LATER
        if not is_kept:
            logger.warning("too many chats have an agent of their own: choose it by a route")
            return LATER
        key = self._access.key_of(chat, command.sender)
        extra = {"channel": self._channel, "chat": chat.id, "topic": chat.topic}
        did = f"/agent {key.agent if key is not None else DEFAULT}"
        logger.info("an owner acted from a chat", extra={**extra, "owner": owner.name, "did": did})
        if key is None:
            return group_closed("no route")
        told = t("Done: {agent} answers here from now on.", agent=code_span(key.agent))
        if await self._access.takes_part(chat, command.sender):
            return told
        return f"{told} {t('It takes no part in this group so far: /allow lets it.')}"


def _shown(agent: str, names: list[str]) -> str:
    here = t("{agent} answers here.", agent=code_span(agent)) if agent else group_closed("no route")
    listed = ", ".join(code_span(name) for name in names[:AGENTS_SHOWN])
    choose = t("`/agent NAME` chooses another one, `/agent default` takes that back.")
    return " ".join((here, t("There are: {names}.", names=listed), choose))
