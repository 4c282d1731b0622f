"""A tool that writes a file of the workspace, and says which before it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.environment import FileWrite

ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


class Writer(Struct, frozen=True):
    """Which call writes."""

    session_id: str
    call_id: str
    "In that session."
    outside: tuple[str, ...]
    "The text from outside that may be behind it, by source."


class WritingTool(Generic[ArgumentsT]):
    """A function that writes, behind a definition; implements `Tool` and `WritesFiles`."""

    def __init__(
        self,
        name: str,
        description: str,
        *,
        arguments: type[ArgumentsT],
        capabilities: ToolCapabilities,
        write: Callable[[ArgumentsT, Writer], Awaitable[str | ToolOutput]],
        intent: Callable[[ArgumentsT], Awaitable[FileWrite]],
    ) -> None:
        """Offer `write` under `name`; `intent` says what it would write, and writes nothing."""
        self.definition = ToolDefinition(
            name=name, description=description, parameters=parameters(arguments)
        )
        self._arguments, self.capabilities = arguments, capabilities
        self._write, self._intent = write, intent

    async def write_of(self, call: ToolCall) -> FileWrite | None:
        """Return which file the call would write; None where it would fail before."""
        try:
            return await self._intent(read_arguments(call, self._arguments))
        except ToolFailedError:
            return None

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Run one call.

        Raises:
            ToolFailedError: The arguments do not fit, or it failed.
        """
        by = Writer(context.session_id, call.call_id, sources_behind(context))
        return await self._write(read_arguments(call, self._arguments), by)
