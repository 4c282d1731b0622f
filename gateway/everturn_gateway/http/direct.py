"""The way of what programs ask most often, past what FastAPI does for each request.

FastAPI declares the route, describes it, and says what is wrong with a request. One that is right
needs none of that: its body is read by the same model, and answered by the same function. What is
unclear in any way goes on to FastAPI, and so does every error. Platforms that deliver what people
write, and what became of each answer, ask as often: for one message Meta does so three times.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everturn_gateway.http.access.auth import caller_of
from everturn_gateway.http.access.protected import FAILURE
from everturn_gateway.http.schemas.messages import NewMessage
from everturn_gateway.http.schemas.sessions import NewSession

_JSON: Final = re.compile(rb"application/json(;.*)?")
_KEY: Final = re.compile(rb"[\x20-\x7e]{1,255}")
_NAME: Final = re.compile(r"[\w.-]{1,100}")
"Of a channel; FastAPI says what is wrong with others."


B = TypeVar("B", bound=BaseModel)

Protect: TypeAlias = Callable[[ASGIApp, str, str], ASGIApp]
"Puts the rule of a route, by its method and path, around an app that answers it."


class _UnclearError(Exception):
    """FastAPI has to look at the request; what was received of it is received again."""

    def __init__(self, received: list[Message]) -> None:
        self.received = received
        super().__init__()


class DirectRoute:
    """Answers the requests of one route before FastAPI sees them. Plain ASGI."""

    def __init__(self, app: ASGIApp, *, route: APIRoute, protect: Protect, answer: ASGIApp) -> None:
        """Stand in front of a route.

        Args:
            app: Where all else goes on.
            route: Takes POST.
            protect: Puts the rule of the route around what answers it.
            answer: Answers as the route does; what it raises, the route raises anew.
        """
        self._app, self._route = app, route
        self._protected = protect(answer, "POST", route.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        found = None
        # Mounted elsewhere, the paths are others.
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["root_path"]:
            found = self._route.path_regex.fullmatch(scope["path"])
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = self._route, found.groupdict()
        try:
            await self._protected(scope, receive, send)
        except _UnclearError as unclear:
            # FastAPI tells what is wrong with it.
            await self._app(scope, _again(unclear.received, receive), send)
        except Exception as error:  # noqa: BLE001 - the route raises it anew, where all are answered
            scope[FAILURE] = error
            await self._app(scope, receive, send)


def _reading(kind: type[B], reply: Callable[[Request, B], Awaitable[Response] | None]) -> ASGIApp:
    """Return what reads a body, and answers it.

    It raises _UnclearError where it is no plain one.

    Args:
        kind: What the route takes, in JSON.
        reply: Answers as the route does; None where FastAPI has to look at the request.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        received = [await receive()]
        data: bytes = received[0].get("body", b"")
        if received[0].get("more_body", False):
            while received[-1].get("more_body", False):
                received.append(await receive())
            data = b"".join([message.get("body", b"") for message in received])
        if received[-1]["type"] == "http.disconnect" or not _is_json(scope):
            raise _UnclearError(received)
        try:
            body = kind.model_validate_json(data)
        except ValidationError:
            raise _UnclearError(received) from None  # its errors are written for another reader
        replied = reply(Request(scope, receive, send), body)
        if replied is None:
            raise _UnclearError(received)
        response = await replied
        await response(scope, receive, send)

    return answer


def direct_deliveries(app: ASGIApp, route: APIRoute, protect: Protect) -> ASGIApp:
    """Return what answers the deliveries of platforms; see `take_webhook`."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["name"]
        if not _NAME.fullmatch(name):
            raise _UnclearError([])
        response: Response = await route.endpoint(request=Request(scope, receive, send), name=name)
        await response(scope, receive, send)

    return DirectRoute(app, route=route, protect=protect, answer=answer)


def direct_messages(app: ASGIApp, route: APIRoute, protect: Protect) -> ASGIApp:
    """Return what answers the messages of sessions; see `send_message`."""

    def reply(request: Request, body: NewMessage) -> Awaitable[Response] | None:
        asked = _asked(request.scope)
        if asked is None:
            return None
        key, prefer = asked
        response: Awaitable[Response] = route.endpoint(
            request=request,
            session_id=request.scope["path_params"]["session_id"],
            body=body,
            caller=caller_of(request.scope).principal,
            key=key,
            prefer=prefer,
        )
        return response

    answer = _reading(NewMessage, reply)
    return DirectRoute(app, route=route, protect=protect, answer=answer)


def direct_sessions(app: ASGIApp, route: APIRoute, protect: Protect) -> ASGIApp:
    """Return what begins sessions; see `create_session`."""

    def reply(request: Request, body: NewSession) -> Awaitable[Response]:
        response: Awaitable[Response] = route.endpoint(
            body=body, caller=caller_of(request.scope).principal
        )
        return response

    answer = _reading(NewSession, reply)
    return DirectRoute(app, route=route, protect=protect, answer=answer)


def _is_json(scope: Scope) -> bool:
    """Whether one header says that the body is JSON."""
    kind = None
    for name, value in scope["headers"]:
        if name == b"content-type":
            if kind is not None:
                return False  # two types: FastAPI decides which counts
            kind = value
    return kind == b"application/json" or (kind is not None and _JSON.fullmatch(kind) is not None)


def _asked(scope: Scope) -> tuple[str | None, list[str] | None] | None:
    """Return the idempotency key and the preferences; None where the headers are unusual."""
    key = None
    prefer: list[str] = []
    for name, value in scope["headers"]:
        if name == b"idempotency-key":
            if key is not None or not _KEY.fullmatch(value):
                return None
            key = value.decode("ascii")
        elif name == b"prefer":
            prefer.append(value.decode("latin-1"))
    return key, prefer or None


def _again(received: list[Message], receive: Receive) -> Receive:
    """Return what receives what was received, and then what follows."""
    left = iter(received)

    async def receive_again() -> Message:
        message = next(left, None)
        # What was read comes once more, then the rest.
        return await receive() if message is None else message

    return receive_again
