"""`everturn mcp`, started by the official client of the protocol as a desktop program starts it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult
from support.command import environment, everturn, start, write_agent, write_scripted
from support.json_lines import line, until
from support.mcp_clients import ERAS, Heard, Person
from support.patience import WAIT_S
from support.process import EVERTURN, gateway_process
from support.warm_start import everturn_command

DEADLINE_S = WAIT_S
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


@asynccontextmanager
async def open_command(
    folder: Path, era: str, person: Person | None = None
) -> AsyncGenerator[Client]:
    """Start `everturn mcp` in a folder, for one era the installed one, and connect to it."""
    mode: Any = era
    command, *args = (str(EVERTURN),) if era == ERAS[0] else await run_sync(everturn_command)
    server = StdioServerParameters(
        command=command, args=[*args, "mcp"], cwd=folder, env=environment()
    )
    asked = person.answer if person else None
    async with Client(server, mode=mode, elicitation_callback=asked) as client:
        yield client


@pytest.mark.parametrize("era", ERAS)
async def test_it_serves_where_no_gateway_runs(tmp_path: Path, era: str) -> None:
    """A folder with an agent is enough; the person at the client answers for its calls."""
    agent = anyio.Path(await run_sync(write_agent, tmp_path))
    tools = "  tools:\n    - {type: builtin, name: bash}\n"
    await agent.write_text(await agent.read_text() + tools)
    heard, person = Heard(), Person([ElicitResult(action="accept", content={"decision": "deny"})])
    with anyio.fail_after(DEADLINE_S):
        async with open_command(tmp_path, era, person) as client:
            (tool,) = (await client.list_tools()).tools
            done = await client.call_tool(
                "ask_helper",
                {"text": 'call bash {"command": "touch made"}'},
                progress_callback=heard.take,
            )
            (session,) = (await client.list_resources()).resources
        listed = await everturn("sessions", "list", cwd=tmp_path)

    assert tool.name == "ask_helper"
    assert not done.is_error
    assert "touch made" in person.asked[0].message
    assert any("touch made" in text for text in heard.texts)
    assert session.name == done.structured_content["session"]
    assert session.name in listed.out
    assert not await run_sync(lambda: any(tmp_path.rglob("made")))


async def test_a_client_that_goes_leaves_the_turn_to_the_running_gateway(tmp_path: Path) -> None:
    """The command is a line to the gateway: when its program quits, the agent goes on."""
    await run_sync(write_scripted, tmp_path, "replies:\n  - {chunks: [one, two], delay_ms: 500}\n")
    await anyio.Path(tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
    with anyio.fail_after(DEADLINE_S):
        async with gateway_process(tmp_path) as gateway, gateway.client() as http:
            begun = await http.post("/api/v1/sessions", json={"agent": "helper"})
            session = begun.json()["id"]
            call = {"name": "ask_helper", "arguments": {"text": "Hello", "session": session}}
            async with start("mcp", cwd=tmp_path) as running:
                await running.write(line("initialize", INITIALIZE))
                await running.until('"serverInfo"')
                await running.write(line("tools/call", call))
                await until(http, session, "turn_started")
                left = await running.end()
            finished = await until(http, session, "turn_finished")

    assert left.code == 0
    assert finished["outcome"] == "answered"
