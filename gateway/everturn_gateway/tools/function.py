"""A tool made of its parts, for tools that need no state of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments

ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


class FunctionTool(Generic[ArgumentsT]):
    """A function behind a definition; implements `Tool`."""

    def __init__(
        self,
        name: str,
        description: str,
        *,
        arguments: type[ArgumentsT],
        capabilities: ToolCapabilities,
        answer: Callable[[ArgumentsT, ToolContext], Awaitable[str | ToolOutput]],
    ) -> None:
        """Offer `answer` under `name`; `arguments` is checked before it is called."""
        self.definition = ToolDefinition(
            name=name, description=description, parameters=parameters(arguments)
        )
        self._arguments, self.capabilities, self._answer = arguments, capabilities, answer

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Run one call.

        Raises:
            ToolFailedError: The arguments do not fit, or it failed.
        """
        return await self._answer(read_arguments(call, self._arguments), context)
