"""The memory tools: what the model is told of them, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.errors import ToolFailedError
from everturn_actors.outside import AND_MORE, together
from everturn_actors.ports import Clock, Tool, ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.arguments import Arguments
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.function import FunctionTool
from everturn_gateway.tools.memory.notes import Notes, UnreadNotesError, folders_of, sources_in
from everturn_gateway.tools.quoting import PAGE_TOKENS, page_of

DAYS_MAX: Final = 366
_READS: Final = ToolCapabilities(read_only=True, safe=True, timeout_s=60)
_REWRITES: Final = ToolCapabilities(repeatable=True, safe=True, timeout_s=60)
_ADDS: Final = ToolCapabilities(safe=True, timeout_s=60)

_NOTED: Final = "notes that were written after reading "
_DIRECTIVE: Final = """\
You have notes that outlast this conversation:
- recall reads them. Do so at the beginning of a conversation in which they may help, not before \
every answer.
- remember adds to the notes of the day. Do so after learning something worth knowing later: about \
people, what they want, what was decided.
- reflect reads your long-term notes, or replaces them with content. At the end of a longer piece \
of work read them, then write them anew with what you learnt; keep them short.
- update_world replaces what all agents know of a topic.
Never note passwords or keys."""


class Recall(Arguments):
    """What to read."""

    days: Annotated[int, Field(ge=1, le=DAYS_MAX)] = Field(default=3, description="of daily notes")
    page: Annotated[int, Field(ge=1)] = 1


class Remember(Arguments):
    """What to add."""

    content: str


class Reflect(Arguments):
    """What to write."""

    content: str | None = Field(
        default=None, description="the new MEMORY.md as a whole; leave out to read it"
    )


class UpdateWorld(Arguments):
    """What to write."""

    topic: str = Field(description="such as people, systems, preferences")
    content: str = Field(description="all that is known of it; replaces what was")


def memory_directive() -> str:
    """Return what an agent with these tools is told of them in its prompt."""
    return _DIRECTIVE


def memory_tools(environment: ToolEnvironment, *, clock: Clock) -> tuple[Tool, ...]:
    """Return the memory tools of one agent.

    Its notes are kept in `environment.home`, those that all agents share in `environment.state`;
    days are those of UTC.
    """
    memory = _Memory(environment, clock)
    return (
        FunctionTool(
            "recall",
            "Read your notes: long-term memory, recent days, and what all agents know.",
            arguments=Recall,
            capabilities=_READS,
            answer=memory.recall,
        ),
        FunctionTool(
            "remember",
            "Add something you learnt to today's notes.",
            arguments=Remember,
            capabilities=_ADDS,
            answer=memory.remember,
        ),
        FunctionTool(
            "reflect",
            "Read your long-term memory (MEMORY.md), or replace it. Read it first.",
            arguments=Reflect,
            capabilities=_REWRITES,
            answer=memory.reflect,
        ),
        FunctionTool(
            "update_world",
            "Replace what all agents know of a topic. Recall it first.",
            arguments=UpdateWorld,
            capabilities=_REWRITES,
            answer=memory.update_world,
        ),
    )


class _Memory:
    def __init__(self, environment: ToolEnvironment, clock: Clock) -> None:
        self._own, self._world = folders_of(environment.home, environment.state)
        self._notes, self._clock = Notes(self._own, self._world), clock

    async def recall(self, asked: Recall, context: ToolContext) -> ToolOutput:
        work = partial(self._page, asked, context.session_id)
        return await self._own.run(work, reads=True)

    async def remember(self, asked: Remember, context: ToolContext) -> str:
        now, sources = self._clock.now(), sources_behind(context)
        work = partial(self._notes.remember, now, asked.content.strip(), sources)
        file = await self._own.run(work)
        return f"noted in memory/{file}"

    async def reflect(self, asked: Reflect, context: ToolContext) -> str | ToolOutput:
        if asked.content is None:
            work = partial(self._memory, context.session_id)
            return await self._own.run(work, reads=True)
        sources = sources_behind(context)
        write = partial(self._notes.reflect, context.session_id, asked.content, sources)
        try:
            await self._own.run(write)
        except UnreadNotesError as error:
            if not error.sources:
                raise
            return _output(str(error), error.sources, is_error=True)
        return "MEMORY.md is replaced"

    async def update_world(self, asked: UpdateWorld, context: ToolContext) -> str | ToolOutput:
        topic, sources = asked.topic, sources_behind(context)
        update = self._notes.update_world
        work = partial(update, context.session_id, topic, asked.content, sources)
        try:
            return f"memory/world/{await self._world.run(work)} is replaced, for all agents"
        except UnreadNotesError as error:
            if not error.sources:
                raise
            return _output(str(error), error.sources, is_error=True)

    def _memory(self, session_id: str) -> ToolOutput:
        text = self._notes.memory()
        self._notes.saw(session_id, "MEMORY.md", text)
        if not text.strip():
            return ToolOutput(text="MEMORY.md is empty; call reflect with content to begin it")
        return _output(text, sources_in(text))

    def _page(self, asked: Recall, session_id: str) -> ToolOutput:
        sections = self._notes.sections(self._clock.now(), asked.days)
        if not sections:
            return ToolOutput(text="there are no notes yet")
        text = "\n\n".join(f"{each.heading}\n\n{each.text}".strip() for each in sections)
        page = page_of(text, asked.page, PAGE_TOKENS)
        if page is None:
            msg = f"page: there is no page {asked.page} of these notes"
            raise ToolFailedError(msg)
        for each in sections:
            # What stands on another page was not read, and is not to be overwritten unread.
            if each.file and each.text.strip() in page.text:
                self._notes.saw(session_id, each.file, each.text)
        more = f"\n\n(page {page.number} of {page.total})" if page.total > 1 else ""
        # Of a note that begins on one page and ends on the next, only one of them shows the mark.
        sources = together(*(each.sources for each in sections))
        return _output(f"{page.text}{more}", sources)


def _output(text: str, sources: Sequence[str], *, is_error: bool = False) -> ToolOutput:
    """Return notes; those that were written while text from outside was shown are such text."""
    if not sources:
        return ToolOutput(text=text, is_error=is_error)
    named = ", ".join(each.removeprefix(_NOTED) for each in sources if each != AND_MORE)
    return ToolOutput(text=text, is_error=is_error, untrusted=True, source=f"{_NOTED}{named}")
