"""The tool itself: what the model is told of it, and what becomes of a call."""

from __future__ import annotations

import logging
from typing import Final, assert_never

import anyio

from everturn_actors.errors import JournalError, ToolFailedError
from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.config.links import NO_LINKS, Links
from everturn_gateway.tools.environment import ServiceLink
from everturn_gateway.tools.places import seen_from
from everturn_gateway.tools.recall.answers import Answers
from everturn_gateway.tools.recall.messages import NAME
from everturn_gateway.tools.recall.pages import PAGE, PageSize
from everturn_gateway.tools.recall.queries import (
    AskCall,
    Asked,
    AskFile,
    AskMessage,
    AskOverview,
    AskRange,
    AskSearch,
    AskSummary,
    read_arguments,
)
from everturn_gateway.tools.recall.scopes import Reach
from everturn_gateway.tools.recall.searching import search

logger = logging.getLogger(__name__)

DEADLINE_S: Final = 60.0  # of one call; a log of 100,000 events is searched in a few seconds

_CAPABILITIES: Final = ToolCapabilities(read_only=True, safe=True)

# Sent with every request: as short as it can be understood.
_DEFINITION: Final = ToolDefinition(
    name=NAME,
    description=(
        "Read back what is hidden or shortened in this conversation, or was said in earlier ones."
        " Give one of message, call_id, from/to, file, summary, search; nothing for an overview."
    ),
    parameters={
        "type": "object",
        "properties": {
            "message": {"type": "integer", "description": "number of a message"},
            "call_id": {"type": "string"},
            "from": {"type": "integer", "description": "first number of a range"},
            "to": {"type": "integer"},
            "file": {"type": "string"},
            "summary": {"type": "integer", "description": "a turn; gives the parts"},
            "search": {"type": "string", "description": "question or words"},
            "scope": {
                "enum": ["session", "person", "agent"],
                "description": "of search: here, all talks with this person, all you may read",
            },
            "sender": {"type": "string", "description": "of search"},
            "since": {"type": "string", "description": "day, 2026-05-07"},
            "until": {"type": "string"},
            "session": {"type": "string", "description": "of message or from/to"},
            "page": {"type": "integer"},
        },
    },
)


class RecallContext:
    """Reads back what the model is not shown; implements `Tool`.

    It sees the session in which it is called and, where a search is told to, others that the same
    people may see. It writes nothing, and holds one chunk of a log at a time.
    """

    definition = _DEFINITION
    capabilities = _CAPABILITIES
    "It reads what the people of this conversation may see."

    def __init__(
        self,
        *,
        page: PageSize = PAGE,
        link: ServiceLink | None = None,
        read_from: tuple[str, ...] = (),
        links: Links = NO_LINKS,
    ) -> None:
        """Answer with at most a page, beside a short heading.

        Args:
            page: How much one answer has.
            link: Where the index of what was said is connected; None = each search makes its own.
            read_from: Conversations that the owner opened to all of the agent's.
            links: Who is one person in several chats.
        """
        self._limit, self._link, self._read_from = page, link, read_from
        self._links = links

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Return one page of what is asked for, as a quote that says where it comes from.

        What holds text from outside, or was written by a model that was shown some, still does.

        Raises:
            ToolFailedError: The arguments make no sense, there is no such thing, or the log cannot
                be read.
        """
        asked = read_arguments(call.arguments)
        try:
            with anyio.fail_after(DEADLINE_S):
                return await self._answer(asked, context)
        except TimeoutError as error:
            msg = f"it took longer than {DEADLINE_S:g} s; ask for less"
            raise ToolFailedError(msg) from error
        except JournalError as error:
            logger.warning(
                "what was said cannot be read back",
                extra={"session_id": context.session_id, "error": str(error)},
            )
            msg = "this conversation's log cannot be read now; go on without it"
            raise ToolFailedError(msg) from error

    async def _answer(self, asked: Asked, context: ToolContext) -> str | ToolOutput:
        seen = await seen_from(context)
        reach = Reach(context=seen, read_from=self._read_from, links=self._links)
        if asked.session_id:
            await self._check_session(asked.session_id, reach)
        answers = Answers(context, page=asked.page, limit=self._limit, session_id=asked.session_id)
        text = await self._text(asked, answers, reach)
        if asked.session_id and not answers.sources:
            row = await context.store.summary(asked.session_id)
            if row is None or not reach.is_own(row.key):
                answers.sources = (f"the conversation {asked.session_id}",)
        if not answers.sources:
            return text
        source = f"what was read back of {', '.join(answers.sources)}"
        return ToolOutput(text=text, untrusted=True, source=source)

    async def _check_session(self, session_id: str, reach: Reach) -> None:
        """Refuse a session that may not be read, like one that is not there.

        Raises:
            ToolFailedError: It may not be read.
        """
        row = await reach.context.store.summary(session_id)
        if row is None or not reach.admits("agent", row):
            msg = f"session: there is no {session_id[:64]!r} that may be read here"
            raise ToolFailedError(msg)

    async def _text(self, asked: Asked, answers: Answers, reach: Reach) -> str:
        match asked.ask:
            case AskMessage(seq=seq):
                return await answers.message(seq)
            case AskCall(call_id=call_id):
                return await answers.call(call_id)
            case AskRange(first=first, last=last):
                return await answers.between(first, last)
            case AskFile(name=name):
                return await answers.file(name)
            case AskSearch() as wanted:
                index = self._link.messages if self._link is not None else None
                return await search(answers, wanted, reach, index)
            case AskSummary(turn=turn):
                return await answers.summary(turn)
            case AskOverview():
                return await answers.overview()
            case _:
                assert_never(asked.ask)
