"""Logins of browsers: whoever showed a token is known by a cookie for some hours.

They stand in memory alone, by their digests, so that the end of the process ends all of them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from everturn_gateway.principals.tokens import digest_of
from everturn_gateway.principals.values import Principal, TokenRecord

LOGIN_S: Final = 12 * 3600
LINK_S: Final = 15 * 60
LOGINS_MAX: Final = 1000  # beyond it the oldest ends
LINK_PREFIX: Final = "evl_"


class Login(Struct, frozen=True, kw_only=True):
    """One browser, and who uses it."""

    principal: Principal
    record: TokenRecord | None
    "Of the token that was shown; None = one of the configuration, or a link."
    ends_s: float


class Logins:
    """Who is logged in, and links that log somebody in once."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """Begin with nobody."""
        self._now_s = now_s
        self._logins: dict[str, Login] = {}
        self._links: dict[str, float] = {}

    def begin(self, principal: Principal, record: TokenRecord | None) -> str:
        """Let somebody in; return what the cookie holds."""
        if len(self._logins) >= LOGINS_MAX:
            del self._logins[next(iter(self._logins))]
        secret = secrets.token_urlsafe(32)
        ends_s = self._now_s() + LOGIN_S
        self._logins[digest_of(secret)] = Login(principal=principal, record=record, ends_s=ends_s)
        return secret

    def find(self, secret: str) -> Login | None:
        """Return the login of a cookie; None where it is none, or over."""
        digest = digest_of(secret)
        login = self._logins.get(digest)
        if login is not None and login.ends_s <= self._now_s():
            del self._logins[digest]
            return None
        return login

    def end(self, secret: str) -> None:
        """End the login of a cookie."""
        self._logins.pop(digest_of(secret), None)

    def make_link(self) -> str:
        """Return a code that logs in whoever runs the gateway, once, within 15 minutes."""
        code = LINK_PREFIX + secrets.token_urlsafe(32)
        self._links = {digest_of(code): self._now_s() + LINK_S}
        return code

    def redeem(self, code: str) -> bool:
        """Use a code up; return whether it was good."""
        ends_s = self._links.pop(digest_of(code), 0.0)
        return ends_s > self._now_s()
