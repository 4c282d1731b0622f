"""Routes of OpenAI's API that are no agent's work, passed on to the provider that is named for it.

Source: https://platform.openai.com/docs/api-reference/embeddings and .../audio (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.openapi import openai_errors
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import Problem, ProblemError, problem, status_problem
from everturn_gateway.http.waiting import ClientLeftError, while_connected
from everturn_gateway.providers.passing_on import PassingOnError
from everturn_gateway.providers.transport.http_port import Answer

ROUTES: Final = ("embeddings", "audio/speech", "audio/transcriptions", "audio/translations")
_JSON: Final = "application/json"
_REDIRECTS: Final = range(300, 400)
_KEY_REFUSED: Final = (401, 403)


def passed_on_router(gateway: Gateway) -> APIRouter:
    """Return the routes under `/v1` that a provider answers."""
    router = APIRouter(prefix="/v1", tags=["openai"])
    for route in ROUTES:
        _add(router, gateway, route)
    return router


def _add(router: APIRouter, gateway: Gateway, route: str) -> None:
    what = route.replace("/", ": ")

    @router.post(
        f"/{route}",
        name=f"pass_on_{route.replace('/', '_')}",
        summary=f"Pass on to a provider: {what}",
        response_class=Response,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {_JSON: {"schema": {}}, "multipart/form-data": {"schema": {}}},
            }
        },
        responses={
            200: {"description": "What the provider answers", "content": {"*/*": {"schema": {}}}},
            **openai_errors(404, 502),
        },
    )
    async def pass_on(request: Request, caller: CallerOf) -> Response:
        """Let the provider of `openai_api.passed_on` answer, with the gateway's key."""
        to = gateway.config.openai_api.passed_on
        if to is None:
            raise ProblemError(status_problem(404, not_served(request.url.path)))
        if gateway.spending.is_limited(caller.name):
            detail = (
                "your token has a daily limit, and what this costs is not counted; a token without"
                " one may ask for it"
            )
            raise ProblemError(problem("closed", detail))
        headers = {
            "content-type": request.headers.get("content-type", _JSON),
            "accept": request.headers.get("accept", "*/*"),
        }
        ask = partial(
            gateway.passing_on.answer,
            to.provider,
            to.base_url,
            route,
            headers=headers,
            body=await request.body(),
        )
        return PassedOn(ask, to.provider)


class PassedOn(Response):
    """Asks a provider and sends what it answers, as it comes; ends when its client goes."""

    def __init__(
        self, ask: Callable[[], AbstractAsyncContextManager[Answer]], provider: str
    ) -> None:
        super().__init__()
        self._ask, self._provider = ask, provider

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask, and send the answer.

        Raises:
            ProblemError: Nobody answers, or what comes is not for the client; nothing was sent.
            PassingOnError: The answer broke off.
        """
        with suppress(ClientLeftError):
            fault = await while_connected(Request(scope, receive), partial(self._send, send))
            if fault is not None:
                raise ProblemError(fault)

    async def _send(self, send: Send) -> Problem | None:
        """Send the answer; return why there is none that the client could be sent."""
        has_begun = False
        try:
            async with self._ask() as answer:
                if fault := _fault(answer, self._provider):
                    return problem("model-failed", fault)
                await send(_head(answer))
                has_begun = True
                while piece := await answer.read():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except PassingOnError as error:
            if has_begun:
                raise
            return problem("model-failed", str(error))
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None


def _fault(answer: Answer, provider: str) -> str:
    """Return what is wrong with the gateway's key or address; empty = nothing."""
    if answer.status in _KEY_REFUSED:
        return f"{provider} refused the gateway's key ({answer.status})"
    if answer.status in _REDIRECTS:
        return f"{provider} sent a redirect ({answer.status}), which is not followed"
    return ""


def _head(answer: Answer) -> Message:
    media_type = answer.headers.get("content-type", _JSON)
    headers = [(b"content-type", media_type.encode("latin-1"))]
    if retry_after := answer.headers.get("retry-after"):
        headers.append((b"retry-after", retry_after.encode("latin-1")))
    return {"type": "http.response.start", "status": answer.status, "headers": headers}


def not_served(path: str) -> str:
    """Return what is said of a path of OpenAI's API that nobody answers."""
    more = f"there is no {path} here"
    if path.removeprefix("/v1/") in ROUTES:
        more += " unless openai_api.passed_on in everturn.yaml names a provider for it"
    return (
        f"the gateway has agents, and none of OpenAI's other models: {more};"
        " have the client ask for that at another provider"
    )
