"""The prompts of MCP servers over HTTP: a person chooses one, fills it in and sends it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
import yaml
from mcp_types import INVALID_PARAMS
from support.command import start
from support.command import write_agent as write_only_agent
from support.gateway import open_http_gateway, write_agent
from support.mcp_server import HttpServer, open_http_server, refusal
from support.mcp_world import DEADLINE_S, open_world
from support.tables import table

from everturn_gateway.tools.mcp import McpServerSettings
from everturn_gateway.tools.mcp.errors import McpAnswerError
from everturn_gateway.tools.mcp.prompts import sifted_messages, sifted_prompts

PROMPTS = "/api/v1/agents/helper/prompts"
TOPIC = {"name": "topic", "description": "Of what.", "required": True}


@asynccontextmanager
async def opened(
    folder: Path, *, is_modern: bool = False
) -> AsyncGenerator[tuple[httpx2.AsyncClient, HttpServer]]:
    """Serve an agent with one MCP server, which has a prompt."""
    with anyio.fail_after(DEADLINE_S):
        async with open_http_server(is_modern=is_modern, has_prompts=True) as http:
            await anyio.to_thread.run_sync(write, folder, http.url)
            async with open_http_gateway(folder) as gateway, gateway.client() as client:
                yield client, http


def write(folder: Path, url: str) -> None:
    """Write the agent."""
    file = write_agent(folder / "agents", name="helper")
    document = yaml.safe_load(file.read_text())
    document["spec"]["tools"] = [{"type": "mcp", "name": "wiki", "url": url}]
    file.write_text(yaml.safe_dump(document))


@table("is_modern", [False, True])
async def test_a_person_fills_a_prompt_in_and_sends_it(tmp_path: Path, *, is_modern: bool) -> None:
    """The text is the server's, so the turn that answers it has read text from outside."""
    async with opened(tmp_path, is_modern=is_modern) as (client, _):
        listed = (await client.get(PROMPTS)).json()["prompts"]
        filled = {"name": "wiki:summarize", "arguments": {"topic": "cats"}}
        text = (await client.post(PROMPTS, json=filled)).json()["content"]
        session = (await client.post("/api/v1/sessions", json={"agent": "helper"})).json()["id"]
        sent = {"content": text, "untrusted": True}
        await client.post(f"/api/v1/sessions/{session}/messages", json=sent)
        events = await client.get(f"/api/v1/sessions/{session}/messages")

    assert listed == [
        {"name": "wiki:summarize", "description": "Sums it up.", "arguments": [TOPIC]}
    ]
    assert text == "Sum up what is known of cats.\n\nassistant: Gladly."
    assert events.json()["messages"][0]["content"] == text
    logs = [each.read_text() for each in (tmp_path / "workspace").rglob("events*.jsonl")]
    assert '"untrusted":true' in "".join(logs)


async def test_a_person_at_the_terminal_sends_one(tmp_path: Path) -> None:
    """`/prompt` lists them and sends one; a slip costs a line, not the conversation."""
    with anyio.fail_after(DEADLINE_S):
        async with open_http_server(has_prompts=True) as http:
            await anyio.to_thread.run_sync(write_command_agent, tmp_path, http.url)
            typed = (
                "/prompt",
                "/prompt wiki:zebra",
                "/prompt wiki:summarize topic",
                "/prompt wiki:summarize topic='big cats'",
            )
            async with start("chat", cwd=tmp_path) as running:
                done = await running.end("".join(f"{line}\n" for line in typed).encode())

    said = done.out + done.err
    assert "/prompt wiki:summarize topic=... - Sums it up." in said
    assert "there is no prompt 'wiki:zebra'; there are: wiki:summarize" in said
    assert "'topic' has no =" in said
    assert "Sum up what is known of big cats." in said
    logs = [each.read_text() for each in (tmp_path / ".everturn").rglob("events*.jsonl")]
    assert '"untrusted":true' in "".join(logs)


def write_command_agent(folder: Path, url: str) -> None:
    """Write an agent for the command."""
    file = write_only_agent(folder)
    tools = f"  tools:\n    - {{type: mcp, name: wiki, url: '{url}'}}\n"
    file.write_text(file.read_text() + tools)


async def test_what_a_prompt_lacks_is_said(tmp_path: Path) -> None:
    """By the server, in its words, where it is the arguments; and when the server is away."""
    async with opened(tmp_path) as (client, http):
        await client.get(PROMPTS)
        unknown = await client.post(PROMPTS, json={"name": "wiki:zebra"})
        elsewhere = await client.post(PROMPTS, json={"name": "summarize"})
        missing = await client.post(PROMPTS, json={"name": "wiki:summarize"})
        http.is_away = True
        away = await client.post(PROMPTS, json={"name": "wiki:summarize"})
        other = await client.get("/api/v1/agents/test/prompts")
        nobody = await client.get("/api/v1/agents/nobody/prompts")

    assert unknown.status_code == elsewhere.status_code == nobody.status_code == 404
    assert unknown.json()["detail"] == (
        "there is no prompt 'wiki:zebra'; there are: wiki:summarize"
    )
    assert (missing.status_code, missing.json()["detail"]) == (422, "topic is missing")
    assert (away.status_code, away.json()["detail"]) == (502, "its answer broke off")
    assert other.json() == {"prompts": []}


async def test_prompts_that_cannot_be_listed_cost_no_tool(tmp_path: Path) -> None:
    """What is wrong with them is told to whoever runs the agent."""
    broken = b"{not json"
    for answer, why in (
        (refusal(400, INVALID_PARAMS), "The server refuses it."),
        ((200, {"content-type": "application/json"}, broken), "its answer is no message"),
    ):
        async with open_http_server(has_prompts=True) as http:
            http.body_answers[b'"prompts/list"'] = answer
            settings = McpServerSettings(name="wiki", url=http.url)
            async with open_world(tmp_path, settings) as world:
                (fault,) = world.box.faults

                assert await world.text("wiki_echo", text="x") == "x"
                assert fault.startswith(f"MCP server 'wiki': its prompts cannot be listed: {why}")


def test_what_a_server_lists_wrongly_costs_the_entry_alone() -> None:
    """A list with one prompt that is none is still a list."""
    right = {"name": "a", "arguments": [{"name": "b"}, {"name": 7}, None], "description": "x\ny"}
    found = sifted_prompts({"prompts": [right, {"name": ""}, {"name": "c\n"}, 7]})["prompts"]

    assert found == [
        {
            "name": "a",
            "description": "x y",
            "arguments": [{"name": "b", "description": "", "required": False}],
        }
    ]
    for messages in ([], None, [7]):
        with pytest.raises(McpAnswerError, match="does not follow the protocol"):
            sifted_messages({"messages": messages})
