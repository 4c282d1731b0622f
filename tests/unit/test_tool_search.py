"""When tools are searched, and what a search finds."""

from __future__ import annotations

import json

import pytest
from support.tables import table
from support.tool_doubles import Deed

from everturn_actors.errors import ToolFailedError
from everturn_actors.journal.memory import open_memory_store
from everturn_actors.model import ConversationKey, ToolCall, ToolDefinition
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext, ToolKind
from everturn_gateway.tools.searching import ToolSearch, ToolSearchConfig
from everturn_gateway.tools.searching.ranking import ranked
from everturn_gateway.tools.searching.search import call_behind


def tool(name: str, description: str = "", *arguments: str) -> ToolDefinition:
    """Return a definition."""
    properties = {each: {"type": "string"} for each in arguments}
    parameters = {"type": "object", "properties": properties}
    return ToolDefinition(name=name, description=description, parameters=parameters)


TOOLS = [
    tool("github_create_issue", "Opens an issue in a repository.", "repository", "title"),
    tool("github_list_issues", "Lists the issues of a repository.", "repository", "state"),
    tool("github_search_code", "Finds lines of code.", "query"),
    tool("weather_getForecast", "What the weather will be in a city.", "city"),
    tool("mail_send", "Sends a message.", "to", "subject"),
]


@table(
    ("query", "first"),
    [
        ("create an issue", "github_create_issue"),
        ("list issues", "github_list_issues"),
        ("weather forecast", "weather_getForecast"),
        ("searching code", "github_search_code"),
        ("mail_send", "mail_send"),
        ("something with a subject", "mail_send"),
        ("Forecasts", "weather_getForecast"),
    ],
)
def test_a_search_finds_by_names_descriptions_and_arguments(query: str, first: str) -> None:
    """A model says what it wants to do, and seldom the very words of a server."""
    assert ranked(query, TOOLS)[0].name == first


def test_what_has_no_word_of_it_is_not_found() -> None:
    """A model that is shown tools which do not fit uses them."""
    assert ranked("zebra", TOOLS) == []
    assert "mail_send" not in [each.name for each in ranked("weather", TOOLS)]


def search(
    count: int, *, kind: ToolKind = "mcp", window_tokens: int = 100_000, **given: object
) -> tuple[ToolSearch, dict[str, Tool]]:
    """Return a search, and so many tools."""
    config = ToolSearchConfig(**given)  # type: ignore[arg-type]
    made = ToolSearch(config, window_tokens=window_tokens, places=["the MCP server wiki"])
    capabilities = ToolCapabilities(kind=kind)
    return made, {f"t{n}": Deed(f"t{n}", capabilities=capabilities) for n in range(count)}


@table(
    ("count", "settings", "searched"),
    [
        (30, {}, 0),
        (31, {}, 31),
        (3, {"max_tools": 2}, 3),
        (31, {"mode": "never"}, 0),
        (1, {"mode": "always"}, 1),
        (0, {"mode": "always"}, 0),
        (10, {"window_tokens": 300}, 10),
        (31, {"kind": "builtin"}, 0),
        (31, {"kind": "cli"}, 31),
    ],
)
def test_tools_are_searched_where_they_are_too_many(
    count: int, settings: dict[str, object], searched: int
) -> None:
    """By number, by their share of the window, or as their owner says; built-in ones never."""
    made, tools = search(count, **settings)  # type: ignore[arg-type]
    made.take(tools)

    assert len(made.deferred) == searched


def test_who_is_searched_stays_searched() -> None:
    """A server that drops a tool for a moment must not change the head of every request twice."""
    made, tools = search(31)
    made.take(tools)
    tools.pop("t0")

    assert made.take(tools)
    assert not made.take({})


async def test_a_result_shows_a_few_and_names_the_others() -> None:
    """Definitions of hundreds of tools are what the search is there to keep out."""
    made, tools = search(31)
    made.take(tools)
    finding, using = made.tools
    async with open_memory_store() as store:
        key = ConversationKey(channel="test", chat="chat", agent="helper")
        context = ToolContext(session_id="s", key=key, store=store)

        async def said(query: str) -> str:
            call = ToolCall(
                call_id="c", name="search_tools", arguments=json.dumps({"query": query})
            )
            return str(await finding.run(call, context))

        few = await said("t 1")
        none = await said("zebra")
        with pytest.raises(ToolFailedError, match="search_tools finds"):
            await using.run(ToolCall(call_id="c", name="use_tool"), context)

    assert few.count('"type":"function"') == 8
    assert "These fit less: " in few
    assert none.startswith("Nothing fits. There are: t0, t1, ")


@table(
    ("arguments", "name"),
    [
        ('{"name": "t1", "arguments": {"a": 1}}', "t1"),
        ('{"name": "t1", "arguments": "{\\"a\\": 1}"}', "t1"),
        ('{"name": "t1"}', "t1"),
        ('{"name": "zebra", "arguments": {}}', "use_tool"),
        ('{"name": "use_tool", "arguments": {}}', "use_tool"),
        ('{"name": ["t1"]}', "use_tool"),
        ("not JSON", "use_tool"),
        ("[]", "use_tool"),
    ],
)
def test_a_call_becomes_that_of_the_tool_it_names(arguments: str, name: str) -> None:
    """The policy and the person who is asked see what runs; a name that is none runs nothing."""
    call = ToolCall(call_id="c", name="use_tool", arguments=arguments)

    assert call_behind(call, {"t1": None, "use_tool": None}).name == name
