"""The cookie of a login, and when it counts: in requests of the gateway's own page alone."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import Scope

from everturn_gateway.http.access.addresses import header_of
from everturn_gateway.principals import Login, Logins
from everturn_gateway.principals.logins import LOGIN_S

CONSOLE_PATH: Final = "/console/"
LOGIN_PATH: Final = "/console/login"
_COOKIE_CHARACTERS: Final = 4096


class Browsers(Struct, frozen=True, kw_only=True):
    """The browsers that are logged in, and by which address they know this server."""

    logins: Logins
    public_url: str
    "Scheme and host; empty = as the request says."

    def login_of(self, scope: Scope, headers: Headers) -> Login | None:
        """Return the login that a request shows; None where there is none, or it does not count."""
        secret = cookie_of(scope, headers, self.public_url)
        return self.logins.find(secret) if secret else None


def is_page(path: str) -> bool:
    """Return whether a path is of the page itself, which holds no data."""
    return path in {"/", "/console"} or (path.startswith(CONSOLE_PATH) and path != LOGIN_PATH)


def cookie_of(scope: Scope, headers: Headers, public_url: str) -> str:
    """Return what the login's cookie holds; empty where there is none, or it does not count.

    Ports share their cookies, and pages of other ports are of the same site: so a request has to
    show that it comes from a page of this very server, where its browser says where it comes from.
    """
    given = header_of(headers, b"cookie")
    if not given or len(given) > _COOKIE_CHARACTERS or is_foreign(scope, headers, public_url):
        return ""
    pairs = (each.strip().partition("=") for each in given.split(";"))
    return next((value for name, _, value in pairs if name == _name(scope)), "")


def is_foreign(scope: Scope, headers: Headers, public_url: str) -> bool:
    """Return whether a browser says that a request comes from a page of somebody else."""
    site = headers.get("sec-fetch-site", "same-origin")
    is_typed = site == "none" and scope["method"] == "GET"
    if site != "same-origin" and not is_typed:
        return True
    origin = headers.get("origin")
    return origin is not None and origin != _own_origin(headers, public_url)


def set_cookie(scope: Scope, secret: str, public_url: str) -> str:
    """Return the header that begins a login; with an empty `secret`, the one that ends it."""
    age_s = LOGIN_S if secret else 0
    safe = "; Secure" if public_url.startswith("https:") else ""
    name = _name(scope)
    return f"{name}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age_s}{safe}"


def _name(scope: Scope) -> str:
    server = scope.get("server")
    return f"everturn_{server[1] if server else 0}"


def _own_origin(headers: Headers, public_url: str) -> str:
    if public_url:
        parts = urlsplit(public_url)
        return f"{parts.scheme}://{parts.netloc}"
    return f"http://{headers.get('host', '')}"
