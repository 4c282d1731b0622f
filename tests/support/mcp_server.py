"""An MCP server made with the official package: over stdio as a program, over HTTP in the test.

    python mcp_server.py                    a server on standard input and output
    async with open_http_server() as http:  a server at http.url

Nothing here waits for time: `until_hanging` and `until_cancelled` answer when that many calls of
`hang` have begun, or were cancelled.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.abc
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.stdio import stdio_server

Context: TypeAlias = ServerRequestContext[Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

PICTURE = base64.b64encode(b"\x89PNG" + bytes(996)).decode()
CHART = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
"A picture that can be shown."
_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}


def _tool(name: str, description: str = "", /, **properties: dict[str, str]) -> types.Tool:
    return types.Tool(
        name=name,
        description=description or f"Does {name}.",
        input_schema={"type": "object", "properties": properties, "required": [*properties]},
    )


TOOLS = (
    _tool("echo", "Says the text again.", text=_TEXT),
    _tool("pid"),
    _tool("look", "Reads a file.", path=_TEXT),
    _tool("place", "Where it runs, and its environment."),
    _tool("fail", "Says that it failed."),
    _tool("refuse", "Is refused with an error of the protocol."),
    _tool("crash", "Kills its server."),
    _tool("hang", "Never ends."),
    _tool("until_hanging", count=_COUNT),
    _tool("until_cancelled", count=_COUNT),
    _tool("flood", characters=_COUNT),
    _tool("picture"),
    _tool("charts", count=_COUNT),
    _tool("everything"),
    _tool("structured"),
    _tool("nothing"),
    _tool("grow", "Adds a tool and says so.", name=_TEXT),
    _tool("spawn", "Starts a process that stays."),
    _tool("complain", "Writes to its standard error.", text=_TEXT),
)


RESOURCES = (
    types.Resource(uri="notes://today", name="today", description="What\nhappened."),
    types.Resource(uri="notes://chart", name="chart", mime_type="image/png"),
)


@dataclass(slots=True)
class Service:
    """What one server does, for all that are connected to it."""

    tools: list[types.Tool] = field(default_factory=lambda: list(TOOLS))
    has_resources: bool = False
    has_prompts: bool = False
    page: int = 0
    "Tools on a page of the list; 0 = all on one."
    calls: list[str] = field(default_factory=list[str])
    hanging: int = 0
    cancelled: int = 0
    moved: anyio.Event = field(default_factory=anyio.Event)

    async def list_tools(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Answer `tools/list`."""
        if not self.page:
            return types.ListToolsResult(tools=self.tools)
        start = int((params and params.cursor) or 0)
        after = start + self.page
        more = str(after) if after < len(self.tools) else None
        return types.ListToolsResult(tools=self.tools[start:after], next_cursor=more)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer `tools/call`."""
        self.calls.append(params.name)
        arguments = params.arguments or {}
        match params.name:
            case "echo":
                return said(str(arguments["text"]))
            case "pid":
                return said(str(os.getpid()))
            case "look":
                return said(await anyio.Path(str(arguments["path"])).read_text())
            case "place":
                return said("\n".join([os.getcwd(), *(f"{k}={v}" for k, v in os.environ.items())]))
            case "fail":
                return types.CallToolResult(content=said("no such page").content, is_error=True)
            case "refuse":
                raise MCPError(code=types.INVALID_PARAMS, message="the colour must be a number")
            case "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                await self._hang()
            case "until_hanging":
                await self._until(lambda: self.hanging >= int(arguments["count"]))
            case "until_cancelled":
                await self.until_cancelled(int(arguments["count"]))
            case "flood":
                return said("x" * int(arguments["characters"]))
            case "picture":
                return types.CallToolResult(
                    content=[types.ImageContent(data=PICTURE, mime_type="image/png")]
                )
            case "charts":
                chart = types.ImageContent(data=CHART, mime_type="image/png")
                return types.CallToolResult(content=[chart] * int(arguments["count"]))
            case "everything":
                return types.CallToolResult(content=_everything())
            case "structured":
                return types.CallToolResult(content=[], structured_content={"degrees": 21})
            case "nothing":
                return types.CallToolResult(content=[])
            case "grow":
                self.tools.append(_tool(str(arguments["name"])))
                await context.session.send_tool_list_changed()
            case "spawn":
                child = subprocess.Popen(  # noqa: ASYNC220 - a test's server, which may wait
                    [sys.executable, "-c", "import signal; signal.pause()"]
                )
                return said(str(child.pid))
            case "complain":
                sys.stderr.write(f"{arguments['text']}\n")
                sys.stderr.flush()
            case _:
                raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
        return said("done")

    async def list_resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Answer `resources/list`, a page for each."""
        number = int((params and params.cursor) or 0)
        more = str(number + 1) if number + 1 < len(RESOURCES) else None
        page = list(RESOURCES[number : number + 1])
        return types.ListResourcesResult(resources=page, next_cursor=more)

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Answer `resources/templates/list`."""
        template = types.ResourceTemplate(uri_template="notes://{day}", name="a day")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Answer `resources/read`."""
        uri = str(params.uri)
        if uri == "notes://chart":
            blob = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=CHART)
            return types.ReadResourceResult(contents=[blob])
        if uri != "notes://today":
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown resource: {uri}")
        text = types.TextResourceContents(uri=uri, text="Ann has a cat.")
        return types.ReadResourceResult(contents=[text])

    async def list_prompts(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Answer `prompts/list`."""
        topic = types.PromptArgument(name="topic", description="Of what.", required=True)
        prompt = types.Prompt(name="summarize", description="Sums it up.", arguments=[topic])
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Answer `prompts/get`."""
        topic = (params.arguments or {}).get("topic")
        if not topic:
            raise MCPError(code=types.INVALID_PARAMS, message="topic is missing")
        text = types.TextContent(text=f"Sum up what is known of {topic}.")
        reply = types.TextContent(text="Gladly.")
        return types.GetPromptResult(
            messages=[
                types.PromptMessage(role="user", content=text),
                types.PromptMessage(role="assistant", content=reply),
            ]
        )

    async def _hang(self) -> None:
        self.hanging += 1
        self._move()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled += 1
            self._move()

    async def until_cancelled(self, count: int) -> None:
        """Wait until so many calls were cancelled."""
        await self._until(lambda: self.cancelled >= count)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self.moved.wait()

    def _move(self) -> None:
        self.moved.set()
        self.moved = anyio.Event()


def said(text: str) -> types.CallToolResult:
    """Return a text as a result."""
    return types.CallToolResult(content=[types.TextContent(text=text)])


def _everything() -> list[types.ContentBlock]:
    uri = "file:///notes.txt"
    return [
        types.TextContent(text="first"),
        types.AudioContent(data=PICTURE, mime_type="audio/wav"),
        types.ResourceLink(name="notes", uri=uri, mime_type="text/plain", size=12),
        types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text="inside")),
        types.EmbeddedResource(
            resource=types.BlobResourceContents(
                uri="file:///a.bin", mime_type="application/octet-stream", blob=PICTURE
            )
        ),
        types.TextContent(text="last"),
    ]


def make_server(service: Service) -> Server[Any]:
    """Return the official server, with what `service` does."""
    listed: dict[str, Any] = {}
    if service.has_resources:
        listed = {
            "on_list_resources": service.list_resources,
            "on_list_resource_templates": service.list_templates,
            "on_read_resource": service.read_resource,
        }
    if service.has_prompts:
        listed |= {"on_list_prompts": service.list_prompts, "on_get_prompt": service.get_prompt}
    return Server(
        "test", on_list_tools=service.list_tools, on_call_tool=service.call_tool, **listed
    )


# --- over HTTP -----------------------------------------------------------------------------------


@dataclass(slots=True)
class HttpServer:
    """A server that listens."""

    url: str
    service: Service
    requests: list[tuple[str, dict[str, str]]] = field(
        default_factory=list[tuple[str, dict[str, str]]]
    )
    "Method and headers of every HTTP request, oldest first."
    answers: list[tuple[int, dict[str, str], bytes]] = field(
        default_factory=list[tuple[int, dict[str, str], bytes]]
    )
    "Given to the next POST requests in place of the server's: status, headers, body."
    body_answers: dict[bytes, tuple[int, dict[str, str], bytes]] = field(
        default_factory=dict[bytes, tuple[int, dict[str, str], bytes]]
    )
    "The same, to every POST with this in its body."
    forgets: bool = False
    "Whether it forgets its sessions with the next request."
    is_away: bool = False
    "Whether it closes every connection without an answer."
    silent_after: bytes = b""
    "No answer comes to a POST with this in its body."
    listening: anyio.Event = field(default_factory=anyio.Event)

    async def until_listening(self) -> None:
        """Wait until a client has opened the stream on which a server says what it likes."""
        await self.listening.wait()


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, is_up: anyio.Event) -> None:
        super().__init__(config)
        self._is_up = is_up

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._is_up.set()


@asynccontextmanager
async def open_http(app: App) -> AsyncGenerator[str]:
    """Serve an application on loopback and yield its address."""
    is_up = anyio.Event()
    config = uvicorn.Config(
        app, port=0, log_config=None, lifespan="auto", ws="none", timeout_graceful_shutdown=1
    )
    server = _Uvicorn(config, is_up)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        await is_up.wait()
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True


@asynccontextmanager
async def open_http_server(
    *, is_modern: bool = False, has_resources: bool = False, has_prompts: bool = False
) -> AsyncGenerator[HttpServer]:
    """Serve the official server at `/mcp`; `is_modern` refuses what older revisions begin with."""
    service = Service(has_resources=has_resources, has_prompts=has_prompts)
    app = make_server(service).streamable_http_app()
    http = HttpServer("", service)
    if is_modern:
        data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        http.body_answers[b'"initialize"'] = refusal(400, types.UNSUPPORTED_PROTOCOL_VERSION, data)
    async with open_http(watched(app, http)) as address:
        http.url = f"{address}/mcp"
        yield http


def refusal(status: int, code: int, data: object = None) -> tuple[int, dict[str, str], bytes]:
    """Return an HTTP error that holds an error of the protocol."""
    error = types.ErrorData(code=code, message=f"refused with {code}", data=data)
    body = types.JSONRPCError(jsonrpc="2.0", id=None, error=error).model_dump_json().encode()
    return status, {"content-type": "application/json"}, body


def watched(app: App, http: HttpServer) -> App:
    """Return an application whose requests are noted, and answered otherwise where that is set."""

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        http.requests.append((str(scope["method"]), headers))
        body, found = b"", None
        if scope["method"] == "POST":
            more = True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), message.get("more_body", False)
            found = next((a for part, a in http.body_answers.items() if part in body), None)
            if found is None and http.answers:
                found = http.answers.pop(0)
        if found is not None:
            await _answer(send, *found)
            return
        if http.is_away:
            # An answer that is not finished: the connection is closed in the middle of it.
            raw = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
            await send({"type": "http.response.start", "status": 200, "headers": raw})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
            return
        if http.silent_after and http.silent_after in body:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if http.forgets:
            http.forgets = False
            raw = [(n, v) for n, v in scope["headers"] if n != b"mcp-session-id"]
            scope["headers"] = [*raw, (b"mcp-session-id", b"0" * 32)]
        await app(scope, _replayed(body, receive), _listened(scope, send, http))

    return watched


def _listened(scope: Scope, send: Send, http: HttpServer) -> Send:
    """Return what tells when a client listens."""

    async def told(message: Any) -> None:
        await send(message)
        if scope["method"] == "GET":
            http.listening.set()

    return told


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read already."""
    left: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return left.pop() if left else await receive()

    return again


async def _answer(send: Send, status: int, headers: dict[str, str], body: bytes) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


# --- as a program --------------------------------------------------------------------------------


async def _main() -> None:
    server = make_server(Service(page=7))
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, options)


if __name__ == "__main__":
    anyio.run(_main)
