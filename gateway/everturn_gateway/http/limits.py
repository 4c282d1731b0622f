"""Limits on what requests may take: connections, body bytes, time."""

from __future__ import annotations

import re
import resource
from collections.abc import Sized
from dataclasses import replace
from typing import Final

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from everturn_gateway.config.channels import WEBHOOK_PATH
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.problems import Problem, problem, problem_response

BESIDE_CONNECTIONS: Final = 256  # files that logs, models, tools and processes have open
DELIVERY_BYTES: Final = 4 * 1024 * 1024
"""The largest body that a platform delivers, if it says its length; Meta's have up to 3 MB.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/create-webhook-endpoint
(updated 2026-05-21, read 2026-11-27).
"""
HEALTH_PATHS = frozenset({"/livez", "/readyz", "/metrics"})  # answered however full it is
# Their bodies may hold files.
_UPLOADS = re.compile(
    r"/api/v1/sessions/[^/]+/(?:messages|stream)"
    r"|/v1/(?:chat/completions|responses|embeddings|audio/[a-z]+)"
)
_DELIVERIES: Final = re.compile(WEBHOOK_PATH.format(name="[^/]+"))


def within_descriptors(config: ServerConfig, limit: int) -> ServerConfig:
    """Return the configuration with no more connections than `limit` open files leave room for.

    A connection for which there is no descriptor can only be closed, that of a health check too:
    so those that may be open leave as many for all else, or half where there are few.
    """
    # A small limit is shared with the files, in halves.
    room = max(limit - BESIDE_CONNECTIONS, limit // 2, 1)
    if limit == resource.RLIM_INFINITY or config.max_connections <= room:
        return config
    # 0 = derived from the connections.
    followers = config.max_followers if config.max_followers < room else 0
    return replace(config, max_connections=room, max_followers=followers)


class ConnectionLimit:
    """Refuses requests while the server has more connections than it may.

    Not those of whoever watches the process: an overload is when they matter most, and each is
    answered at once.
    """

    def __init__(self, app: ASGIApp, *, max_connections: int) -> None:
        self._app = app
        self._max = max_connections
        self._connections: Sized = ()

    def watch(self, connections: Sized) -> None:
        """Count these: the server's open connections."""
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if (
            len(self._connections) <= self._max
            or scope["type"] != "http"
            or scope["path"] in HEALTH_PATHS
        ):
            await self._app(scope, receive, send)
            return
        refusal = problem(
            "too-many-connections",
            f"the server has more than its {self._max} connections; try again later",
            headers={"Connection": "close"},
        )
        await problem_response(refusal, scope)(scope, receive, send)


class BodyTooLargeError(HTTPException):
    """The body is larger than the server allows.

    An `HTTPException`, because FastAPI lets those alone pass while it reads a body.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(status_code=413, detail=too_large(limit_bytes).detail)


def too_large(limit_bytes: int) -> Problem:
    """Return the problem of a body over the limit."""
    return problem(
        "content-too-large",
        f"the body is larger than the {limit_bytes} bytes that this server accepts",
        extra={"limit_bytes": limit_bytes},
        headers={"Connection": "close"},
    )


class BodyLimits(Struct, frozen=True, kw_only=True):
    """How large the bodies of requests may be."""

    most_bytes: int
    most_of_uploads_bytes: int

    @classmethod
    def by(cls, config: ServerConfig) -> BodyLimits:
        """Return the limits of a configuration."""
        most = config.max_body_bytes
        return cls(most_bytes=most, most_of_uploads_bytes=max(most, config.max_upload_bytes))

    def of(self, scope: Scope) -> int:
        """Return how many bytes the body of a request may have."""
        # Any other body is small, whoever sends it.
        path, most = scope["path"], self.most_bytes
        if _UPLOADS.fullmatch(path) is not None:
            return self.most_of_uploads_bytes
        # Whoever likes may deliver: the route reads few of the large ones at a time.
        is_delivery = _DELIVERIES.fullmatch(path) is not None
        is_large = is_delivery and self.declared(scope) > most
        return max(most, DELIVERY_BYTES) if is_large else most

    def declared(self, scope: Scope) -> int:
        """Return how many bytes a request says that its body has; 0 where it does not say."""
        for name, value in scope["headers"]:
            if name == b"content-length":
                # A wrong length is refused where the body is read.
                return int(value) if value.isdigit() else 0
        return 0


def late(timeout_s: float) -> Problem:
    """Return the problem of a request that took too long."""
    return problem(
        "timeout",
        f"the request was not received and answered within {timeout_s:g} s",
        headers={"Connection": "close"},
    )
