"""Who asks: bearer tokens, and on loopback without a token programs of this machine."""

from __future__ import annotations

import hmac
import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import Scope as AsgiScope

from everturn_gateway.config.channels import WEBHOOK_PATH
from everturn_gateway.config.settings import is_loopback
from everturn_gateway.http.access.addresses import header_of, is_forwarded
from everturn_gateway.http.problems import Problem, problem
from everturn_gateway.principals import (
    ADMIN_TOKEN,
    API_TOKEN,
    LOCAL,
    PREFIX,
    Login,
    Principal,
    Scope,
    TokenRecord,
    TokenRegistry,
    is_token,
)

OPEN_PATHS = frozenset({"/livez", "/docs"})  # answer without a token; they say nothing about anyone
# Platforms deliver here, and have a secret of their own.
_WEBHOOK = re.compile(WEBHOOK_PATH.format(name="[^/]+"))
STRONG_CHARACTERS: Final = 32  # of a token that nobody finds by trying, however often
REALM: Final = 'Bearer realm="everturn"'
CALLER: Final = "everturn.caller"  # in the ASGI scope: who asks
SESSION: Final = "everturn.session"  # and for which session, where the path does not say

_EVERYTHING: Final[frozenset[Scope]] = frozenset(("operate", "approve", "admin"))
_ALL_BUT_ADMINISTRATION: Final[frozenset[Scope]] = frozenset(("operate", "approve"))

Refusal: TypeAlias = Literal["missing", "wrong", "expired", "slowed", "doubled"]


class Access(Struct, frozen=True, kw_only=True):
    """The rules of one server."""

    host: str
    "The address that it listens on."
    api_token: str
    "Empty = there is none."
    admin_token: str
    "Empty = the administration is open to whoever runs the gateway, on loopback alone."
    require_token: bool = False
    "Whether programs of this machine need a token too."

    @property
    def is_open_here(self) -> bool:
        """Whether programs of this machine need no token; the server then listens on loopback."""
        return not self.api_token and not self.require_token and is_loopback(self.host)

    @property
    def owner_scopes(self) -> frozenset[Scope]:
        """What whoever runs the gateway may do without the admin token."""
        may_administer = not self.admin_token and is_loopback(self.host)
        # Whoever is on this machine can edit the files as well.
        return _EVERYTHING if may_administer else _ALL_BUT_ADMINISTRATION

    @property
    def owner(self) -> Principal:
        """Whoever runs the gateway, as without the admin token."""
        name = LOCAL if self.is_open_here else API_TOKEN
        return Principal(name=name, scopes=self.owner_scopes, is_owner=True)


class Caller(Struct, frozen=True, kw_only=True):
    """Whoever sends a request, as far as that is known."""

    principal: Principal
    address: str
    "By which limits count, see `client_address`."
    record: TokenRecord | None = None
    "Of a token that can be revoked; None = the configuration has it, or none was needed."
    has_stray_token: bool = False
    "Whether a token was sent that is none, where none was needed."
    login: Login | None = None
    "Of the browser that asks; None = a token was shown, or none was needed."

    @property
    def has_raised(self) -> bool:
        """Whether it showed a token that is for the administration."""
        is_own = self.principal.name == ADMIN_TOKEN
        return is_own or (self.record is not None and self.principal.may("admin"))


THIS_PROCESS: Final = Caller(
    principal=Principal(name=LOCAL, scopes=_EVERYTHING, is_owner=True), address=""
)
"The command that has opened a gateway for itself: whoever runs it owns the installation."


class Refused(Struct, frozen=True):
    """Nobody was recognised."""

    why: Refusal
    problem: Problem


def caller_of(scope: AsgiScope) -> Caller:
    """Return who sends the request of `scope`, which came past the guard."""
    found: Caller = scope[CALLER]
    return found


WHOLE: Final = problem(
    "limited-to-agents",
    "this tells of all agents, or changes all, and the token is limited to some",
)


def is_webhook(path: str) -> bool:
    """Return whether platforms deliver at a path."""
    return _WEBHOOK.fullmatch(path) is not None


class Authenticator:
    """Recognises whoever sends a request by what its headers say."""

    def __init__(self, access: Access, tokens: TokenRegistry) -> None:
        self.access, self.tokens = access, tokens
        self._is_open_here = access.is_open_here
        self._local = access.owner

    async def identify(self, headers: Headers, address: str, *, slowed: bool) -> Caller | Refused:
        """Return who asks, or why nobody is recognised.

        Args:
            headers: Of the request.
            address: Of the client.
            slowed: Whether too many wrong tokens came from there: then only such as nobody finds by
                trying are looked at.
        """
        lines = headers.getlist("authorization")
        if len(lines) > 1:
            # What stands in front may have looked at another one of them.
            return Refused("doubled", _unauthorized("there is more than one Authorization header"))
        token = _bearer(lines[0]) if lines else ""
        if token:
            found = await self._holder(token, address, slowed=slowed)
            if found is not None:
                return found
        # A proxy on this machine makes strangers look like neighbours.
        passed_on = is_forwarded(headers)
        if self._is_open_here and not token.startswith(PREFIX) and not passed_on:
            return Caller(principal=self._local, address=address, has_stray_token=bool(token))
        if token:
            return Refused("wrong", WRONG_TOKEN)
        what = "the bearer token is missing"
        if self._is_open_here:
            what += "; only programs of this machine need none, and a proxy passed this on"
        return Refused("missing", _unauthorized(what, has_token=False))

    async def _holder(self, token: str, address: str, *, slowed: bool) -> Caller | Refused | None:
        """Return whose token it is; None = nobody's."""
        for name, own, scopes in (
            (ADMIN_TOKEN, self.access.admin_token, frozenset[Scope]({"admin"})),
            (API_TOKEN, self.access.api_token, self.access.owner_scopes),
        ):
            # A long one cannot be found by trying, so its holder is never slowed.
            if own and not (slowed and len(own) < STRONG_CHARACTERS) and _is_same(token, own):
                principal = Principal(name=name, scopes=scopes, is_owner=True)
                return Caller(principal=principal, address=address)
        if not is_token(token):
            return None
        # The file is not read anew for whoever only tries.
        record = await self.tokens.recognise(token, may_be_new=not slowed)
        if record is None:
            return None
        if not self.tokens.is_valid(record):
            # Its holder knew it: told apart from a wrong one.
            return Refused("expired", _unauthorized("the bearer token has expired"))
        self.tokens.note_use(record)
        return Caller(principal=record.principal, address=address, record=record)


def bearer_of(headers: Headers) -> str:
    """Return the token of a request; empty where it has none."""
    return _bearer(header_of(headers, b"authorization") or "")


def _bearer(line: str) -> str:
    """Return the token of an `Authorization` header; empty where it has none."""
    scheme, _, given = line.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _is_same(given: str, token: str) -> bool:
    # Takes as long whatever is right of it.
    return hmac.compare_digest(given.encode("latin-1", "replace"), token.encode())


def _unauthorized(what: str, *, has_token: bool = True, scope: Scope | None = None) -> Problem:
    error = ', error="invalid_token"' if has_token else ""
    return problem(
        "unauthorized",
        f"{what} (Authorization: Bearer ...)",
        extra={"scope": scope} if scope else None,
        headers={"WWW-Authenticate": f"{REALM}{error}"},
    )


WRONG_TOKEN: Final = _unauthorized("the bearer token is not one of this gateway, or was revoked")
NOT_THE_ADMIN_TOKEN: Final = _unauthorized("this needs the admin token", scope="admin")
ENDED: Final = _unauthorized("the bearer token was revoked, or has expired, or opens this no more")

_ADMIN_CLOSED: Final = problem(
    "admin-closed",
    "this server listens beyond loopback and has no admin token; set server.admin_token in"
    " everturn.yaml, or make a token with the scope admin, to open /api/v1/admin and to"
    " schedule what goes to a webhook",
    extra={"scope": "admin"},
)


FOREIGN_PAGE: Final = problem(
    "foreign-host",
    "without a token this server answers to its own page and to programs, and a browser says that"
    " a page from elsewhere sent this",
)


def scope_refusal(access: Access, principal: Principal, need: Scope) -> Problem | None:
    """Return why a principal may not do what needs a scope; None where it may.

    RFC 6750, section 3.1, has the words of the header.
    """
    if principal.may(need):
        return None
    if need == "admin" and principal.is_owner:
        if not access.admin_token:
            return _ADMIN_CLOSED  # no token that one could show would do
        if principal.name == LOCAL:
            return NOT_THE_ADMIN_TOKEN
    remedy = "; show one that does, such as the admin token" if need == "admin" else ""
    return problem(
        "insufficient-scope",
        f"this needs the scope {need}, which the token of {principal.name} does not have{remedy}",
        extra={"scope": need},
        headers={"WWW-Authenticate": f'{REALM}, error="insufficient_scope", scope="{need}"'},
    )


def foreign_refusal(access: Access, headers: Headers) -> Problem | None:
    """Refuse what a page from elsewhere makes a browser on this machine send.

    Without a token, that a request comes from this machine is all its authority. A browser is on
    this machine too: `Host` shows a name that was rebound to loopback, `Origin` another site.
    """
    host, origin = header_of(headers, b"host") or "", header_of(headers, b"origin")
    named = {"Host": _hostname(f"//{host}")}
    if origin is not None:
        named["Origin"] = _hostname(origin)
    for header, name in named.items():
        # A page can make its own name lead to this machine.
        if name != access.host.lower() and not is_loopback(name):
            return problem(
                "foreign-host",
                f"without a token this server answers only to names of loopback, such as"
                f" 127.0.0.1 or localhost; the {header} header names {name!r}",
            )
    return None


@lru_cache(maxsize=256)
def is_own_host(access: Access, host: bytes) -> bool:
    """Return whether a `Host` header names this server, as `foreign_refusal` asks it to."""
    name = _hostname(f"//{host.decode('latin-1')}")
    return name == access.host.lower() or is_loopback(name)


@lru_cache(maxsize=256)
def _hostname(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
