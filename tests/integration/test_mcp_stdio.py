"""MCP servers that are programs: what an agent can do with them, and that none outlives its use."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from support.children import Children
from support.mcp_server import CHART
from support.mcp_world import (
    DEADLINE_S,
    gone,
    is_running,
    make_site,
    open_world,
    raw,
    stdio,
)

from everturn_actors.errors import ToolFailedError
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.model import ToolCall
from everturn_actors.testing import ManualClock
from everturn_gateway.tools.mcp import McpLimits, McpLogins, McpTool, open_mcp
from everturn_gateway.tools.mcp.errors import McpDownError
from everturn_gateway.tools.mcp.listing import RemoteDefinition
from everturn_gateway.tools.mcp.results import RESULT_CHARACTERS
from everturn_gateway.tools.mcp.transports import process
from everturn_gateway.tools.policy.subjects import FromServer

# --- what there is to call -----------------------------------------------------------------------


async def test_tools_and_results_come_as_the_official_server_gives_them(tmp_path: Path) -> None:
    """One server, one start: the whole way from `tools/list` to every kind of result."""
    some = ("charts", "e*", "p*", "f*", "s*", "r*", "nothing")
    server = replace(stdio(name="my.docs", include=some, is_warm=True), send_images=True)
    async with open_world(tmp_path, server) as world:
        tools = world.box.tools
        echo = tools["my_docs_echo"]

        assert list(tools) == sorted(tools)
        assert "my_docs_hang" not in tools
        assert echo.definition.description == "Says the text again."
        assert echo.definition.parameters == {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        }
        assert isinstance(echo, FromServer)
        assert (echo.server, echo.remote_name) == ("my.docs", "echo")
        assert world.box.faults == ()

        said = await world.call("my_docs_echo", text="Grüße 漢字 🔥")
        assert (said.text, said.is_error, said.untrusted) == ("Grüße 漢字 🔥", False, True)
        damaged = await world.call("my_docs_picture")
        assert damaged.text.startswith("[image 1 (image/png, 1,000 bytes)]\n[image 1 (")
        assert damaged.images == damaged.files == ()
        charts = await world.call("my_docs_charts", count=10)
        assert charts.text.split("\n")[7:9] == [
            f"[image 8 (image/png, {len(b64decode(CHART))} bytes)]",
            f"[image (image/png, {len(b64decode(CHART))} bytes), which is not shown]",
        ]
        assert [image.data for image in charts.images] == [b64decode(CHART)] * 8
        assert charts.files == charts.images, "people get what the model sees, and it knows"
        assert charts.files[0].file_name == "image 1.png"
        assert charts.text.endswith("[the images were sent to the people of this conversation]")
        assert charts.untrusted
        assert (await world.text("my_docs_everything")).split("\n") == [
            "first",
            "[audio (audio/wav, 1,000 bytes), which is not shown]",
            "[a link to 'notes': file:///notes.txt, text/plain, 12 bytes]",
            "[file:///notes.txt]",
            "inside",
            "[file:///a.bin (application/octet-stream, 1,000 bytes), which is not shown]",
            "last",
        ]
        assert await world.text("my_docs_structured") == '{"degrees":21}'
        assert await world.text("my_docs_nothing") == "(the tool returned nothing)"
        failed = await world.call("my_docs_fail")
        assert (failed.text, failed.is_error, failed.untrusted) == ("no such page", True, True)
        refused = await world.call("my_docs_refuse")
        assert refused.is_error
        assert refused.untrusted
        assert refused.text == (
            "the MCP server 'my.docs' does not take these arguments: the colour must be a number"
        )
        flood = await world.text("my_docs_flood", characters=2 * RESULT_CHARACTERS)
        assert flood.startswith("x" * RESULT_CHARACTERS + "\n[cut here: the result has 2,000,000")


async def test_claims_of_a_server_hold_where_its_owner_trusts_it(tmp_path: Path) -> None:
    """A server that calls itself harmless would otherwise run without a question, twice."""
    hints = {"readOnlyHint": True, "idempotentHint": True}
    tool = {"name": "answer", "inputSchema": {"type": "object"}, "annotations": hints}
    lies = {"LIES": json.dumps([tool])}
    async with open_world(
        tmp_path,
        raw("liar", name="a", env=lies),
        raw("liar", name="b", env=lies, trusted=True),
    ) as world:
        stranger, friend = (
            world.box.tools["a_answer"].capabilities,
            world.box.tools["b_answer"].capabilities,
        )

        assert (stranger.kind, stranger.safe) == ("mcp", False)
        assert (stranger.read_only, stranger.repeatable) == (False, False)
        assert (friend.read_only, friend.repeatable, friend.safe) == (True, True, False)
        assert (await world.call("a_answer")).untrusted
        assert not (await world.call("b_answer")).untrusted


async def test_a_trusted_server_vouches_for_no_file_from_outside(tmp_path: Path) -> None:
    """Its owner trusts the program, and not whoever wrote the page that it reads."""
    async with open_world(tmp_path, replace(stdio(name="a", is_warm=True), trusted=True)) as world:
        files = world.environment.files

        def write() -> None:
            for name in ("own", "page"):
                (files / name).write_text(name)
            with (files / "page").open() as page:
                world.environment.marks.mark(page.fileno(), ("the page x",))

        await anyio.to_thread.run_sync(write)
        own = await world.call("a_look", path=str(files / "own"))
        read = await world.call("a_look", path=str(files / "page"))

        assert (own.text, own.untrusted) == ("own", False)
        assert (read.text, read.untrusted) == ("page", True)
        assert read.source == "what look of the MCP server a gave, with text from: the page x"


async def test_a_call_that_goes_wrong_is_told_and_costs_nothing_else(tmp_path: Path) -> None:
    """Neither the connection nor the turn; the model learns what to do."""
    # A message that breaks the connection would cost every call that is at work.
    wrong = {
        "[1]": "must be a JSON object",
        "{": "not JSON",
        '{"a": NaN}': "NaN is no number",
        '{"a": "\\ud800"}': "not JSON",
        "[" * 100_000: "not JSON",
    }
    async with open_world(tmp_path, raw()) as world:
        pid, tool = await world.text("raw_pid"), world.box.tools["raw_answer"]
        for arguments, why in wrong.items():
            with pytest.raises(ToolFailedError, match=why):
                await tool.run(ToolCall(call_id="c", name="x", arguments=arguments), world.context)

        assert await world.text("raw_pid") == pid

        # A list may be older than the server; the model has to learn that, and the turn goes on.
        removed = McpTool("raw_gone", RemoteDefinition(name="gone"), world.connection)
        output = await world.run(removed)

        assert output.is_error
        assert "Unknown tool: gone" in output.text

        # A tool that hangs must not hang the turn, nor cost the server its other work.
        pid = await world.text("raw_pid")
        why = await world.hanging("raw_hang")
        told = await world.text("raw_until_cancelled")

        assert why == (
            "the MCP server 'raw' was too slow: it did not answer within 0.2 s, and was told to"
            " stop. Whether the call took effect is unknown; look before you repeat it"
        )
        assert told == "cancelled"
        assert await world.text("raw_pid") == pid


async def test_what_a_server_is_given_and_says_is_kept_from_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway's keys are not the server's, and its own are in no log."""
    # The gateway's keys are not the server's, and what a model writes is not what it loads.
    folder = tmp_path / "given"
    folder.mkdir()
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "sk-secret", "HOME": "/home/x"}
    settings = raw(env={"TOKEN": "t-123456", "DATA": "{{agent.workspace}}:{{agent.home}}"})
    async with open_world(folder, settings, environ=environ) as world:
        where, *variables = (await world.text("raw_place")).split("\n")
        found = dict(each.split("=", 1) for each in variables)
        found.pop("LC_CTYPE", None)  # Python sets it for itself

        assert where == str(world.environment.home)
        assert found == {
            "PATH": environ["PATH"],
            "HOME": "/home/x",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TOKEN": "t-123456",
            "DATA": f"{world.environment.files}:{world.environment.home}",
        }
        assert world.environment.secrets.mask("it is t-123456") == "it is ***"

    # It is how an operator finds out what ails a server; it may hold what it was given.
    folder = tmp_path / "says"
    folder.mkdir()
    caplog.set_level(logging.DEBUG, "everturn_gateway")
    async with open_world(folder, raw(env={"TOKEN": "t-123456"})) as world:
        await world.call("raw_complain", text="the token t-123456 is wrong\n" * 300)
    lines = [r for r in caplog.records if r.getMessage() == "MCP server says"]

    assert len(lines) == process.LOGGED_LINES
    assert {record.levelno for record in lines} == {logging.DEBUG}
    assert {vars(record)["line"] for record in lines} == {"the token *** is wrong"}
    assert [r.getMessage() for r in caplog.records].count(
        "MCP server says more, which is not logged"
    ) == 1


# --- slow, stopped, killed -----------------------------------------------------------------------


async def test_a_cancelled_call_ends_at_once_and_the_server_is_told(tmp_path: Path) -> None:
    """`/stop` has a second; the work that nobody waits for any more has to stop as well."""
    async with open_world(tmp_path, stdio(is_warm=True)) as world:
        pid = await world.text("test_pid")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.text, "test_hang")
            await world.text("test_until_hanging", count=1)
            tasks.cancel_scope.cancel()
        await world.text("test_until_cancelled", count=1)

        assert await world.text("test_pid") == pid


async def test_a_server_that_answers_nothing_any_more_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process would otherwise cost every call to come its whole deadline."""
    monkeypatch.setattr(process, "STDIN_S", 0.05)
    limits = McpLimits(turn_wait_s=DEADLINE_S, call_wait_s=DEADLINE_S, probe_s=0.2)
    async with open_world(tmp_path, raw(), limits=limits) as world:
        pid = await world.text("raw_pid")
        why = await world.hanging("raw_stop")
        await world.until_ended()

        assert "did not answer" in why
        assert not is_running(int(pid))
        assert await world.text("raw_pid") != pid


async def test_a_server_killed_in_the_middle_of_a_call_is_back_for_the_next(tmp_path: Path) -> None:
    """The model learns that the outcome is unknown, and the agent stays whole without a restart."""
    async with open_world(tmp_path, raw()) as world:
        before = dict(world.box.tools)
        pid = int(await world.text("raw_pid"))
        whys: list[str] = []

        async def hang() -> None:
            whys.append(await world.failure("raw_hang"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang)
            await anyio.wait_all_tasks_blocked()
            assert int(await world.text("raw_pid")) == pid  # behind the call, which is there then
            os.kill(pid, signal.SIGKILL)
        await world.prepare()

        assert whys == [
            (
                "the MCP server 'raw' went away while it worked on this: it was ended by SIGKILL."
                " Whether the call took effect is unknown; look before you repeat it. The server is"
                " started again with the next call"
            )
        ]
        assert dict(world.box.tools) == before
        assert int(await world.text("raw_pid")) != pid


async def test_a_server_that_keeps_dying_is_left_alone_for_a_while(tmp_path: Path) -> None:
    """A crash loop would take the machine; a call in between is told when to try again."""
    async with open_world(tmp_path, raw("exit", env={"SOME_TOKEN": "t-123456"})) as world:
        (fault,) = world.box.faults
        tool = McpTool("raw_x", RemoteDefinition(name="x"), world.connection)
        whys: list[str] = []
        for advance_s in (0, 1, 0):
            world.clock.advance(advance_s)
            with pytest.raises(ToolFailedError) as failed:
                await world.run(tool)
            whys.append(str(failed.value))

        assert fault == (
            "MCP server 'raw': it ended with exit code 3, and said: the key *** is not valid"
        )
        down = "the MCP server 'raw' is not there, and nothing was sent to it: "
        # What it said is not for the model: nobody vouches for it.
        assert whys == [
            f"{down}it ended with exit code 3; it is tried again in 1 s",
            f"{down}it ended with exit code 3",
            f"{down}it ended with exit code 3; it is tried again in 5 s",
        ]


# --- processes -----------------------------------------------------------------------------------


async def test_nothing_is_started_before_the_first_turn(tmp_path: Path, children: Children) -> None:
    """Twenty agents with servers that nobody talks to cost nothing."""
    site, clock = make_site(tmp_path), ManualClock()
    logins = McpLogins(MemoryKeyedStore(), clock, site.secrets)
    async with open_mcp(clock=clock, logins=logins) as servers:
        box = servers.toolbox(site, (raw(),))
        await anyio.wait_all_tasks_blocked()

        assert children() == []
        assert dict(box.tools) == {}


async def test_no_process_is_left_when_the_gateway_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the server nor what it started; orphans would pile up with each restart."""
    async with open_world(tmp_path, raw()) as world:
        server, child = int(await world.text("raw_pid")), int(await world.text("raw_spawn"))
        watched = os.pidfd_open(child)
        assert is_running(server)
        assert is_running(child)
    await gone(watched)

    assert not is_running(server)
    # A stop is not a failure of the servers.
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_nothing_is_left_of_a_server_that_was_killed_or_has_no_agent(
    tmp_path: Path, children: Children
) -> None:
    """Nor of what it had started."""
    # `npx` and `uvx` start the server as a child of theirs; it must not stay when they go.
    async with open_world(tmp_path, raw()) as world:
        server, child = int(await world.text("raw_pid")), int(await world.text("raw_spawn"))
        watched = os.pidfd_open(child)
        os.kill(server, signal.SIGKILL)
        await gone(watched)

        assert int(await world.text("raw_pid")) != server

        # An agent whose file was removed has no more turns that would notice.
        world.servers.retire("helper")
        await world.until_ended()

        assert children() == []


async def test_a_server_that_ignores_every_request_to_end_is_killed(tmp_path: Path) -> None:
    """A stop of the gateway must not wait for a server that does not want to."""
    async with open_world(tmp_path, raw("stubborn")) as world:
        pid = int(await world.text("raw_pid"))

    assert not is_running(pid)


async def test_a_server_is_closed_when_it_is_idle_and_not_before(tmp_path: Path) -> None:
    """Servers take memory; an agent that is not talked to needs none, and keeps its prompt."""
    # Fifteen minutes count from the last turn or call, not from the start.
    async with open_world(tmp_path, raw()) as world:
        before = await world.text("raw_pid")
        for _ in range(3):
            await world.clock.until_sleeping(15 * 60)
            world.clock.advance(14 * 60)
            await world.text("raw_answer")

        assert await world.text("raw_pid") == before

        # Servers take memory; an agent that is not talked to needs none, and keeps its prompt.
        pid = int(await world.text("raw_pid"))
        await world.clock.until_sleeping(15 * 60)
        world.clock.advance(15 * 60)
        await world.until_ended()

        assert not is_running(pid)
        assert "raw_answer" in world.box.tools
        assert world.box.faults == ()
        assert await world.text("raw_answer") == "done"


async def test_servers_follow_the_settings_of_their_agent(
    tmp_path: Path, children: Children
) -> None:
    """A reload must not restart what did not change, nor leave what is gone."""
    async with open_world(tmp_path, raw(name="a"), raw(name="b")) as world:
        pids = [await world.text("a_pid"), await world.text("b_pid")]
        same = world.servers.toolbox(world.environment, (raw(name="a"), raw(name="b")))
        await same.prepare()
        assert same.tools.keys() == world.box.tools.keys()
        assert [(await world.run(same.tools[f"{name}_pid"])).text for name in "ab"] == pids

        world.servers.toolbox(world.environment, (raw(name="b", timeout_s=7),))
        for connection in world.box._connections:
            await world.until_ended(connection)
        assert children() == []

        # A turn that began with the old settings still gets its answer, and leaves nothing.
        assert await world.text("a_answer") == "done"
        await world.until_ended()
        assert children() == []


async def test_of_two_servers_of_one_name_there_is_the_first(tmp_path: Path) -> None:
    """Their tools could not be told apart, by the model or by a policy."""
    async with open_world(tmp_path, raw(), stdio(name="raw")) as world:
        assert "raw_answer" in world.box.tools
        assert "raw_echo" not in world.box.tools
        assert world.box.faults == ("two MCP servers have the same name; the first is used",)


# --- the list ------------------------------------------------------------------------------------


async def test_a_changed_list_is_there_with_the_next_turn(tmp_path: Path) -> None:
    """Servers add tools when a person logs in; often is not a reason to list them all the time."""
    async with open_world(tmp_path, stdio(is_warm=True)) as world:
        await world.text("test_grow", name="second")
        with anyio.fail_after(DEADLINE_S):
            await world.clock.until_sleeping(5)
        assert "test_second" not in world.box.tools
        await world.prepare()
        assert "test_second" in world.box.tools

        await world.text("test_grow", name="third")
        await world.text("test_grow", name="fourth")
        await world.prepare()
        assert "test_third" not in world.box.tools

        world.clock.advance(5)
        with anyio.fail_after(DEADLINE_S):
            await world.clock.until_sleeping(5)
        await world.prepare()
        assert {"test_third", "test_fourth"} <= world.box.tools.keys()


async def test_a_server_that_does_not_come_up_costs_no_other_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known stands before every turn, and nothing in it may wait."""
    # It stands before every turn of every agent; nothing in it may wait, nor change the prompt.
    folder = tmp_path / "known"
    folder.mkdir()
    async with open_world(folder, raw()) as world:
        tools = world.box.tools
        with pytest.raises(StopIteration) as done:
            world.box.prepare().send(None)

        assert done.value.value is tools
        assert world.box.tools is tools

    # One server that hangs must not silence the agent; it is waited for once.
    folder = tmp_path / "slow"
    folder.mkdir()
    monkeypatch.setattr(process, "STDIN_S", 0.05)
    slow, limits = raw("silent", name="slow"), McpLimits(turn_wait_s=0.2, call_wait_s=0.1)
    async with open_world(folder, slow, limits=limits) as world:
        assert dict(world.box.tools) == {}
        with pytest.raises(McpDownError, match="it is still starting; try again later"):
            await world.connection.call("x", {})
        world.box = world.servers.toolbox(world.environment, (slow, raw()))
        world.box._turn_wait_s = 2 * DEADLINE_S
        await world.prepare()

        assert "raw_answer" in world.box.tools
        assert not any(name.startswith("slow") for name in world.box.tools)


async def test_the_extra_is_asked_for_by_name_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the log has to know what to type."""
    package = "everturn_gateway.tools.mcp"
    for name in ("wire", "stdio", "streamable", "streams"):
        monkeypatch.delitem(sys.modules, f"{package}.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with open_world(tmp_path, raw()) as world:
        assert world.box.faults == (
            "MCP server 'raw': MCP servers need the package mcp: run `pip install 'everturn[mcp]'`",
        )
