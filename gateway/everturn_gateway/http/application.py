"""The API in FastAPI: its routes behind their rules, its document, and one shape for every error.

Nothing of a start may import this: see `asgi.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast

import orjson
from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from everturn_actors.errors import CoreError, UnknownAgentError
from everturn_gateway.config.channels import WEBHOOK_PATH
from everturn_gateway.http.access.auth import CALLER, Access, Caller
from everturn_gateway.http.access.guard import WrongTokens
from everturn_gateway.http.access.protected import protector
from everturn_gateway.http.access.visibility import visible_agents
from everturn_gateway.http.console.routes import console_router
from everturn_gateway.http.direct import direct_deliveries, direct_messages, direct_sessions
from everturn_gateway.http.limits import BodyTooLargeError, too_large
from everturn_gateway.http.live.exports import exports_router
from everturn_gateway.http.live.routes import live_router
from everturn_gateway.http.mcp.route import mcp_router
from everturn_gateway.http.openai.passed_on import not_served, passed_on_router
from everturn_gateway.http.openapi import describe
from everturn_gateway.http.ports import Gateway, Library
from everturn_gateway.http.problems import (
    INTERNAL,
    Problem,
    ProblemError,
    core_problem,
    problem_response,
    status_problem,
)
from everturn_gateway.http.routes.admin import admin_router
from everturn_gateway.http.routes.agent_files import agent_files_router
from everturn_gateway.http.routes.agents import agents_router, checkpoints_router
from everturn_gateway.http.routes.channels import channels_router, pairing_router
from everturn_gateway.http.routes.context import context_router
from everturn_gateway.http.routes.health import health_router
from everturn_gateway.http.routes.keeping import keeping_router
from everturn_gateway.http.routes.maintenance import maintenance_router
from everturn_gateway.http.routes.media import media_router
from everturn_gateway.http.routes.metrics import metrics_router
from everturn_gateway.http.routes.openai import openai_router
from everturn_gateway.http.routes.responses import responses_router
from everturn_gateway.http.routes.schedules import schedules_router
from everturn_gateway.http.routes.session_models import session_models_router
from everturn_gateway.http.routes.sessions import sessions_router
from everturn_gateway.http.routes.shares import shares_router
from everturn_gateway.http.routes.turns import turns_router
from everturn_gateway.http.routes.usage import usage_router
from everturn_gateway.http.validation import body_problem, validation_problem
from everturn_gateway.http.waiting import ClientLeftError, OpenWaits

logger = logging.getLogger(__name__)

NOT_SERVED = ("/v1/audio", "/v1/completions", "/v1/embeddings", "/v1/images", "/v1/moderations")
"What clients of OpenAI's API may look for, and no agent does."
CLIENT_LEFT = 499  # nobody reads it; the status that nginx made usual
_DOCS = Path(__file__).with_name("docs.html")
# The page has its own script and style in it, talks to this server alone, and stands in no other
# page, which could make somebody press its buttons unseen.
_DOCS_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Api(FastAPI):
    """FastAPI with our own description of the API, behind what answers some routes without it."""

    access: Access
    library: Library
    routers: tuple[APIRouter, ...]
    direct: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await self.direct(scope, receive, send)

    def allowed(self, scope: Scope) -> list[str]:
        """Return the methods that the path of `scope` takes, sorted; routes hold one each.

        As in the document, a path that stands there itself is no other one with an id in it.
        """
        routes = (route for router in self.routers for route in router.routes)
        found = [r for r in routes if isinstance(r, APIRoute) and r.matches(scope)[0] != Match.NONE]
        exact = [route for route in found if route.path == scope["path"]]
        return sorted({method for route in exact or found for method in route.methods or ()})

    def openapi(self) -> dict[str, object]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            routes = [route for router in self.routers for route in router.routes]
            self.openapi_schema = describe(routes, version=self.version, access=self.access)
        return self.openapi_schema


def make_api(gateway: Gateway, waits: OpenWaits, access: Access, wrong_tokens: WrongTokens) -> Api:
    """Return the API of an open gateway. Not for the event loop: it takes a moment.

    Args:
        gateway: What answers.
        waits: Where waits are registered, for a server that stops.
        access: Who may ask.
        wrong_tokens: Where tries of the admin token are counted.
    """
    app = Api(
        version=gateway.version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # A turn is traced, not the request that brought its message; and what FastAPI records of
        # errors would hold their texts.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.access = access
    app.library = gateway.library
    app.routers = (
        *_routers(gateway, waits, access),
        mcp_router(gateway, waits, lambda: make_api(gateway, waits, access, wrong_tokens)),
    )
    for router in app.routers:
        # As `include_router` does it, each request is matched against router after router, several
        # times over: that took as long as everything else of FastAPI.
        app.router.routes += router.routes
    # Each request is matched against route after route, so what is asked most often comes first.
    # Nothing else follows from the order: no other route takes these.
    app.router.routes.sort(key=lambda route: not _is_turn(route))

    _add_documents(app)
    protect = protector(gateway, access, wrong_tokens)
    app.direct = partial(FastAPI.__call__, app)
    for route in reversed(app.router.routes):  # what is asked most often is asked first there, too
        if isinstance(route, APIRoute):
            route.app = protect(route.app, _method(route), route.path)
            if _is_message(route):
                app.direct = direct_messages(app.direct, route, protect)
            elif _begins_session(route):
                app.direct = direct_sessions(app.direct, route, protect)
            elif _takes_deliveries(route):
                app.direct = direct_deliveries(app.direct, route, protect)
    _add_error_handlers(app)
    return app


def _method(route: APIRoute) -> str:
    (method,) = route.methods or {""}
    return method


def _routers(gateway: Gateway, waits: OpenWaits, access: Access) -> tuple[APIRouter, ...]:
    """Return the routers of the API, each with what it needs of the gateway."""
    return (
        health_router(gateway),
        metrics_router(gateway),
        agents_router(gateway),
        checkpoints_router(gateway),
        sessions_router(gateway),
        shares_router(gateway),
        turns_router(gateway, waits),
        media_router(gateway),
        exports_router(gateway),
        context_router(gateway, waits),
        keeping_router(gateway),
        session_models_router(gateway),
        live_router(gateway, waits),
        usage_router(gateway),
        channels_router(gateway),
        pairing_router(gateway),
        schedules_router(gateway, access),
        admin_router(gateway, waits),
        maintenance_router(gateway, waits),
        agent_files_router(gateway),
        *((console_router(gateway, access),) if gateway.config.server.console else ()),
        openai_router(gateway, waits),
        responses_router(gateway, waits),
        passed_on_router(gateway),
    )


def _add_documents(app: Api) -> None:
    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        """Describe the API to programs."""
        # Made once, in a thread: it takes longer than the loop may be kept.
        document = await run_sync(app.openapi)
        return Response(orjson.dumps(document), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """Show the API to a person. One file, nothing from elsewhere."""
        headers = {
            "Content-Security-Policy": _DOCS_POLICY,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }
        return FileResponse(_DOCS, media_type="text/html", headers=headers)


def _is_turn(route: BaseRoute) -> bool:
    """Whether it takes the messages that begin turns."""
    return isinstance(route, APIRoute) and (
        _is_message(route) or route.path.endswith("/chat/completions")
    )


def _is_message(route: APIRoute) -> bool:
    """Whether it takes the messages of a session."""
    return route.path.endswith("/messages") and "POST" in (route.methods or ())


def _begins_session(route: APIRoute) -> bool:
    """Whether it begins sessions."""
    return route.path == "/api/v1/sessions" and "POST" in (route.methods or ())


def _takes_deliveries(route: APIRoute) -> bool:
    """Whether platforms deliver there."""
    return route.path == WEBHOOK_PATH and "POST" in (route.methods or ())


def _add_error_handlers(app: Api) -> None:
    """Turn every error into a problem document, faults of ours included."""

    @app.exception_handler(ProblemError)
    async def problem(request: Request, error: ProblemError) -> Response:
        return _answer(request, error.problem)

    @app.exception_handler(CoreError)
    async def core_error(request: Request, error: CoreError) -> Response:
        if isinstance(error, UnknownAgentError):
            error = _as_told(app, request, error)
        answer = core_problem(error)
        if answer.status >= 500:
            logger.error("a request failed", extra={"path": request.url.path, "error": str(error)})
        return _answer(request, answer)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        faults = cast("list[Mapping[str, object]]", error.errors())
        kind = request.headers.get("content-type")
        return _answer(request, validation_problem(faults, kind, error.body))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return _answer(request, _http_problem(app, request, error))

    @app.exception_handler(ClientLeftError)
    async def client_left(request: Request, error: ClientLeftError) -> Response:
        del request, error
        return Response(status_code=CLIENT_LEFT)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        del error  # the server logs it with its traceback
        return _answer(request, INTERNAL)


def _as_told(app: Api, request: Request, error: UnknownAgentError) -> UnknownAgentError:
    """Return the error with the names of no other agents than those that the caller knows."""
    caller: Caller | None = request.scope.get(CALLER)
    if caller is None or caller.principal.agents is None:
        return error
    return UnknownAgentError(error.name, visible_agents(caller.principal, app.library))


def _http_problem(app: Api, request: Request, error: HTTPException) -> Problem:
    if isinstance(error, BodyTooLargeError):
        return too_large(error.limit_bytes)
    if error.status_code == 400:  # FastAPI could not read the body
        return body_problem(error.__cause__)
    path = request.url.path
    details = {
        404: _nothing_at(path),
        405: f"{path} does not take {request.method}",
    }
    headers = dict(error.headers or {})
    if error.status_code == 405 and (allowed := app.allowed(request.scope)):
        headers["Allow"] = ", ".join(allowed)
    detail = details.get(error.status_code, str(error.detail))
    return status_problem(error.status_code, detail, headers)


def _answer(request: Request, problem: Problem) -> Response:
    return problem_response(problem, request.scope)


def _nothing_at(path: str) -> str:
    """Return what is said of a path that is no route."""
    if path.startswith(NOT_SERVED):
        return not_served(path)
    return f"there is nothing at {path}; the routes are in /openapi.json"
