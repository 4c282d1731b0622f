"""The way of a message that begins a turn, past what FastAPI does for each request.

FastAPI declares the route, describes it, and says what is wrong with a request. One that is right
needs none of that: its body is read by the same model, and answered by the same function. What is
unclear in any way goes on to FastAPI, and so does every error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everturn_gateway.http.access.auth import caller_of
from everturn_gateway.http.access.protected import FAILURE
from everturn_gateway.http.schemas.messages import NewMessage

_JSON: Final = re.compile(rb"application/json(;.*)?")
_KEY: Final = re.compile(rb"[\x20-\x7e]{1,255}")


class _UnclearError(Exception):
    """FastAPI has to look at the request; what was received of it is received again."""

    def __init__(self, received: list[Message]) -> None:
        self.received = received
        super().__init__()


class DirectMessages:
    """Answers the messages of one route before FastAPI sees them. Plain ASGI."""

    def __init__(
        self, app: ASGIApp, *, route: APIRoute, protect: Callable[[ASGIApp, str, str], ASGIApp]
    ) -> None:
        """Stand in front of a route.

        Args:
            app: Where all else goes on.
            route: Takes a `NewMessage`; see `send_message`.
            protect: Puts the rule of the route around what answers it.
        """
        self._app, self._route = app, route
        self._protected = protect(self._answer, "POST", route.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        found = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["root_path"]:
            found = self._route.path_regex.fullmatch(scope["path"])
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = self._route, found.groupdict()
        try:
            await self._protected(scope, receive, send)
        except _UnclearError as unclear:
            await self._app(scope, _again(unclear.received, receive), send)
        except Exception as error:  # noqa: BLE001 - the route raises it anew, where all are answered
            scope[FAILURE] = error
            await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message that came past the rule of its route.

        Raises:
            _UnclearError: It is no plain message.
        """
        received: list[Message] = []
        while not received or received[-1].get("more_body", False):
            received.append(await receive())
        asked = _asked(scope)
        if asked is None or received[-1]["type"] == "http.disconnect":
            raise _UnclearError(received)
        data = [message["body"] for message in received]
        try:
            body = NewMessage.model_validate_json(data[0] if len(data) == 1 else b"".join(data))
        except ValidationError:
            raise _UnclearError(received) from None
        key, prefer = asked
        response: Response = await self._route.endpoint(
            request=Request(scope, receive, send),
            session_id=scope["path_params"]["session_id"],
            body=body,
            caller=caller_of(scope).principal,
            key=key,
            prefer=prefer,
        )
        await response(scope, receive, send)


def _asked(scope: Scope) -> tuple[str | None, list[str] | None] | None:
    """Return the idempotency key and the preferences; None where the headers are unusual."""
    kind, key = b"", None
    prefer: list[str] = []
    for name, value in scope["headers"]:
        if name == b"content-type":
            if kind or not _JSON.fullmatch(value):
                return None
            kind = value
        elif name == b"idempotency-key":
            if key is not None or not _KEY.fullmatch(value):
                return None
            key = value.decode("ascii")
        elif name == b"prefer":
            prefer.append(value.decode("latin-1"))
    return (key, prefer or None) if kind else None


def _again(received: list[Message], receive: Receive) -> Receive:
    """Return what receives what was received, and then what follows."""
    left = iter(received)

    async def receive_again() -> Message:
        message = next(left, None)
        return await receive() if message is None else message

    return receive_again
