"""Who may ask: bearer tokens, and on loopback without a token only programs of this machine."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from everturn_gateway.channel_config import WEBHOOK_PATH
from everturn_gateway.config import is_loopback
from everturn_gateway.http.problems import Problem, problem_response

OPEN_PATHS = frozenset({"/livez", "/docs"})  # answer without a token; they say nothing about anyone
# Platforms deliver here, and have a secret of their own.
_WEBHOOK = re.compile(WEBHOOK_PATH.format(name="[^/]+"))
ADMIN_PREFIX = "/api/v1/admin/"
SCHEDULES_PATH = "/api/v1/schedules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules of one server."""

    host: str
    "The address that it listens on."
    api_token: str
    "Empty = none is needed; the server then listens on loopback alone."
    admin_token: str
    "Empty = the administration is open to those who may use the API, on loopback alone."


class Guard:
    """Turns away whoever may not ask, before anything of the request is read. Plain ASGI."""

    def __init__(self, app: ASGIApp, *, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            problem = refusal(self._access, scope["path"], Headers(scope=scope))
            if problem is not None:
                await problem_response(problem, scope)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_open(path: str) -> bool:
    """Return whether a path answers without a token; names in it may stand in braces."""
    return path in OPEN_PATHS or _WEBHOOK.fullmatch(path) is not None


def refusal(access: Access, path: str, headers: Headers) -> Problem | None:
    """Return why a request is turned away; None where it may pass."""
    if _WEBHOOK.fullmatch(path):
        return None
    if not access.api_token and (problem := _foreign(access, headers)) is not None:
        return problem
    if is_open(path):
        return None
    if path.startswith(ADMIN_PREFIX) and (access.admin_token or not is_loopback(access.host)):
        return admin_refusal(access, headers)
    # Some jobs are for the administration alone, and whoever has its token makes the others too.
    if path == SCHEDULES_PATH and access.admin_token and admin_refusal(access, headers) is None:
        return None
    return _check_token(access.api_token, headers, "API token") if access.api_token else None


def admin_refusal(access: Access, headers: Headers) -> Problem | None:
    """Return why a request may not do what is for the administration; None where it may."""
    if access.admin_token:
        return _check_token(access.admin_token, headers, "admin token")
    return None if is_loopback(access.host) else _ADMIN_CLOSED


_ADMIN_CLOSED = Problem(
    kind="admin-closed",
    title="The administration is closed",
    status=403,
    detail=(
        "this server listens beyond loopback and has no admin token; set server.admin_token in"
        " everturn.yaml to open /api/v1/admin, and to schedule what goes to a webhook"
    ),
)


def _check_token(token: str, headers: Headers, name: str) -> Problem | None:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    right = hmac.compare_digest(given.strip().encode("latin-1"), token.encode())
    if right and scheme.lower() == "bearer":
        return None
    what = f"is not the {name}" if given else f"is missing: this needs the {name}"
    return Problem(
        kind="unauthorized",
        title="A valid token is needed",
        status=401,
        detail=f"the bearer token {what} (Authorization: Bearer ...)",
        headers={"WWW-Authenticate": 'Bearer realm="everturn"'},
    )


def _foreign(access: Access, headers: Headers) -> Problem | None:
    """Refuse what a page from elsewhere makes a browser on this machine send.

    Without a token, that a request comes from this machine is all its authority. A browser is on
    this machine too: `Host` shows a name that was rebound to loopback, `Origin` another site.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    named = {"Host": _hostname(f"//{host}")}
    if origin is not None:
        named["Origin"] = _hostname(origin)
    for header, name in named.items():
        if name != access.host.lower() and not is_loopback(name):
            return Problem(
                kind="foreign-host",
                title="The request comes from elsewhere",
                status=403,
                detail=(
                    f"without a token this server answers only to names of loopback, such as"
                    f" 127.0.0.1 or localhost; the {header} header names {name!r}"
                ),
            )
    return None


def _hostname(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
