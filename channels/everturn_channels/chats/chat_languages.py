"""In which language a channel speaks to a chat."""

from __future__ import annotations

import logging
from collections.abc import Callable

from everturn_actors.model import ConversationKey
from everturn_channels.adapter import ChatRef, Person
from everturn_channels.chats.cursors import Cursors
from everturn_channels.errors import ChannelError
from everturn_channels.languages import Language, language_of

logger = logging.getLogger(__name__)


def _any_language(agent: str) -> Language | None:
    del agent
    return None


class ChatLanguages:
    """Knows the language of each agent, and of each person who wrote in private.

    An agent that speaks one language speaks it to everybody. Otherwise a person is spoken to as
    they use their platform, where that tells it; what is sent to a group is in English.
    """

    def __init__(self, of_agent: Callable[[str], Language | None] = _any_language) -> None:
        """Begin with nobody known; `of_agent` tells the language of an agent, None = any."""
        self._of_agent = of_agent
        self._cursors: Cursors | None = None

    def keep_in(self, cursors: Cursors) -> None:
        """Remember people over a restart: a hint, like how far a chat was read."""
        self._cursors = cursors

    async def heard(self, chat: ChatRef, sender: Person, agent: str) -> Language:
        """Return in which language somebody is spoken to who wrote just now; remember it."""
        told = language_of(sender.language)
        if told is not None and chat.type == "dm":
            await self._keep(chat.id, told)
        return self._of_agent(agent) or told or self.of_chat(chat.id)

    def of(self, key: ConversationKey) -> Language:
        """Return in which language something is sent to a conversation's chat."""
        return self._of_agent(key.agent) or self.of_chat(key.chat)

    def of_chat(self, chat: str) -> Language:
        """Return the language of a private chat, as it is known; English where it is not."""
        kept = self._cursors.get(_name(chat)) if self._cursors is not None else ""
        return language_of(kept) or "en"

    async def _keep(self, chat: str, language: Language) -> None:
        cursors = self._cursors
        # English is what nobody has to remember, and a channel that never ran stays new.
        if cursors is None or cursors.is_new or self.of_chat(chat) == language:
            return
        try:
            await cursors.put(_name(chat), language)
        except (ChannelError, OSError) as error:
            logger.warning("a language cannot be noted", extra={"chat": chat, "error": str(error)})


def _name(chat: str) -> str:
    return f"language {chat}"
