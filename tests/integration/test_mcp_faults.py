"""MCP servers that break the rules: each has a defined outcome, and costs what it has to."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from support.mcp_world import DEADLINE_S, open_world, raw
from support.tables import table

from everturn_gateway.tools.mcp import McpLimits, McpServerSettings
from everturn_gateway.tools.mcp.transports import process, streams

UNDERSTOOD = {
    "answer": "done",
    "banner": "done",
    "bad_text": "d\ufffd\ufffd!",
    "wants_input": "this agent does not let its servers use a model (`sampling` is off)",
    "hologram": "[a part of the type 'hologram', which is not understood here]",
}
UNUSABLE = {
    "huge": "its answer has more than 4 MiB; ask for less",
    "many": "its answer holds more than 50,000 values; ask for less",
    "nonsense": "its answer is no message of the protocol",
    "surrogate": "its answer is no message of the protocol",
    "wrong_part": "its answer does not follow the protocol: content[0]",
    "wrong_shape": "its answer does not follow the protocol: content is not a list",
}
FLOODS = {
    "close_output": "it closed its output",
    "endless_line": "it sends a message that does not end",
    "endless_lines": "what it writes to its standard output are no messages",
    "notifications": "it floods the gateway with messages that nobody asked for",
    "requests": "it floods the gateway with messages that nobody asked for",
}


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that hang are killed at once: what they are given otherwise is tested elsewhere."""
    monkeypatch.setattr(process, "STDIN_S", 0.05)
    monkeypatch.setattr(process, "TERM_S", 0.05)
    monkeypatch.setattr(streams, "UNASKED_MOST", 500)


async def test_a_server_that_breaks_the_rules_costs_what_it_has_to(tmp_path: Path) -> None:
    """A byte that is no text costs nothing, a bad answer its call, a flood the server."""
    # A banner on the standard output, or a byte that is no text, must not cost an answer.
    async with open_world(tmp_path, raw()) as world:
        understood = {name: await world.text(f"raw_{name}") for name in UNDERSTOOD}

        assert understood == UNDERSTOOD

        # Who waits is told at once, and not when the deadline is over; the server keeps its state.
        pid = await world.text("raw_pid")
        whys = {name: await world.failure(f"raw_{name}") for name in UNUSABLE}

        for name, why in UNUSABLE.items():
            assert whys[name].startswith(f"the MCP server 'raw' gave no usable result: {why}")
        assert await world.text("raw_pid") == pid

        # It must not take the gateway's memory, nor keep a call until its deadline.
        for name, why in FLOODS.items():
            pid = await world.text("raw_pid")
            said = await world.failure(f"raw_{name}")

            assert f"went away while it worked on this: {why}. " in said
            assert await world.text("raw_pid") != pid


async def test_calls_do_not_pile_up_in_a_server_that_is_slow(tmp_path: Path) -> None:
    """It holds up nobody else."""
    # Its pipe fills up; the call ends with its deadline, and the stop with the gateway's.
    folder = tmp_path / "deaf"
    folder.mkdir()
    limits = McpLimits(turn_wait_s=DEADLINE_S, call_wait_s=DEADLINE_S, probe_s=0.2)
    async with open_world(folder, raw(), limits=limits) as world:
        async with anyio.create_task_group() as tasks:

            async def fails() -> None:
                assert "too slow" in await world.hanging("raw_deaf", text="x" * 1_000_000)

            for _ in range(3):
                tasks.start_soon(fails)
        await world.until_ended()

        assert await world.text("raw_answer") == "done"

    # A model, or many sessions, could pile up calls without end in a server that is slow.
    folder = tmp_path / "slow"
    folder.mkdir()
    limits = McpLimits(turn_wait_s=DEADLINE_S, call_wait_s=DEADLINE_S, calls=2)
    async with (
        open_world(folder, raw(), limits=limits) as world,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(2):
            tasks.start_soon(world.text, "raw_hang")
        await anyio.wait_all_tasks_blocked()

        assert "it works on 2 calls already" in await world.failure("raw_answer")
        tasks.cancel_scope.cancel()


# --- the handshake -------------------------------------------------------------------------------


@table(
    ("settings", "why"),
    [
        (raw("old"), "it speaks no revision of the protocol that is known here"),
        (raw("future"), "it refuses to begin, and said: too old"),
        (raw("not_mcp"), "what it answers is not the Model Context Protocol"),
        (raw("exit"), "it ended with exit code 3"),
        (raw("silent"), "it did not come up within 0.4 s"),
        (
            McpServerSettings(name="raw", command="no-such-program-here"),
            "there is no program 'no-such-program-here' in ",
        ),
        (McpServerSettings(name="raw", command="./server"), "there is no program '/"),
        (McpServerSettings(name="raw", command="/etc/passwd"), "the program '/etc/passwd' cannot"),
        (McpServerSettings(name="raw", command="a\0b"), "the program 'a\\x00b' cannot"),
        (McpServerSettings(name="raw", command="cat"), "it refuses to begin"),
    ],
)
async def test_a_server_that_cannot_be_met_is_left_out_with_the_reason(
    tmp_path: Path, settings: McpServerSettings, why: str
) -> None:
    """The agent works without it, and whoever runs it can read what to do."""
    limits = McpLimits(
        turn_wait_s=DEADLINE_S, start_s=0.4 if "silent" in settings.args else DEADLINE_S
    )
    async with open_world(tmp_path, settings, limits=limits) as world:
        assert dict(world.box.tools) == {}
        (fault,) = world.box.faults
        assert fault.startswith(f"MCP server 'raw': {why}")


async def test_a_server_of_the_newest_revision_alone_is_met(tmp_path: Path) -> None:
    """It refuses what older ones begin with, and says so; that is no reason to leave it."""
    async with open_world(tmp_path, raw("modern")) as world:
        assert await world.text("raw_answer") == "done"


# --- lies about tools ----------------------------------------------------------------------------


async def listed(folder: Path, *tools: object) -> tuple[list[str], tuple[str, ...]]:
    """Return the tools that an agent gets of a list, and the faults."""
    async with open_world(folder, raw("liar", env={"LIES": json.dumps(tools)})) as world:
        return list(world.box.tools), world.box.faults


async def test_a_tool_with_an_impossible_schema_is_left_out_and_the_others_stay(
    tmp_path: Path,
) -> None:
    """A model API refuses a whole request for one schema: one lie would silence the agent."""
    loop = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}
    tools, faults = await listed(
        tmp_path,
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "text", "inputSchema": "an object, I promise"},
        {"name": "none"},
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "loop", "inputSchema": {**loop, "$defs": {"a": {"$ref": "#/$defs/a"}}}},
        {"name": "huge", "inputSchema": {"type": "object", "description": "x" * 20_000}},
        {"name": "", "inputSchema": {"type": "object"}},
        {"name": "good", "inputSchema": {"type": "object"}},
        "no tool at all",
    )

    assert tools == ["raw_good"]
    assert [fault.removeprefix("MCP server 'raw': ") for fault in faults] == [
        "tool 'text' is left out: its schema cannot be used: the schema: is not an object",
        "tool 'none' is left out: its schema cannot be used: the schema: is not an object",
        (
            "tool 'array' is left out: its schema cannot be used: type: must be object:"
            " arguments have names"
        ),
        "tool 'loop' is left out: its schema cannot be used: #/$defs/a: refers to itself",
        (
            "tool 'huge' is left out: its schema cannot be used: the schema: has 20037 bytes,"
            " more than 16384"
        ),
        "tool 6 is left out: '' is no name",
        "tool 8 is left out: it is no object",
        "tool 'good' is listed twice; the first is used",
    ]


async def test_a_list_of_tools_is_read_so_far_and_what_is_none_is_said(tmp_path: Path) -> None:
    """One that never ends would keep the first turn waiting for ever."""
    # The server is up and useless, and both are said.
    folder = tmp_path / "none"
    folder.mkdir()
    async with open_world(folder, raw("liar", env={"LIES": '"none"'})) as world:
        assert world.box.faults == ("MCP server 'raw': its list of tools is no list",)

    # A server that always has one more page would keep the first turn waiting for ever.
    folder = tmp_path / "endless"
    folder.mkdir()
    async with open_world(folder, raw("endless_list")) as world:
        assert "raw_answer" in world.box.tools
        assert "MCP server 'raw': only the first 32 pages of its list are read" in world.box.faults

    # Checking a list takes its time, and a log with a line for each has no end.
    folder = tmp_path / "many"
    folder.mkdir()
    path = folder / "lies"
    path.write_text(json.dumps([{"name": f"t{n:04}", "inputSchema": n % 2} for n in range(3000)]))
    async with open_world(folder, raw("liar", env={"LIES_FILE": str(path)})) as world:
        assert dict(world.box.tools) == {}
        assert len(world.box.faults) == 21
        assert world.box.faults[0] == (
            "MCP server 'raw': only the first 500 tools on a page of its list are read"
        )
        assert world.box.faults[-1] == "MCP server 'raw': and 481 more faults of this kind"
