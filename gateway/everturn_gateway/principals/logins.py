"""Logins of browsers: whoever showed a token is known by a cookie for some hours.

They stand in memory alone, by their digests, so that the end of the process ends all of them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from msgspec import Struct

from everturn_gateway.principals.tokens import digest_of
from everturn_gateway.principals.values import Principal, TokenRecord

LOGIN_S: Final = 12 * 3600
LINK_S: Final = 15 * 60
RAISED_S: Final = 15 * 60  # how long a second login may administer
LOGINS_MAX: Final = 1000  # beyond it the oldest ends
LINK_PREFIX: Final = "evl_"


class Login(Struct, kw_only=True, eq=False):
    """One browser, and who uses it. What is open for it looks here whether it may go on."""

    base: Principal
    "Who it is without a raised role."
    record: TokenRecord | None
    "Of the token that was shown; None = one of the configuration, or a link."
    ends_s: float
    raised_until_s: float = 0.0
    raised_by: TokenRecord | None = None
    "Of the token that raised the role; None = that of the configuration."
    is_ended: bool = False


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
            self._forget(next(iter(self._logins)))
        ends_s = self._now_s() + LOGIN_S
        return self._keep(Login(base=principal, record=record, ends_s=ends_s))

    def find(self, secret: str) -> Login | None:
        """Return the login of a cookie; None where it is none, or over."""
        digest = digest_of(secret)
        login = self._logins.get(digest)
        if login is not None and login.ends_s <= self._now_s():
            self._forget(digest)
            return None
        return login

    def raise_role(self, secret: str, by: TokenRecord | None) -> str:
        """Let a login administer for 15 minutes; return what the cookie holds from now on.

        It is another cookie: a page of another port may have planted the one that was.

        Args:
            secret: Of the login's cookie, which `find` knows.
            by: Of the token that allows it; None = the admin token of the configuration.
        """
        login = self._logins.pop(digest_of(secret))
        login.raised_until_s, login.raised_by = self._now_s() + RAISED_S, by
        return self._keep(login)

    def raised_s(self, login: Login) -> float:
        """Return for how long a login may still administer because its role was raised."""
        return max(0.0, login.raised_until_s - self._now_s())

    def holder(self, login: Login, is_valid: Callable[[TokenRecord], bool]) -> Principal | None:
        """Return as whom a login acts now; None = it is over.

        Args:
            login: Of a browser.
            is_valid: Whether a token still opens what it did.
        """
        if login.is_ended or login.ends_s <= self._now_s():
            return None
        if login.record is not None and not is_valid(login.record):
            return None
        by = login.raised_by
        if not self.raised_s(login) or (by is not None and not is_valid(by)):
            return login.base
        agents = frozenset(by.agents) if by is not None and by.agents else None
        return replace(login.base, scopes=login.base.scopes | {"admin"}, agents=agents)

    def end(self, secret: str) -> None:
        """End the login of a cookie."""
        self._forget(digest_of(secret))

    def _keep(self, login: Login) -> str:
        secret = secrets.token_urlsafe(32)
        self._logins[digest_of(secret)] = login
        return secret

    def _forget(self, digest: str) -> None:
        login = self._logins.pop(digest, None)
        if login is not None:
            login.is_ended = True

    def make_link(self) -> str:
        """Return a code that logs in whoever runs the gateway, once, within 15 minutes."""
        code = LINK_PREFIX + secrets.token_urlsafe(32)
        self._links = {digest_of(code): self._now_s() + LINK_S}
        return code

    def redeem(self, code: str) -> bool:
        """Use a code up; return whether it was good."""
        ends_s = self._links.pop(digest_of(code), 0.0)
        return ends_s > self._now_s()
