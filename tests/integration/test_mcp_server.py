"""The MCP server at `/mcp`, used by the official client of the protocol."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitResult, TextResourceContents
from support.gateway import HttpGateway, open_http_gateway
from support.mcp_clients import ERAS, Heard, Person, open_mcp_client, said
from support.patience import WAIT_S
from support.shell_agents import results, running, shell_agent, until_asked
from support.tables import table

from everturn_actors.events import TurnFinished

DEADLINE_S = WAIT_S
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
BOTH = {"Accept": "application/json, text/event-stream"}


async def outcomes(gateway: HttpGateway, session_id: str) -> list[str]:
    """Return how the turns of a session ended."""
    log = await gateway.service.history(session_id, after=0, limit=200)
    return [event.body.outcome for event in log if isinstance(event.body, TurnFinished)]


async def ask(client: Client, text: str, **more: Any) -> CallToolResult:
    """Ask the agent `test`."""
    return await client.call_tool("ask_test", {"text": text, **more})


@table("era", ERAS)
async def test_an_agent_is_a_tool_and_its_session_a_resource(tmp_path: Path, era: str) -> None:
    """The whole way: find it, ask it, go on with it, read what was said."""
    heard = Heard()
    async with open_http_gateway(tmp_path) as gateway, open_mcp_client(gateway, era) as client:
        with anyio.fail_after(DEADLINE_S):
            (tool,) = (await client.list_tools()).tools
            first = await client.call_tool(
                "ask_test", {"text": "Hello"}, progress_callback=heard.take
            )
            session = first.structured_content["session"]
            second = await ask(client, "And again", session=session)
            other = await ask(client, "Elsewhere")
            listed = (await client.list_resources()).resources
            read = await client.read_resource(f"everturn://sessions/{session}")

        assert (tool.name, tool.title) == ("ask_test", "test")
        assert tool.description == "Asks the agent test. For tests"
        assert (said(first), first.is_error) == ("reply 1", False)
        assert first.structured_content == {
            "session": session,
            "outcome": "answered",
            "reply": "reply 1",
            "refused": [],
            "files": [],
        }
        assert heard.texts == ["reply 1"]
        assert said(second) == "reply 2"
        assert other.structured_content["session"] != session
        assert {str(each.uri) for each in listed} == {
            f"everturn://sessions/{session}",
            f"everturn://sessions/{other.structured_content['session']}",
        }
        (contents,) = read.contents
        assert isinstance(contents, TextResourceContents)
        for text in ("Hello", "reply 1", "And again", "reply 2"):
            assert text in contents.text


@table("era", ERAS)
async def test_a_cancelled_request_stops_the_turn(tmp_path: Path, era: str) -> None:
    """A person who presses stop at the client means the agent, not the line to it."""
    async with open_http_gateway(tmp_path) as gateway, open_mcp_client(gateway, era) as client:
        gateway.provider.hold()
        session = await gateway.session()
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: ask(client, "stop me", session=session))
                await gateway.provider.until_called(1)
                tasks.cancel_scope.cancel()
            async for update in gateway.service.watch(session, after=0):
                if isinstance(getattr(update, "body", None), TurnFinished):
                    break

        assert await outcomes(gateway, session) == ["cancelled"]


async def test_a_request_that_was_accepted_is_finished_once(tmp_path: Path) -> None:
    """Whoever is there to read it, and however often it is sent."""
    # What was accepted is finished, whoever is there to read it.
    folder = tmp_path / "leaves"
    folder.mkdir()
    async with open_http_gateway(folder) as gateway:
        gateway.provider.hold()
        session = await gateway.session()
        headers: dict[str, str] = {}
        call = {"name": "ask_test", "arguments": {"text": "go on", "session": session}}
        with anyio.fail_after(DEADLINE_S):
            async with gateway.client() as http:
                begun = await http.post("/mcp", json=INITIALIZE, headers=BOTH)
                headers = {"Mcp-Session-Id": begun.headers["mcp-session-id"], **BOTH}
                body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
                async with http.stream("POST", "/mcp", json=body, headers=headers):
                    await gateway.provider.until_called(1)
                ended = await http.delete("/mcp", headers=headers)
            gateway.provider.release()
            async for update in gateway.service.watch(session, after=0):
                if isinstance(getattr(update, "body", None), TurnFinished):
                    break

        assert ended.status_code == 200
        assert await outcomes(gateway, session) == ["answered"]

    # A line that broke before the answer came must not have the agent do things twice.
    folder = tmp_path / "again"
    folder.mkdir()
    async with open_http_gateway(folder) as gateway, gateway.client() as http:
        begun = await http.post("/mcp", json=INITIALIZE, headers=BOTH)
        headers = {"Mcp-Session-Id": begun.headers["mcp-session-id"], **BOTH}
        call = {"name": "ask_test", "arguments": {"text": "once"}}
        body = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": call}
        first = await http.post("/mcp", json=body, headers=headers)
        again = await http.post("/mcp", json=body, headers=headers)

        assert len(gateway.provider.requests) == 1
        assert _result(first) == _result(again)


@table("era", ERAS)
async def test_the_person_at_the_client_is_asked(tmp_path: Path, era: str) -> None:
    """A call that waits is decided where the conversation is, and is shown as it is."""
    answers = [
        (ElicitResult(action="accept", content={"decision": "allow_once"}), True),
        (ElicitResult(action="accept", content={"decision": "deny"}), False),
        (ElicitResult(action="decline"), False),
    ]
    person = Person()
    async with (
        shell_agent(tmp_path) as gateway,
        open_mcp_client(gateway, era, person=person) as client,
    ):
        for answer, runs in answers:
            person.answers.append(answer)
            gateway.provider.script += [running("echo hi"), "Done."]
            done = await client.call_tool("ask_second", {"text": "look"})
            (found,) = await results(gateway, done.structured_content["session"])

            question = person.asked.pop()
            assert person.asked == []
            assert isinstance(question, ElicitRequestFormParams)
            assert "echo hi" in question.message
            decision = question.requested_schema["properties"]["decision"]
            assert decision["enum"] == ["allow_once", "allow_always", "deny"]
            assert (found == "hi") is runs, answer
            assert said(done) == "Done."


@table("era", ERAS)
async def test_a_question_without_an_answer_stays_open_for_others(tmp_path: Path, era: str) -> None:
    """A dismissed form is no decision; and a client without forms is told how to answer."""
    heard, person = Heard(), Person([ElicitResult(action="cancel")])
    answers: list[CallToolResult] = []
    async with shell_agent(tmp_path) as gateway:
        gateway.provider.script += [running("whoami"), "Done."]
        session = await gateway.session("second")

        async def ask_second() -> None:
            call = {"text": "look", "session": session}
            async with open_mcp_client(gateway, era, person=person) as client:
                answers.append(
                    await client.call_tool("ask_second", call, progress_callback=heard.take)
                )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_second)
            asked = await until_asked(gateway, session)
            await person.is_asked.wait()
            await gateway.service.decide(
                session, asked.call_id, "deny", by="ann", arguments_hash=asked.arguments_hash
            )

        assert len(person.asked) == 1
        assert said(answers[0]) == "Done."
        assert "not allowed" in (await results(gateway, session))[0]


async def test_a_caller_sees_does_and_is_asked_what_its_token_allows(tmp_path: Path) -> None:
    """The same rules as on every route; what is not the caller's is not there."""
    folder = tmp_path / "sees"
    folder.mkdir()
    person = Person()
    async with shell_agent(folder) as gateway:
        ann = await gateway.token("ann", "talk", agents=("second",))
        bob = await gateway.token("bob", "read")
        gateway.provider.script += ["mine"]
        async with open_mcp_client(gateway, "legacy", token=ann, person=person) as client:
            tools = [each.name for each in (await client.list_tools()).tools]
            mine = await client.call_tool("ask_second", {"text": "Hello"})
            with pytest.raises(MCPError, match="no tool 'ask_test'; there are: ask_second"):
                await ask(client, "Hello")
        address = f"everturn://sessions/{mine.structured_content['session']}"
        async with open_mcp_client(gateway, "2026-07-28", token=bob) as client:
            seen = (await client.list_resources()).resources
            with pytest.raises(MCPError, match="there is no resource"):
                await client.read_resource(address)
            refused = await ask(client, "Hello")
        async with gateway.client() as http:
            foreign = await http.post("/mcp", json=INITIALIZE, headers={"Host": "evil.example"})
        async with gateway.client(token=ann) as http:
            begun = await http.post("/mcp", json=INITIALIZE, headers=BOTH)
        stolen = {"Mcp-Session-Id": begun.headers["mcp-session-id"], **BOTH}
        async with gateway.client(token=bob) as http:
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            other = await http.post("/mcp", json=listing, headers=stolen)

        assert tools == ["ask_second"]
        assert (said(mine), seen) == ("mine", [])
        assert refused.is_error
        assert "this needs the scope talk" in said(refused)
        assert foreign.status_code == 403
        assert other.status_code == 404  # another one's session of the protocol

    # Without the scope `approve` the client is told that somebody else has to decide.
    folder = tmp_path / "asked"
    folder.mkdir()
    heard, person = Heard(), Person()
    async with shell_agent(folder) as gateway:
        token = await gateway.token("ann", "talk")
        gateway.provider.script += [running("whoami"), "Done."]

        async def decide() -> None:
            await heard.until("`everturn approve ")
            (session,) = await gateway.service.reader.sessions(after="", limit=2)
            await gateway.service.decide(session.session_id, "c1", "deny", by="bob")

        async with (
            open_mcp_client(gateway, "2026-07-28", token=token, person=person) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(decide)
            call = {"text": "look"}
            done = await client.call_tool("ask_second", call, progress_callback=heard.take)

        assert (said(done), person.asked) == ("Done.", [])


async def test_bad_input_is_an_error_of_the_protocol(tmp_path: Path) -> None:
    """Whatever a client sends, it is told what is wrong, and the gateway goes on."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        open_mcp_client(gateway, "2026-07-28") as client,
        gateway.client() as http,
    ):
        told: dict[str, str] = {}
        wrong: dict[str, dict[str, Any]] = {
            "empty": {"text": " "},
            "missing": {},
            "unknown": {"text": "x", "temperature": 1},
            "session": {"text": "x", "session": "../agents"},
        }
        for name, arguments in wrong.items():
            result = await client.call_tool("ask_test", arguments)
            assert result.is_error
            told[name] = said(result)
        with pytest.raises(MCPError, match="not one of this server"):
            await client.session.call_tool("ask_test", {"text": "x"}, request_state="{}")
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource("everturn://sessions/../../etc")
        with pytest.raises(MCPError):
            await client.list_resources(cursor="x" * 500)
        plain = await http.post("/mcp", content=b"{", headers=BOTH)
        without = await http.get("/mcp", headers=BOTH)
        put = await http.put("/mcp")

        assert told["empty"] == "the text is empty"
        assert "missing required field `text`" in told["missing"]
        assert "unknown field `temperature`" in told["unknown"]
        assert told["session"] == "there is no session '../agents'"
        assert (plain.status_code, without.status_code, put.status_code) == (400, 400, 405)
        assert put.headers["allow"] == "DELETE, GET, POST"
        assert said(await ask(client, "Still there?")) == "reply 1"


def _result(answer: httpx2.Response) -> str:
    (line,) = [each for each in answer.text.splitlines() if '"result"' in each]
    return line


@table("era", ERAS)
async def test_a_stopping_gateway_lets_clients_go_and_keeps_the_turn(
    tmp_path: Path, era: str
) -> None:
    """A restart in the middle of an answer costs the answer's line, not the answer."""
    told: list[str] = []

    async def ask_and_be_cut(gateway: HttpGateway, session: str) -> None:
        try:
            async with open_mcp_client(gateway, era) as client:
                told.append(said(await ask(client, "go on", session=session)))
        except* (MCPError, httpx2.HTTPError) as error:
            told.append(str(error))

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks, open_http_gateway(tmp_path) as gateway:
            gateway.provider.hold()
            session = await gateway.session()
            tasks.start_soon(ask_and_be_cut, gateway, session)
            await gateway.provider.until_called(1)
        async with open_http_gateway(tmp_path) as gateway:
            async for update in gateway.service.watch(session, after=0):
                if isinstance(getattr(update, "body", None), TurnFinished):
                    break
            ended = await outcomes(gateway, session)

    assert len(told) == 1
    assert ended == ["answered"]


async def test_the_extra_is_asked_for_by_name_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the package is needed before somebody comes with the protocol."""
    monkeypatch.delitem(sys.modules, "everturn_gateway.http.mcp.sessions", raising=False)
    for name in ("mcp", "mcp.server.auth.middleware.bearer_auth"):
        monkeypatch.setitem(sys.modules, name, None)
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as http:
        answer = await http.post("/mcp", json=INITIALIZE, headers=BOTH)

    assert answer.status_code == 501
    assert answer.json()["detail"].endswith("run `pip install 'everturn[mcp]'`")


def test_the_package_is_not_loaded_before_a_client_comes() -> None:
    """It takes a second, which a start of the gateway must not pay."""
    code = (
        "import sys, everturn_gateway.http.application, everturn_gateway.commands.serving.serve;"
        " sys.exit(not {'mcp', 'mcp_types'}.isdisjoint(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
