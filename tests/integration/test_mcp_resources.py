"""The resources of MCP servers, read by an agent; the servers are the official package's."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest
from support.mcp_server import CHART, open_http_server
from support.mcp_world import McpWorld, open_world
from support.tables import table

from everturn_gateway.tools.mcp import McpServerSettings
from everturn_gateway.tools.mcp.errors import McpAnswerError
from everturn_gateway.tools.mcp.resources import sifted_contents, sifted_page
from everturn_gateway.tools.policy.subjects import policy_name_of


@table("is_modern", [False, True])
async def test_an_agent_lists_and_reads_what_a_server_has(
    tmp_path: Path, *, is_modern: bool
) -> None:
    """Page by page; texts and images, from outside like everything that a server says."""
    async with (
        open_http_server(is_modern=is_modern, has_resources=True) as http,
        open_world(tmp_path, McpServerSettings(name="web", url=http.url)) as world,
    ):
        first = await world.call("web_resources_list")
        more = await world.text("web_resources_list", cursor="1")
        read = await world.call("web_resources_read", uri="notes://today")
        chart = await world.call("web_resources_read", uri="notes://chart")
        unknown = await world.call("web_resources_read", uri="notes://zebra")
        wrong = await world.call("web_resources_read")

        assert first.text.splitlines() == [
            "- notes://today: today, What happened.",
            "Addresses with parts to fill in:",
            "- notes://{day}: a day",
            "There are more, with cursor '1'",
        ]
        assert more == "- notes://chart: chart, image/png"
        assert (read.text, read.untrusted) == ("[notes://today]\nAnn has a cat.", True)
        assert [image.data for image in chart.images] == [b64decode(CHART)]
        assert unknown.is_error
        assert unknown.text.endswith("Unknown resource: notes://zebra")
        assert wrong.text.endswith("uri has to be a text")
        assert _names(world) == ["web:resources/list", "web:resources/read"]


def _names(world: McpWorld) -> list[str]:
    return [policy_name_of(tool) for name, tool in world.box.tools.items() if "resources" in name]


async def test_an_owner_who_names_tools_names_resources_too(tmp_path: Path) -> None:
    """`include` says all that an agent gets of a server, and a server without any offers none."""
    only = McpServerSettings
    async with open_http_server(has_resources=True) as http:
        async with open_world(tmp_path, only(name="a", url=http.url, include=("echo",))) as world:
            assert list(world.box.tools) == ["a_echo"]
        some = ("echo", "resources/*")
        async with open_world(tmp_path, only(name="a", url=http.url, include=some)) as world:
            assert sorted(world.box.tools) == ["a_echo", "a_resources_list", "a_resources_read"]
    async with (
        open_http_server() as http,
        open_world(tmp_path, only(name="a", url=http.url)) as world,
    ):
        assert "a_resources_list" not in world.box.tools


def test_what_a_server_lists_wrongly_costs_the_entry_alone() -> None:
    """A list with one address that is none is still a list."""
    entries = [
        {"uri": "a:b", "name": "x" * 500},
        {"uri": 7},
        {},
        None,
        {"uri": "a\nb"},
        {"uri": "c:d"},
    ]
    page = sifted_page("resources/list", {"resources": entries})

    assert [each["uri"] for each in page["resources"]] == ["a:b", "c:d"]
    assert page["resources"][0]["name"] == f"{'x' * 200}…"
    assert sifted_page("resources/list", {"resources": 1})["resources"] == []
    with pytest.raises(McpAnswerError, match="contents is not a list"):
        sifted_contents({"contents": {}})
