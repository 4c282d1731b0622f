"""HTTP requests, measured. Plain ASGI."""

from __future__ import annotations

import time
from collections.abc import Sized
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everturn_gateway.telemetry.instruments import Instruments

UNMATCHED: Final = "(none)"
"The route of what was turned away before there was one, or fits none."
_METHODS: Final = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
_LEFT: Final = "left"
"The status of a request whose client left before it was answered."


class RequestCounts:
    """What is known of all requests of one server."""

    def __init__(self, instruments: Instruments) -> None:
        self.in_flight = 0
        self.followers: Sized = ()
        "The connections that follow sessions now."
        self._to = instruments

    def ended(self, scope: Scope, status: str, took_s: float) -> None:
        """Take note of a request that is over."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = getattr(scope.get("route"), "path", UNMATCHED)
        self._to.http_requests.add(method, route, status)
        self._to.http_request_seconds.add(took_s, method, route)


class MeasuredRequests:
    """Times requests and counts their answers, by the template of their route."""

    def __init__(self, app: ASGIApp, *, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = _LEFT

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        counts, began_s = self._counts, time.perf_counter()
        counts.in_flight += 1
        try:
            await self._app(scope, receive, noted)
        finally:
            counts.in_flight -= 1
            counts.ended(scope, status, time.perf_counter() - began_s)
