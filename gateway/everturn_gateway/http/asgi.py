"""The ASGI application: what each request meets first, and behind it the API.

FastAPI, the routes and the bodies of the API take a quarter of a start to load. A gateway that
talks on chat platforms alone never needs them. They are loaded in a thread, with the first request
that is no probe.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.access.auth import Access, Authenticator, Caller
from everturn_gateway.http.access.cookies import Browsers
from everturn_gateway.http.access.front import Front
from everturn_gateway.http.access.guard import Guard, OneCaller, WrongTokens
from everturn_gateway.http.access.protected import protector
from everturn_gateway.http.console.pages import ConsolePages
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.probes import Probes
from everturn_gateway.http.problems import INTERNAL, problem_response
from everturn_gateway.http.waiting import OpenWaits
from everturn_gateway.late_loading import late, loading_late

if TYPE_CHECKING:  # see the module's docstring
    from fastapi import FastAPI
    from starlette.middleware import errors

    from everturn_gateway.http.application import Api
else:
    errors = late("starlette.middleware.errors")  # for a gateway in this process alone


class Application:
    """The application around an open gateway. `create_app` makes one."""

    def __init__(self, app: ASGIApp, api: LazyApi) -> None:
        self.app = app
        "What handles requests, without this value around it."
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await self.app(scope, receive, send)

    def api(self) -> FastAPI:
        """Return the API in FastAPI: its routes and its document. Not for the event loop."""
        return self._api.load()


class LazyApi:
    """Loads the API with its first request. Plain ASGI."""

    def __init__(
        self, gateway: Gateway, waits: OpenWaits, access: Access, wrong_tokens: WrongTokens
    ) -> None:
        """Prepare; see `application.make_api`."""
        self._arguments = gateway, waits, access, wrong_tokens
        self._loading = anyio.Lock()
        self._api: Api | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        api = self._api
        if api is None:
            async with self._loading:
                api = await run_sync(self.load)
        await api(scope, receive, send)

    @property
    def loaded(self) -> Api | None:
        """The API, once it is there."""
        return self._api

    def load(self) -> Api:
        """Return the API. Not for the event loop."""
        if self._api is None:
            with loading_late():
                self._api = _make(*self._arguments)
        return self._api


def create_app(
    gateway: Gateway, waits: OpenWaits | None = None, *, caller: Caller | None = None
) -> Application:
    """Return the application around an open gateway.

    Args:
        gateway: What answers.
        waits: Where waits are registered, for a server that stops.
        caller: Who every request is from, in an application that only this process reaches: then
            nobody is asked for a token, and no limits stand between. None = an application for
            listeners, which finds out who asks.
    """
    waits = waits or OpenWaits()
    server = gateway.config.server
    access = _access(server)
    wrong_tokens = WrongTokens()
    api = LazyApi(gateway, waits, access, wrong_tokens)
    app: ASGIApp = Probes(api, gateway, protector(gateway, access, wrong_tokens))
    if server.console:
        app = ConsolePages(app, server)
    if caller is not None:
        app = errors.ServerErrorMiddleware(OneCaller(app, caller=caller), handler=_failed)
    else:
        gateway.telemetry.requests.followers = waits.followers
        guard = _guard(gateway, access, wrong_tokens)
        app = Front(
            app,
            takes_posts=lambda: api.loaded,
            counts=gateway.telemetry.requests,
            guard=guard,
            server=server,
            waits=waits,
        )
    return Application(app, api)


def _make(gateway: Gateway, waits: OpenWaits, access: Access, wrong_tokens: WrongTokens) -> Api:
    # FastAPI makes validators for the whole of OpenAPI when it is imported, which takes 50 ms.
    # Only who asks for the document needs them; they are made then.
    BaseModel.model_config["defer_build"] = True
    try:
        import_module("fastapi")
    finally:
        del BaseModel.model_config["defer_build"]
    from everturn_gateway.http.application import make_api  # noqa: PLC0415 - see above

    return make_api(gateway, waits, access, wrong_tokens)


def _guard(gateway: Gateway, access: Access, wrong_tokens: WrongTokens) -> Guard:
    """Return what finds out who asks, and turns others away."""
    server = gateway.config.server
    return Guard(
        authenticator=Authenticator(access, gateway.tokens),
        instruments=gateway.telemetry.instruments,
        wrong_tokens=wrong_tokens,
        browsers=Browsers(logins=gateway.logins, public_url=server.public_url)
        if server.console
        else None,
        server=server,
    )


def _access(server: ServerConfig) -> Access:
    return Access(
        host=server.host,
        api_token=server.api_token,
        admin_token=server.admin_token,
        require_token=server.require_token,
    )


async def _failed(request: Request, error: Exception) -> Response:
    del error  # the server logs it with its traceback
    return problem_response(INTERNAL, request.scope)
