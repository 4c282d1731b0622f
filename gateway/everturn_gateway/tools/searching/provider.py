"""Between a session and its model: found tools are called through `use_tool`.

The log, the policy, the person who is asked: all of them see the call of the tool itself. The model
sees what it wrote, then and in every later request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from everturn_actors.model import AnyMessage, ModelRequest, Reply, ToolResult
from everturn_actors.ports import ModelProvider, Tool, counted_by
from everturn_gateway.tools.searching.search import USE, call_before, call_behind


class SearchingProvider:
    """A model whose tools are searched; implements `ModelProvider`."""

    def __init__(self, provider: ModelProvider, tools: Mapping[str, Tool]) -> None:
        """Speak with `provider`.

        Args:
            provider: The model.
            tools: All that the agent has, live.
        """
        self._provider, self._tools = provider, tools

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """See `ModelProvider.complete`."""
        written = _written(request)
        reply = await self._provider.complete(written, on_text)
        if written is request:  # it has no such tool, whatever the model calls
            return reply
        if not any(call.name == USE for call in reply.calls):
            return reply
        calls = tuple(call_behind(call, self._tools) for call in reply.calls)
        return replace(reply, calls=calls)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what a request would cost; see `PromptCounter.count_tokens`."""
        return await counted_by(self._provider, _written(request))


def _written(request: ModelRequest) -> ModelRequest:
    """Return a request as its model wrote and read it."""
    listed = {tool.name for tool in request.tools}
    if USE not in listed:
        return request
    messages = tuple(_as_written(message, listed) for message in request.messages)
    return dataclasses.replace(request, messages=messages)


def _as_written(message: AnyMessage, listed: set[str]) -> AnyMessage:
    """Return a message as the model wrote or read it."""
    match message:
        case Reply(calls=calls) if any(call.name not in listed for call in calls):
            written = (each if each.name in listed else call_before(each) for each in calls)
            return replace(message, calls=tuple(written))
        case ToolResult(name=name) if name not in listed:
            return replace(message, name=USE)
        case _:
            return message
