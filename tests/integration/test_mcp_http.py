"""MCP servers behind an address: the official server, and every HTTP error there is to expect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from mcp_types import INVALID_PARAMS
from support.mcp_server import open_http_server, refusal
from support.mcp_world import DEADLINE_S, McpWorld, open_world
from support.tables import table

from everturn_gateway.tools.mcp import McpServerSettings
from everturn_gateway.tools.mcp.transports import streamable

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


def at(
    url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 60
) -> McpServerSettings:
    """Return the settings of a server behind an address."""
    return McpServerSettings(name="web", url=url, headers=headers or {}, timeout_s=timeout_s)


async def test_tools_are_listed_and_called_with_the_owners_headers(tmp_path: Path) -> None:
    """The whole way over HTTP; a key that is missing from one request fails that one only."""
    headers = {"Authorization": "Bearer k-123456", "X-Team": "blue"}
    async with (
        open_http_server() as http,
        open_world(tmp_path, at(http.url, headers=headers)) as world,
    ):
        said = await world.call("web_echo", text="Grüße")

        assert (said.text, said.untrusted) == ("Grüße", True)
        assert len(http.requests) >= 4
        for _, sent in http.requests:
            assert sent["authorization"] == "Bearer k-123456"
            assert sent["x-team"] == "blue"
            assert sent["accept-encoding"] == "identity"
        assert world.environment.secrets.mask("k-123456 blue") == "*** blue"
        assert (await world.text("web_refuse")).endswith("the colour must be a number")


async def test_a_cancelled_call_ends_at_once_and_the_server_is_told(tmp_path: Path) -> None:
    """Over HTTP the request would otherwise go on at the server, and the connection with it."""
    folder = tmp_path / "older"
    folder.mkdir()
    async with open_http_server() as http, open_world(folder, at(http.url)) as world:
        await _cancel_one(world)

        assert http.service.cancelled == 1

    # It has no handshake and no session, and cancels by closing the stream of an answer.
    folder = tmp_path / "newest"
    folder.mkdir()
    async with (
        open_http_server(is_modern=True) as http,
        open_world(folder, at(http.url)) as world,
    ):
        assert await world.text("web_echo", text="new") == "new"
        await _cancel_one(world)
        assert not any("mcp-session-id" in sent for _, sent in http.requests)


async def _cancel_one(world: McpWorld) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.text, "web_hang")
        await world.text("web_until_hanging", count=1)
        tasks.cancel_scope.cancel()
    await world.text("web_until_cancelled", count=1)


async def test_a_session_that_expires_is_begun_anew_and_each_call_made_once(tmp_path: Path) -> None:
    """Servers forget sessions when they restart; neither a person nor the model should notice."""
    # A server behind a balancer that loses every session must not keep a call going round.
    async with open_http_server() as http, open_world(tmp_path, at(http.url)) as world:
        http.body_answers[b'"tools/call"'] = (404, {}, b"")
        why = await world.failure("web_echo", text="x")

        assert why == "the MCP server 'web' gave no usable result: its session has expired"
        assert http.service.calls == []

        # Servers forget sessions when they restart; neither a person nor the model should notice.
        http.body_answers.clear()
        http.forgets = True
        said = await world.text("web_echo", text="again")

        assert said == "again"
        assert http.service.calls == ["echo"]
        assert world.box.faults == ()

        # Restarts of a server are its owner's business, and no reason to restart the gateway.
        http.is_away = True
        said = await world.failure("web_echo", text="x")
        http.is_away, http.forgets = False, True

        assert said == "the MCP server 'web' gave no usable result: its answer broke off"
        assert await world.text("web_echo", text="next") == "next"


# --- what comes in place of a result -------------------------------------------------------------


UNUSABLE: list[tuple[tuple[int, dict[str, str], bytes], str]] = [
    ((401, {}, b""), "it answers with HTTP 401: it wants a login: `everturn mcp login web`"),
    ((403, JSON, b'{"error": {"code": 1, "message": "x"}}'), "it answers with HTTP 403: it does"),
    ((500, {"content-type": "text/html"}, b"<h1>Oh no</h1>"), "it answers with HTTP 500"),
    ((503, {}, b"x" * 100_000), "it answers with HTTP 503: it is overloaded or down"),
    ((200, JSON, b"{not json"), "its answer is no message of the protocol"),
    ((200, JSON, b'{"jsonrpc": "2.0", "id": 1}'), "its answer is no message of the protocol"),
    ((200, EVENTS, b"data: {not json\n\n"), "its answer is no message of the protocol"),
    ((200, JSON, b'"' + b"x" * 5_000_000 + b'"'), "its answer has more than 4 MiB; ask for less"),
    ((200, EVENTS, b"data: " + b"x" * 5_000_000), "its answer has more than 4 MiB; ask for less"),
    ((200, JSON, b"[" + b'"x",' * 60_000 + b"1]"), "its answer holds more than 50,000 values"),
    ((200, {**JSON, "content-encoding": "gzip"}, b"x"), "its answer is compressed, which was not"),
]
WORDS = [
    (refusal(400, INVALID_PARAMS), "does not take these arguments: refused with -32602"),
    (refusal(500, -32000), "refuses: refused with -32000"),
    ((200, {"content-type": "text/plain"}, b"hi"), "refuses: Unexpected content type"),
    ((202, {}, b""), "refuses: server answered a request with 202 Accepted"),
]


async def test_whatever_comes_in_place_of_an_answer_costs_its_call_alone(tmp_path: Path) -> None:
    """The client would end the connection for some, and tell of others that there was an error."""
    async with open_http_server() as http, open_world(tmp_path, at(http.url)) as world:
        life = world.connection._life
        for answer, why in UNUSABLE:
            http.answers.append(answer)
            said = await world.failure("web_echo", text="x")

            assert said.startswith(f"the MCP server 'web' gave no usable result: {why}")
        assert await world.text("web_echo", text="next") == "next"
        assert world.connection._life is life

        # The model may do better with it; it is as little to be trusted as a result.
        for answer, words in WORDS:
            http.answers.append(answer)
            output = await world.call("web_echo", text="x")

            assert output.is_error
            assert output.untrusted
            assert words in output.text

        # The call may have been made; nobody may take it for one that was not.
        http.answers.append((200, EVENTS, b": nothing more comes\n\n"))
        said = await world.failure("web_echo", text="x")

        assert "went away while it worked on this" in said
        assert await world.text("web_echo", text="next") == "next"

        # The connection stays usable for other calls; the client's own wait would be minutes.
        http.silent_after = b'"tools/call"'
        said = await world.hanging("web_echo", text="x")
        http.silent_after = b""

        assert "it did not answer within 0.2 s" in said
        assert await world.text("web_echo", text="next") == "next"


# --- the beginning -------------------------------------------------------------------------------


@table(
    ("answer", "why"),
    [
        ((401, {}, b""), "it answers with HTTP 401: it wants a login: `everturn mcp login web`"),
        ((404, {}, b""), "it answers with HTTP 404: nothing is there"),
        ((500, {}, b""), "it answers with HTTP 500"),
        (
            (200, {"content-type": "text/html"}, b"<h1>Welcome</h1>"),
            "it refuses to begin, and said",
        ),
        ((200, JSON, b'{"jsonrpc": "2.0", "id": 1, "result": {}}'), "what it answers is not the"),
        ((302, {"location": "/login"}, b""), "it refuses to begin, and said: Redirect to http"),
    ],
)
async def test_a_server_that_cannot_be_met_is_left_out_with_the_reason(
    tmp_path: Path, answer: tuple[int, dict[str, str], bytes], why: str
) -> None:
    """The agent works without it, and whoever runs it can read what to do."""
    async with open_http_server() as http:
        http.body_answers[b'"initialize"'] = answer
        async with open_world(tmp_path, at(http.url)) as world:
            (fault,) = world.box.faults

            assert dict(world.box.tools) == {}
            assert fault.startswith(f"MCP server 'web': {why}")


@table(
    ("settings", "why"),
    [
        (at("http://127.0.0.1:1/mcp"), "it cannot be reached: "),
        (
            at("http://127.0.0.1:1/", headers={"X": "a\nb"}),
            "its url, headers, proxy or certificates cannot be used: the header",
        ),
        (at("http://[::1/"), "its url, headers, proxy or certificates cannot be used"),
    ],
)
async def test_an_address_that_leads_nowhere_is_told(
    tmp_path: Path, settings: McpServerSettings, why: str
) -> None:
    """A typing error in agent.yaml must not take more than the one server."""
    async with open_world(tmp_path, settings) as world:
        (fault,) = world.box.faults

        assert fault.startswith(f"MCP server 'web': {why}")


async def test_a_redirect_is_followed_at_the_same_origin_alone(tmp_path: Path) -> None:
    """A slash is the commonest reason; the owner's key goes to nobody whom a server names."""
    # A slash at the end of a path is the commonest reason.
    folder = tmp_path / "same"
    folder.mkdir()
    async with open_http_server() as http, open_world(folder, at(http.url)) as world:
        http.answers.append((307, {"location": "/mcp"}, b""))

        assert await world.text("web_echo", text="moved") == "moved"

    # A redirect would hand the owner's key, and the call, to whoever the server names.
    folder = tmp_path / "another"
    folder.mkdir()
    headers = {"Authorization": "Bearer k-123456"}
    async with (
        open_http_server() as other,
        open_http_server() as http,
        open_world(folder, at(http.url, headers=headers)) as world,
    ):
        http.answers.append((307, {"location": other.url}, b""))
        output = await world.call("web_echo", text="x")

        assert output.is_error
        assert "Redirect to" in output.text
        assert other.requests == []


async def test_what_a_server_says_by_itself_may_take_as_long_as_it_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream of news would otherwise end after a quiet minute, and changes be missed."""
    monkeypatch.setattr(streamable, "MARGIN_S", 0.0)
    async with (
        open_http_server() as http,
        open_world(tmp_path, at(http.url, timeout_s=2)) as world,
    ):
        with anyio.fail_after(DEADLINE_S):
            await http.until_listening()
        # A call that gets no answer shows that the deadline is over.
        http.silent_after = b'"tools/call"'
        await world.failure("web_echo", text="x")
        http.silent_after = b""
        await world.text("web_grow", name="second")
        with anyio.fail_after(DEADLINE_S):
            await world.clock.until_sleeping(5)
        await world.prepare()

        assert "web_second" in world.box.tools
        assert [method for method, _ in http.requests].count("GET") == 1
