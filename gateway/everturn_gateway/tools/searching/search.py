"""The tools `search_tools` and `use_tool`, and which of an agent's others they stand for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.context.estimation.tokens import estimate_tools, tools_json
from everturn_actors.errors import ToolFailedError
from everturn_actors.json_values import is_object
from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments
from everturn_gateway.tools.searching.ranking import ranked
from everturn_gateway.tools.searching.settings import ToolSearchConfig

SEARCH: Final = "search_tools"
USE: Final = "use_tool"
FOUND_MOST: Final = 8
RESULT_CHARACTERS: Final = 24_000  # of definitions in one result; what is more is only named
NAMED_MOST: Final = 100  # tools that a search in vain names
_DEFERRED: Final = frozenset(("mcp", "cli"))
_DEADLINE_S: Final = 30.0
_CAPABILITIES: Final = ToolCapabilities(
    read_only=True, repeatable=True, safe=True, timeout_s=_DEADLINE_S
)


class _Query(Arguments):
    query: Annotated[str, Field(description="What the tool should do, in a few words; or its name")]


class ToolSearch:
    """Decides which tools of an agent are searched, and holds them."""

    def __init__(
        self, config: ToolSearchConfig, *, window_tokens: int, places: Sequence[str]
    ) -> None:
        """Search nothing yet.

        Args:
            config: When tools are too many.
            window_tokens: Of the agent's model.
            places: Where its tools come from, in words for the model. They stand in each request,
                so they are what its files say, and not what a server says at the moment.
        """
        self._config, self._window_tokens = config, window_tokens
        self._is_on = False
        self.deferred: Mapping[str, Tool] = MappingProxyType({})
        "Those that stand in no request, by name."
        self.tools: tuple[Tool, ...] = (_SearchTools(self, places), _UseTool())
        "What the model has in their place."

    def take(self, tools: Mapping[str, Tool]) -> bool:
        """Take the tools that an agent has now; return whether some of them are searched.

        Once that is so it stays so, as long as there are any: who goes to and fro between the two
        changes the head of every request each time.
        """
        found = {n: t for n, t in tools.items() if t.capabilities.kind in _DEFERRED}
        self._is_on = bool(found) and (self._is_on or self._are_many(tools))
        self.deferred = MappingProxyType(found if self._is_on else {})
        return self._is_on

    def _are_many(self, tools: Mapping[str, Tool]) -> bool:
        config = self._config
        if config.mode != "auto" or len(tools) > config.max_tools:
            return config.mode != "never"
        tokens = estimate_tools([tool.definition for tool in tools.values()])
        return tokens > config.max_window_share * self._window_tokens


class _SearchTools:
    """Finds tools; implements `Tool`."""

    capabilities = _CAPABILITIES

    def __init__(self, search: ToolSearch, places: Sequence[str]) -> None:
        self._search = search
        self.definition = ToolDefinition(
            name=SEARCH,
            description=(
                "Find tools that are not listed here, with their arguments, among those of:"
                f" {', '.join(places)}. Call what you find with {USE}."
            ),
            parameters=parameters(_Query),
        )

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Return the tools that fit best.

        Raises:
            ToolFailedError: The arguments are wrong.
        """
        query = read_arguments(call, _Query).query
        tools = [tool.definition for tool in self._search.deferred.values()]
        found = ranked(query, tools)
        if not found:
            names = sorted(tool.name for tool in tools)
            more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
            return f"Nothing fits. There are: {', '.join(names[:NAMED_MOST])}{more}"
        return _shown(found)


def _shown(found: Sequence[ToolDefinition]) -> str:
    lines, left = [f"Call one of them with {USE}:"], RESULT_CHARACTERS
    shown = 0
    for tool in found[:FOUND_MOST]:
        line = tools_json([tool])[1:-1]
        if len(line) > left and shown:
            break
        lines.append(line)
        left -= len(line)
        shown += 1
    others = [tool.name for tool in found[shown : shown + NAMED_MOST]]
    if others:
        lines.append(f"These fit less: {', '.join(others)}")
    return "\n".join(lines)


class _UseTool:
    """Stands for the tools that are found. A call of it that names one becomes a call of that one.

    So it runs only where it names none; implements `Tool`.
    """

    capabilities = _CAPABILITIES
    definition = ToolDefinition(
        name=USE,
        description=f"Call a tool that {SEARCH} found.",
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"As {SEARCH} shows it"},
                "arguments": {"type": "object", "description": "Those of the tool"},
            },
            "required": ["name", "arguments"],
        },
    )

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Say what is wrong with the call.

        Raises:
            ToolFailedError: Always.
        """
        msg = f"it names no tool that there is, in `name`; {SEARCH} finds those that there are"
        raise ToolFailedError(msg)


def call_behind(call: ToolCall, names: Mapping[str, object]) -> ToolCall:
    """Return the call that a call of `use_tool` means; any other is returned as it is. Pure.

    Args:
        call: As the model wrote it.
        names: Of the agent's tools.
    """
    if call.name != USE:
        return call
    try:
        said: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call
    name = said.get("name") if is_object(said) else None
    if not is_object(said) or not isinstance(name, str) or name not in names or name == USE:
        return call
    arguments = said.get("arguments", {})
    # Some models write the arguments as the text that other tools would get.
    text = arguments if isinstance(arguments, str) else _json(arguments)
    return ToolCall(call_id=call.call_id, name=name, arguments=text)


def call_before(call: ToolCall) -> ToolCall:
    """Return the call of `use_tool` that means a call of a found tool. Pure."""
    try:
        arguments: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments
    said = _json({"name": call.name, "arguments": arguments})
    return ToolCall(call_id=call.call_id, name=USE, arguments=said)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
