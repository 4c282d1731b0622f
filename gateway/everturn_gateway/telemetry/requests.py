"""HTTP requests, measured."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from starlette.types import Scope

from everturn_gateway.telemetry.instruments import Instruments

UNMATCHED: Final = "(none)"
"The route of what was turned away before there was one, or fits none."
_METHODS: Final = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
LEFT: Final = "left"
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
