"""Limits on what one request may take: connections, body bytes, time. Plain ASGI."""

from __future__ import annotations

import re
import resource
from collections.abc import Sized
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everturn_actors.scopes import loop_time, new_scope
from everturn_actors.supervisor import attempt
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.problems import Problem, problem, problem_response
from everturn_gateway.http.waiting import DEADLINE

BESIDE_CONNECTIONS: Final = 256  # files that logs, models, tools and processes have open
GRACE_S = 10.0  # after its deadline, for a route to answer by itself
DRAIN_BYTES = 32 * 1024 * 1024  # of a refused body that are read away
DRAIN_S = 5.0
HEALTH_PATHS = frozenset({"/livez", "/readyz", "/metrics"})  # answered however full it is
# Their bodies may hold files.
_UPLOADS = re.compile(
    r"/api/v1/sessions/[^/]+/(?:messages|stream)"
    r"|/v1/(?:chat/completions|responses|embeddings|audio/[a-z]+)"
)


def within_descriptors(config: ServerConfig, limit: int) -> ServerConfig:
    """Return the configuration with no more connections than `limit` open files leave room for.

    A connection for which there is no descriptor can only be closed, that of a health check too:
    so those that may be open leave as many for all else, or half where there are few.
    """
    room = max(limit - BESIDE_CONNECTIONS, limit // 2, 1)
    if limit == resource.RLIM_INFINITY or config.max_connections <= room:
        return config
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


class RequestLimits:
    """Refuses bodies that are too large without reading them, and requests that take too long.

    The deadline holds until an answer begins; a stream then runs as long as it likes.
    """

    def __init__(
        self, app: ASGIApp, *, max_body_bytes: int, max_upload_bytes: int, timeout_s: float
    ) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._max_upload_bytes = max(max_body_bytes, max_upload_bytes)
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        takes_files = _UPLOADS.fullmatch(scope["path"]) is not None
        limit_bytes = self._max_upload_bytes if takes_files else self._max_body_bytes
        exchange = _Exchange(receive=receive, send=send, limit_bytes=limit_bytes)
        if _content_length(scope) > limit_bytes:
            exchange.too_large = True
            answer = problem_response(too_large(limit_bytes), scope)
            await answer(scope, exchange.read, exchange.write)
            return
        # A cancellation that nobody here asked for is a fault: without that the client would get no
        # answer at all.
        scope[DEADLINE] = loop_time() + self._timeout_s
        with new_scope(scope[DEADLINE] + GRACE_S) as exchange.time:
            failure = await attempt(partial(self._app, scope, exchange.read, exchange.write))
            if failure is not None:
                raise failure
        if exchange.time.cancelled_caught and not exchange.started:
            answer = problem_response(_late(self._timeout_s), scope)
            await answer(scope, receive, send)


def _late(timeout_s: float) -> Problem:
    return problem(
        "timeout",
        f"the request was not received and answered within {timeout_s:g} s",
        headers={"Connection": "close"},
    )


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


class _Exchange(Struct):
    """One request and its answer on their way through."""

    receive: Receive
    send: Send
    limit_bytes: int
    size_bytes: int = 0
    too_large: bool = False
    started: bool = False
    time: anyio.CancelScope | None = None

    async def read(self) -> Message:
        message = await self.receive()
        self.size_bytes += len(message.get("body", b""))
        if self.size_bytes > self.limit_bytes:
            self.too_large = True
            raise BodyTooLargeError(self.limit_bytes)
        return message

    async def write(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            if self.time is not None:
                self.time.deadline = float("inf")
        elif self.too_large and not message.get("more_body", False):
            await self.send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self.send(message)

    async def _drain(self) -> None:
        """Read the rest of a refused body away.

        A connection that is closed on a client which still sends is reset, and the client may
        never see the answer.
        """
        drained_bytes = 0
        with anyio.move_on_after(DRAIN_S):
            while drained_bytes < DRAIN_BYTES:
                message = await self.receive()
                drained_bytes += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
