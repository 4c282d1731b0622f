"""Log a browser in and out, and tell it as whom."""

from __future__ import annotations

from typing import Protocol

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from everturn_gateway.http.access.auth import Access, Caller, bearer_of, caller_of
from everturn_gateway.http.access.cookies import LOGIN_PATH, cookie_of, set_cookie
from everturn_gateway.http.ports import HasCallers, HasConfig
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.console import LoginBody
from everturn_gateway.principals import Principal


class Host(HasCallers, HasConfig, Protocol):
    """The parts of the gateway that are used here."""


def console_router(gateway: Host, access: Access) -> APIRouter:
    """Return the routes of the console's login. They are the page's, and in no document."""
    router = APIRouter(include_in_schema=False)
    public_url, logins = gateway.config.server.public_url, gateway.logins

    @router.get(LOGIN_PATH, response_model=LoginBody)
    async def tell_login(request: Request) -> Response:
        """Tell the page as whom it asks, and what that may."""
        caller = caller_of(request.scope)
        raised_s = logins.raised_s(caller.login) if caller.login is not None else 0.0
        return answer(LoginBody.of(caller.principal, caller.login, raised_s))

    @router.post(LOGIN_PATH, status_code=204)
    async def log_in(request: Request) -> Response:
        """Take the token that the request came with, and answer with a cookie.

        A token in a header is sent by no form, and by no page of somebody else. One that is for the
        administration raises the role of the login that there is, or of a new one, for 15 minutes.
        """
        caller = caller_of(request.scope)
        if caller.login is not None:  # it showed no token
            return Response(status_code=204)
        secret = cookie_of(request.scope, request.headers, public_url)
        if bearer_of(request.headers) and caller.has_raised:
            login = logins.find(secret)
            if login is None or logins.holder(login, gateway.tokens.is_valid) is None:
                secret = logins.begin(_without_raised_role(access, caller), caller.record)
            secret = logins.raise_role(secret, caller.record)
        else:
            logins.end(secret)
            secret = logins.begin(caller.principal, caller.record)
        cookie = set_cookie(request.scope, secret, public_url)
        return Response(status_code=204, headers={"Set-Cookie": cookie})

    @router.delete(LOGIN_PATH, status_code=204)
    async def log_out(request: Request) -> Response:
        """End the login of the request's cookie, and what is open for it."""
        logins.end(cookie_of(request.scope, request.headers, public_url))
        cookie = set_cookie(request.scope, "", public_url)
        return Response(status_code=204, headers={"Set-Cookie": cookie})

    return router


def _without_raised_role(access: Access, caller: Caller) -> Principal:
    """Return as whom somebody stays logged in when the time of the administration is over."""
    if caller.record is None:
        return access.owner
    it = caller.principal
    return Principal(name=it.name, scopes=it.granted - {"admin"}, agents=it.agents)
