"""`/search` in a chat: what was said in this conversation, in all its sessions."""

from __future__ import annotations

from typing import Final

from everturn_actors.model import ConversationKey
from everturn_actors.ports.search import MessageIndex, MessageQuery, SearchPlace
from everturn_actors.service import TurnService
from everturn_channels.texts import FoundLine, found_text
from everturn_gateway.search.finding import find, snippet
from everturn_gateway.search.logs import ServiceLogs
from everturn_gateway.search.texts import sender_of

_LINES: Final = 8
_SNIPPET_CHARACTERS: Final = 300


async def search_conversation(
    service: TurnService, messages: MessageIndex, key: ConversationKey, text: str
) -> str:
    """Return what fits a question or words best of what people and the agent said, as Markdown.

    Other conversations of the same person are not looked at: others may read along in this one.
    """

    async def may_see(session_id: str) -> bool:
        row = await service.reader.summary(session_id)
        return row is not None and row.key == key

    query = MessageQuery(
        text=text,
        places=(SearchPlace(conversation=key),),
        roles=frozenset(("user", "assistant")),
        limit=_LINES,
    )
    page = await find(messages, query, ServiceLogs(service), may_see)
    lines = [
        FoundLine(
            at=each.event.at,
            who=sender_of(each.event) if each.role == "user" else key.agent,
            text=snippet(each, _SNIPPET_CHARACTERS),
        )
        for each in page.found
    ]
    return found_text(lines, is_whole=page.searched_to is None)
