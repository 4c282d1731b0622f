"""The tool itself: what the model is told of it, and what becomes of a call."""

from __future__ import annotations

import logging
from typing import Final, assert_never

import anyio

from everturn_actors.errors import JournalError, ToolFailedError
from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.recall.answers import Answers
from everturn_gateway.tools.recall.asking import (
    AskCall,
    Asked,
    AskFile,
    AskMessage,
    AskOverview,
    AskRange,
    AskSearch,
    read_arguments,
)
from everturn_gateway.tools.recall.messages import NAME
from everturn_gateway.tools.recall.pages import PAGE_CHARACTERS
from everturn_gateway.tools.recall.searching import search

logger = logging.getLogger(__name__)

DEADLINE_S: Final = 60.0  # of one call; a log of 100,000 events is searched in a few seconds

_CAPABILITIES: Final = ToolCapabilities(read_only=True, safe=True)

# Sent with every request: as short as it can be understood.
_DEFINITION: Final = ToolDefinition(
    name=NAME,
    description=(
        "Read back what is hidden or shortened in this conversation. Give one of message, call_id,"
        " from/to, file, search; nothing for an overview."
    ),
    parameters={
        "type": "object",
        "properties": {
            "message": {"type": "integer", "description": "number of a message"},
            "call_id": {"type": "string"},
            "from": {"type": "integer", "description": "first number of a range"},
            "to": {"type": "integer"},
            "file": {"type": "string"},
            "search": {"type": "string", "description": "plain words, all of them"},
            "page": {"type": "integer"},
        },
    },
)


class RecallContext:
    """Reads back what the model is not shown; implements `Tool`.

    It sees the session in which it is called and no other, writes nothing, and holds one chunk of
    the log at a time.
    """

    definition = _DEFINITION
    capabilities = _CAPABILITIES
    "It reads this conversation alone."

    def __init__(self, *, page_characters: int = PAGE_CHARACTERS) -> None:
        """Answer with at most `page_characters`, and estimated tokens, beside a short heading."""
        self._limit = page_characters

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
        answers = Answers(context, page=asked.page, limit=self._limit)
        text = await self._text(asked, answers)
        if not answers.sources:
            return text
        source = f"what was read back of {', '.join(answers.sources)}"
        return ToolOutput(text=text, untrusted=True, source=source)

    async def _text(self, asked: Asked, answers: Answers) -> str:
        match asked.ask:
            case AskMessage(seq=seq):
                return await answers.message(seq)
            case AskCall(call_id=call_id):
                return await answers.call(call_id)
            case AskRange(first=first, last=last):
                return await answers.between(first, last)
            case AskFile(name=name):
                return await answers.file(name)
            case AskSearch(query=query):
                return await search(answers, query)
            case AskOverview():
                return await answers.overview()
            case _:
                assert_never(asked.ask)
