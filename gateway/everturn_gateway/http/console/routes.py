"""Log a browser in and out."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from everturn_gateway.http.access.auth import caller_of
from everturn_gateway.http.access.cookies import LOGIN_PATH, cookie_of, set_cookie
from everturn_gateway.http.ports import Gateway


def console_router(gateway: Gateway) -> APIRouter:
    """Return the routes of the console's login. They are the page's, and in no document."""
    router = APIRouter(include_in_schema=False)
    public_url = gateway.config.server.public_url

    @router.post(LOGIN_PATH, status_code=204)
    async def log_in(request: Request) -> Response:
        """Take the token that the request came with, and answer with a cookie.

        A token in a header is sent by no form, and by no page of somebody else.
        """
        caller = caller_of(request.scope)
        secret = gateway.logins.begin(caller.principal, caller.record)
        cookie = set_cookie(request.scope, secret, public_url)
        return Response(status_code=204, headers={"Set-Cookie": cookie})

    @router.delete(LOGIN_PATH, status_code=204)
    async def log_out(request: Request) -> Response:
        """End the login of the request's cookie."""
        gateway.logins.end(cookie_of(request.scope, request.headers, public_url))
        cookie = set_cookie(request.scope, "", public_url)
        return Response(status_code=204, headers={"Set-Cookie": cookie})

    return router
