"""Turns requests away before anything of them is read: who asks, how often, from where."""

from __future__ import annotations

import logging
import math
from typing import Final

from msgspec import Struct, field
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.access.addresses import client_address, header_of, peer_address
from everturn_gateway.http.access.auth import (
    CALLER,
    FOREIGN_PAGE,
    OPEN_PATHS,
    WRONG_TOKEN,
    Authenticator,
    Caller,
    Refused,
    bearer_of,
    foreign_refusal,
    is_own_host,
    is_webhook,
)
from everturn_gateway.http.access.cookies import LOGIN_PATH, Browsers, is_page
from everturn_gateway.http.problems import Problem, problem
from everturn_gateway.principals import LOCAL, RateLimiter
from everturn_gateway.telemetry.instruments import Instruments

logger = logging.getLogger(__name__)

# Of wrong tokens, a minute: what a person mistypes, and what a client that was forgotten sends.
WRONG_OF_ADDRESS: Final = 6
WRONG_BURST: Final = 10
WRONG_OF_ALL: Final = 300  # from all addresses together
LOGGED_OF_ADDRESS: Final = 1  # lines of the log a minute
LOGGED_OF_ALL: Final = 30
_EVERYBODY: Final = "*"
_API: Final = "/api/v1/sessions"
# Headers that say nothing of who asks, where from, or by whom a request was passed on.
_SAY_NOTHING: Final = frozenset(
    (
        *(b"accept", b"accept-encoding", b"connection", b"content-length", b"content-type"),
        *(b"idempotency-key", b"prefer", b"user-agent"),
    )
)


class WrongTokens(Struct):
    """How many wrong tokens came, and from where; in bounded memory.

    Where too many came from an address, or from all together, a token is looked at only where
    nobody could find it by trying: right ones of principals, and long ones, go on working for those
    who share the address.
    """

    of_address: RateLimiter = field(default_factory=RateLimiter)
    of_all: RateLimiter = field(default_factory=RateLimiter)
    logged: RateLimiter = field(default_factory=RateLimiter)

    def wait_s(self, address: str) -> float:
        """Return for how long weak tokens from an address are not looked at."""
        return max(
            self.of_address.wait_s(address, per_minute=WRONG_OF_ADDRESS, burst=WRONG_BURST),
            # Many addresses may try together.
            self.of_all.wait_s(_EVERYBODY, per_minute=WRONG_OF_ALL),
        )

    def note(self, address: str) -> None:
        """Count a wrong token, and log it unless much was logged already; never what it was."""
        self.of_address.take(address, per_minute=WRONG_OF_ADDRESS, burst=WRONG_BURST)
        self.of_all.take(_EVERYBODY, per_minute=WRONG_OF_ALL)
        if (
            self.logged.take(address, per_minute=LOGGED_OF_ADDRESS) == 0
            and self.logged.take(_EVERYBODY, per_minute=LOGGED_OF_ALL) == 0
        ):
            logger.warning(
                "a request came with a wrong token",
                extra={"address": address, "slowed": self.wait_s(address) > 0},
            )


def _is_local(caller: Caller) -> bool:
    return caller.principal.is_owner and caller.principal.name == LOCAL


class OneCaller:
    """Takes every request as that of one caller. Plain ASGI.

    For an application that nothing but this process reaches; it is never put behind a listener.
    """

    def __init__(self, app: ASGIApp, *, caller: Caller) -> None:
        self._app, self._caller = app, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        scope[CALLER] = self._caller
        await self._app(scope, receive, send)


class Guard:
    """Turns away whoever may not ask, or asks too often."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        instruments: Instruments,
        wrong_tokens: WrongTokens,
        browsers: Browsers | None,
        server: ServerConfig,
    ) -> None:
        self._authenticator, self._browsers = authenticator, browsers
        self._access, self._tokens = authenticator.access, authenticator.tokens
        self._owner = self._access.owner
        self._to, self._wrong = instruments, wrong_tokens
        self._trusted = server.trusted_proxies
        self._of_address = server.address_requests_per_minute
        self._addresses, self._principals = RateLimiter(), RateLimiter()
        self._lets_programs_in = self._access.is_open_here and not self._of_address

    async def refusal(self, scope: Scope) -> Problem | None:
        """Return why a request is turned away; None where it may pass, with its caller noted."""
        # The usual request of a program here, in a tenth of the time.
        if self._lets_programs_in and self._is_plain(scope):
            address = peer_address((scope["client"] or ("",))[0])
            scope[CALLER] = Caller(principal=self._owner, address=address)
            return None
        path = scope["path"]
        if is_webhook(path):
            return None
        headers = Headers(scope=scope)
        if path in OPEN_PATHS or (self._browsers is not None and is_page(path)):
            return foreign_refusal(self._access, headers) if self._access.is_open_here else None
        address = client_address((scope["client"] or ("",))[0], headers, self._trusted)
        # Before a token is looked at: that costs a hash.
        if wait_s := self._ask_of_address(address):
            return self._throttled("address", f"{self._of_address} requests a minute", wait_s)
        slowed_s = self._wrong.wait_s(address)  # before this try counts itself
        found = await self._by_login(scope, headers, address)
        if found is None:
            slowed = slowed_s > 0
            found = await self._authenticator.identify(headers, address, slowed=slowed)
        if path == LOGIN_PATH and isinstance(found, Caller) and found.has_stray_token:
            found = Refused("wrong", WRONG_TOKEN)  # nobody logs in with a token that is none
        if isinstance(found, Refused):
            return self._refused(found, address, slowed_s)
        scope[CALLER] = found
        foreign = None
        if _is_local(found):
            # A page of another port is no program.
            is_cross = header_of(headers, b"sec-fetch-site") in {"cross-site", "same-site"}
            foreign = FOREIGN_PAGE if is_cross else foreign_refusal(self._access, headers)
        return foreign or self._too_often(found)  # what is refused uses up nothing of the holder's

    def _is_plain(self, scope: Scope) -> bool:
        """Whether a program of this machine asks the API, and says nothing of who it is.

        All that `refusal` looks at comes to the same then: there is no token, no cookie, no page of
        a browser and no proxy. A conversation over loopback is made of such requests alone.
        """
        if not scope["path"].startswith(_API):
            return False
        host = b""
        for name, value in scope["headers"]:
            if name == b"host":
                if host:
                    return False
                host = value
            elif name not in _SAY_NOTHING:
                return False
        # A name of a stranger that leads here is a page's trick.
        return is_own_host(self._access, host)

    async def _by_login(
        self, scope: Scope, headers: Headers, address: str
    ) -> Caller | Refused | None:
        """Return who is logged in, or came by a link that logs in; None = nobody."""
        browsers = self._browsers
        if browsers is None:
            return None
        token = bearer_of(headers)
        if token:
            # Once: the link is in a history then.
            is_link = scope["path"] == LOGIN_PATH and browsers.logins.redeem(token)
            return Caller(principal=self._access.owner, address=address) if is_link else None
        login = browsers.login_of(scope, headers)
        if login is None:
            return None
        if login.record is not None or login.raised_by is not None:
            await self._tokens.refresh()  # a token that was revoked takes its logins with it
        holder = browsers.logins.holder(login, self._tokens.is_valid)
        if holder is None:
            return None
        return Caller(principal=holder, address=address, record=login.record, login=login)

    def _ask_of_address(self, address: str) -> float:
        limit = self._of_address
        return self._addresses.take(address, per_minute=limit) if limit else 0.0

    def _refused(self, refused: Refused, address: str, slowed_s: float) -> Problem:
        """Count a request of nobody, and return the answer to it."""
        if refused.why == "wrong":
            if slowed_s > 0:
                self._to.http_unauthorized.add("slowed")
                # The same for a right one: else it would tell them apart.
                return self._throttled("wrong_tokens", "tries with wrong tokens", slowed_s)
            self._wrong.note(address)
        self._to.http_unauthorized.add(refused.why)
        return refused.problem

    def _too_often(self, caller: Caller) -> Problem | None:
        limit = caller.record.requests_per_minute if caller.record else None
        if limit is None:
            return None
        wait_s = self._principals.take(caller.principal.name, per_minute=limit)
        if not wait_s:
            return None
        return self._throttled("principal", f"{limit} requests a minute of its token", wait_s)

    def _throttled(self, limit: str, what: str, wait_s: float) -> Problem:
        self._to.http_throttled.add(limit)
        seconds = max(1, math.ceil(wait_s))  # 0 would say: at once
        return problem(
            "too-many-requests",
            f"this is over {what}; try again in {seconds} s",
            headers={"Retry-After": str(seconds)},
        )
