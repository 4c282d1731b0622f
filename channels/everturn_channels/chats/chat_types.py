"""What kind of chat a conversation is in, as far as it was seen since the start. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from everturn_actors.model import ConversationKey
from everturn_channels.adapter import ChatRef, ChatType

CHATS_MAX: Final = 10_000  # the one that was silent longest goes; it is seen anew when it speaks


class ChatTypes:
    """Remembers the kind of each chat of one channel."""

    def __init__(self, chats: int = CHATS_MAX) -> None:
        self._chats = chats
        self._types: OrderedDict[str, ChatType] = OrderedDict()

    def note(self, chat: ChatRef) -> None:
        """Remember a chat."""
        self._types[chat.id] = chat.type
        self._types.move_to_end(chat.id)
        if len(self._types) > self._chats:
            self._types.popitem(last=False)

    def type_of(self, key: ConversationKey) -> ChatType:
        """Return the kind of a conversation's chat; a group where nothing was heard from it yet.

        What a group can be shown, a person alone can be shown as well.
        """
        return self._types.get(key.chat, "group")
