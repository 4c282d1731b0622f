"""`/mcp`: loads the MCP server when the first client comes, and hands requests over to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.waiting import OpenWaits
from everturn_gateway.late_loading import late
from everturn_gateway.tools.mcp.session import INSTALL, MODULES

if TYPE_CHECKING:  # the package `mcp` is an extra, and heavy
    from everturn_gateway.http.mcp import sessions
    from everturn_gateway.http.mcp.sessions import McpSessions
else:
    sessions = late("everturn_gateway.http.mcp.sessions")

PATH: Final = "/mcp"


def mcp_router(gateway: Gateway, waits: OpenWaits, make_inner: Callable[[], ASGIApp]) -> APIRouter:
    """Return the routes of the MCP server.

    Args:
        gateway: What answers.
        waits: Where waits are registered, for a server that stops.
        make_inner: Makes the application that takes what clients ask, as its callers may.
    """
    router = APIRouter(tags=["mcp"])
    server = _LoadedLate(gateway, waits, make_inner)

    # Not in the document of the API: what stands in the bodies is MCP's to say.
    @router.get(PATH, include_in_schema=False)
    async def listen() -> Response:
        """Send what the server has to say outside of answers."""
        return _Handover(server)

    @router.post(PATH, include_in_schema=False)
    async def ask() -> Response:
        """Take one message of a client."""
        return _Handover(server)

    @router.delete(PATH, include_in_schema=False)
    async def leave() -> Response:
        """End a client's session with this server; what runs goes on."""
        return _Handover(server)

    return router


class _Handover(Response):
    """An answer that an application gives."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _LoadedLate:
    """The MCP server; nothing of it is there before the first request."""

    def __init__(
        self, gateway: Gateway, waits: OpenWaits, make_inner: Callable[[], ASGIApp]
    ) -> None:
        self._gateway, self._waits, self._make_inner = gateway, waits, make_inner
        self._loading = anyio.Lock()
        self._sessions: McpSessions | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        Raises:
            ProblemError: The package `mcp` is not installed (501), or the server stops (503).
        """
        async with self._loading:
            if self._sessions is None:
                self._sessions = await run_sync(self._load)
                self._gateway.start("mcp server", self._sessions.run)
        await self._sessions.handle(scope, receive, send)

    def _load(self) -> McpSessions:
        try:
            make = sessions.McpSessions
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in MODULES:
                raise
            what = f"/mcp needs the package mcp on the machine of the gateway: {INSTALL}"
            raise ProblemError(problem("not-installed", what)) from error
        return make(self._gateway, self._waits, self._make_inner())
