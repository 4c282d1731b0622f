"""The clients of `/mcp`: whose request it is, and when one has left."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everturn_gateway.client import open_api_here
from everturn_gateway.http.access.auth import caller_of
from everturn_gateway.http.access.guard import OneCaller
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.waiting import OpenWaits
from everturn_gateway.mcp_server.link import Context, Link, repeat_key
from everturn_gateway.mcp_server.server import make_server

SESSIONS_MAX: Final = 1000  # of clients of older revisions; newer ones have none
IDLE_S: Final = 30 * 60.0
_SESSION: Final = "mcp-session-id"


class McpSessions:
    """Serves MCP clients over HTTP. What they ask is asked of the HTTP API, as their caller.

    So scopes, visibility and limits are those of the routes that do it.
    """

    def __init__(self, gateway: Gateway, waits: OpenWaits, inner: ASGIApp) -> None:
        self._waits, self._inner = waits, inner
        self._server = make_server(self._connect, version=gateway.version)
        self._max_body_bytes = gateway.config.server.max_body_bytes
        self._ready = anyio.Event()
        self._manager: StreamableHTTPSessionManager | None = None
        self._heard: OrderedDict[str, float] = OrderedDict()
        "When each session was heard of last, loop time; never, where its client ended it."

    async def run(self) -> None:
        """Hold the sessions of clients, until the scope is cancelled."""
        manager = StreamableHTTPSessionManager(
            self._server,
            session_idle_timeout=IDLE_S,
            max_sessions=SESSIONS_MAX,
            max_request_body_size=self._max_body_bytes,
        )
        async with manager.run():
            self._manager = manager
            self._ready.set()
            await anyio.sleep_forever()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            ProblemError: The server stops (503), or too many listen (503).
        """
        await self._ready.wait()
        # A session belongs to the principal that began it: to others it is not there.
        name = caller_of(scope).principal.name
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[]))
        exchange = _Exchange(send)
        listens = scope["method"] == "GET"
        with self._waits.follower() if listens else self._waits.waiter() as stopped:
            await self._handle(scope, receive, exchange.send)
        if stopped.cancelled_caught and not exchange.is_begun:
            raise ProblemError(problem("stopping", "the gateway is stopping; try again later"))
        if stopped.cancelled_caught and not exchange.is_done:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._manager is not None
        if session := Headers(scope=scope).get(_SESSION, ""):
            # Before it is handled: what runs for a session that ends is stopped later, some time.
            ends = scope["method"] == "DELETE"
            self._heard[session] = -math.inf if ends else anyio.current_time()
            self._heard.move_to_end(session)
            if len(self._heard) > SESSIONS_MAX:
                self._heard.popitem(last=False)
        await self._manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def _connect(self, ctx: Context) -> AsyncGenerator[Link]:
        request = ctx.request
        assert request is not None  # over HTTP there is one
        caller, session = caller_of(request.scope), request.headers.get(_SESSION, "")
        async with open_api_here(OneCaller(self._inner, caller=caller)) as api:
            yield Link(
                api=api,
                may_approve=caller.principal.may("approve"),
                may_always=caller.principal.may_claim,
                repeat_key=repeat_key(session, ctx) if session else "",
                has_left=lambda: self._waits.stopping or self._is_gone(session),
            )

    def _is_gone(self, session: str) -> bool:
        """Return whether a session ended without a word to stop: its client ended it, or is silent.

        One that cancels a request says so in another one, so it was heard of just now.
        """
        now = anyio.current_time()
        return now - self._heard.get(session, now) > IDLE_S / 2


class _Exchange:
    """How far the answer to one request has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = False
        self.is_done = False

    async def send(self, message: Message) -> None:
        """Pass a piece of the answer on."""
        self.is_begun = True
        if message["type"] == "http.response.body":
            self.is_done = not message.get("more_body", False)
        await self._send(message)
