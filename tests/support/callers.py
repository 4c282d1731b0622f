"""Calls of several tools from one conversation, and a disk that is full."""

from __future__ import annotations

import resource
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from msgspec.structs import replace
from support.tool_environments import call_tool, tool_context

from everturn_actors.model import Conversation
from everturn_actors.ports import Tool


class Caller:
    """Calls tools by name."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        session_id: str = "s1",
        conversation: Conversation | None = None,
    ) -> None:
        self.tools = {tool.definition.name: tool for tool in tools}
        context = tool_context(conversation=conversation)
        self._context = replace(context, session_id=session_id)

    def as_session(self, session_id: str) -> Caller:
        """Return one that calls the same tools from another conversation."""
        return Caller(self.tools.values(), session_id=session_id)

    async def __call__(self, tool: str, /, **arguments: object) -> str:
        """Return the text of a result that is no error."""
        output = await call_tool(self.tools[tool], arguments, context=self._context)

        assert not output.is_error
        return output.text


@contextmanager
def largest_file(size_bytes: int) -> Generator[None]:
    """Make every write beyond `size_bytes` of a file fail, much as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
