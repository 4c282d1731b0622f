"""The logins at MCP servers, as they are kept: one for each address, for all agents that name it.

    mcp-logins/<digest of the address>.json

The command line writes them when a person logs in or out, the gateway when it renews one. So no
gateway has to run for a login, and none has to be told.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import anyio

from everturn_actors.codec import Timestamp
from everturn_actors.documents import Document, Form, form_of
from everturn_actors.errors import JournalError
from everturn_actors.ports import Clock, KeyedStore
from everturn_gateway.errors import GatewayError
from everturn_gateway.logs import SecretRegistry

LOGINS_FOLDER: Final = "mcp-logins/"
EARLY: Final = timedelta(seconds=30)  # before its end a token is renewed: a request takes time too
_DIGEST_DIGITS: Final = 32

logger = logging.getLogger(__name__)


class McpLoginError(GatewayError):
    """A login could not be made, read or kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLogin:
    """What one login gave, and what it takes to renew it."""

    url: str
    "Of the server."
    access_token: str = field(default="", repr=False)
    "Sent with each request; empty = the login is over, and a person has to log in again."
    refresh_token: str = field(default="", repr=False)
    "Empty where the server gave none: the login ends with its token."
    scope: str = ""
    expires_at: Timestamp | None = None
    "When the token ends; None = the server does not say."
    made_at: Timestamp
    client: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    "As whom the gateway is registered at the authorization server (RFC 7591)."
    authorization: Mapping[str, object] = field(default_factory=dict[str, object])
    "The authorization server's metadata (RFC 8414)."
    resource: Mapping[str, object] = field(default_factory=dict[str, object])
    "The server's own metadata (RFC 9728)."

    def is_over(self, now: datetime) -> bool:
        """Return whether nothing but a new login helps."""
        is_late = self.expires_at is not None and self.expires_at <= now
        return not self.access_token or (is_late and not self.refresh_token)

    def is_due(self, now: datetime) -> bool:
        """Return whether its token ended, or is about to."""
        return self.expires_at is not None and self.expires_at - EARLY <= now

    def secrets(self) -> tuple[str, ...]:
        """Return what nothing printed may contain."""
        secret = self.client.get("client_secret")
        found = (self.access_token, self.refresh_token, secret if isinstance(secret, str) else "")
        return tuple(filter(None, found))


class McpLogins:
    """All logins of a gateway. For one event loop; commands beside it may write as well."""

    def __init__(self, store: KeyedStore, clock: Clock, secrets: SecretRegistry) -> None:
        """Read nothing yet."""
        self._store, self.clock, self._secrets = store, clock, secrets
        self._documents: dict[str, Document[McpLogin | None]] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._masked: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def lock(self, url: str) -> anyio.Lock:
        """Return what whoever renews the login at an address holds, so that it is done once."""
        return self._locks.setdefault(url, anyio.Lock())

    async def of(self, url: str) -> McpLogin | None:
        """Return the login at an address, one that is over too; None = there is none.

        Raises:
            McpLoginError: It cannot be read, or is damaged; the text says where.
        """
        with _translated():
            login = await self._document(url).read()
        self._mask(url, login)
        return login

    async def all(self) -> tuple[McpLogin, ...]:
        """Return all logins, by address.

        Raises:
            McpLoginError: One cannot be read.
        """
        with _translated():
            keys = await self._store.list(LOGINS_FOLDER)
            read = [await Document(self._store, key, _FORM).read() for key in keys]
        return tuple(sorted(filter(None, read), key=lambda each: each.url))

    async def keep(self, login: McpLogin) -> None:
        """Keep a login in place of the one before; it is durable when this returns.

        Raises:
            McpLoginError: It cannot be written.
        """
        self._mask(login.url, login)
        with _translated():
            await self._document(login.url).write(login)

    async def exchange(self, before: McpLogin, after: McpLogin) -> McpLogin | None:
        """Keep `after` where `before` still stands; return what stands then, durably.

        Raises:
            McpLoginError: It cannot be read or written.
        """
        self._mask(after.url, after)
        with _translated():
            document = self._document(before.url)
            return await document.change(lambda now: after if now == before else now)

    async def end(self, login: McpLogin) -> McpLogin | None:
        """Note that a login is over, unless another was made meanwhile; return what stands then.

        Raises:
            McpLoginError: It cannot be read or written.
        """
        return await self.exchange(login, replace(login, access_token="", refresh_token=""))

    async def remove(self, url: str) -> bool:
        """Forget the login at an address, durably; return whether there was one.

        Raises:
            McpLoginError: It cannot be removed.
        """
        with _translated():
            there = await self._store.get(_key(url)) is not None
            await self._store.delete(_key(url))
        return there

    def _document(self, url: str) -> Document[McpLogin | None]:
        if url not in self._documents:
            self._documents[url] = Document(self._store, _key(url), _FORM)
        return self._documents[url]

    def _mask(self, url: str, login: McpLogin | None) -> None:
        """Mask the secrets of a login and of the one before it, and no longer those before that."""
        found = login.secrets() if login is not None else ()
        older, newer = self._masked.get(url, ((), ()))
        if found == newer:
            return
        for each in {*older} - {*newer, *found}:
            self._secrets.discard(each)
        self._masked[url] = (newer, found)
        for each in found:
            self._secrets.add(each)


def _key(url: str) -> str:
    digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{LOGINS_FOLDER}{digest[:_DIGEST_DIGITS]}.json"


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except JournalError as error:
        raise McpLoginError(str(error)) from error


_FORM: Final[Form[McpLogin | None]] = form_of(
    "login",
    McpLogin | None,
    None,
    remedy="remove it, and log in again with `everturn mcp login`",
)
