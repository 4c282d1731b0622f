"""A login's token with each request to an MCP server, and a new one when it ends.

The requests are made and read by the official client. What is ours: a token is renewed once,
however many calls need it; it is on disk before it is used; and a login of another process counts.

Imports `mcp`, which takes half a second.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from everturn_gateway.tools.mcp.oauth.logins import McpLogin, McpLoginError, McpLogins
from everturn_gateway.tools.mcp.transports.guarded import open_guarded

RENEW_S: Final = 20.0
_REFUSED: Final = frozenset((HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN))

logger = logging.getLogger(__name__)


class LoginAuth(httpx2.Auth):
    """Sends the token of the login at an address, where there is one."""

    def __init__(self, url: str, logins: McpLogins) -> None:
        """Look the login up with each request: a person may log in while the gateway runs."""
        self._url, self._logins = url, logins

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request, and once more with a new token where the first is refused."""
        login = await self._read()
        if login is not None and login.is_due(self._logins.clock.now()):
            login = await self._renewed(login)
        if login is None or not login.access_token:
            yield request
            return
        _sign(request, login)
        response = yield request
        if response.status_code != HTTPStatus.UNAUTHORIZED:
            return
        renewed = await self._renewed(login)
        if renewed is not None and renewed.access_token not in {"", login.access_token}:
            _sign(request, renewed)
            yield request

    async def _read(self) -> McpLogin | None:
        try:
            return await self._logins.of(self._url)
        except McpLoginError as error:
            logger.warning("the login at an MCP server cannot be read", extra=_fields(error))
            return None

    async def _renewed(self, login: McpLogin) -> McpLogin | None:
        """Return the login that stands in place of one whose token is no good any more."""
        # A renewal that began is finished: its answer may be the only copy of the next token.
        with anyio.move_on_after(RENEW_S, shield=True):
            async with self._logins.lock(self._url):
                try:
                    now = await self._logins.of(self._url)
                    if now is None or now.access_token != login.access_token:
                        return now  # another call, or a person, was faster
                    return await _renew(now, self._logins)
                except McpLoginError as error:
                    logger.warning("a login cannot be renewed", extra=_fields(error))
        return login


def _fields(error: Exception) -> dict[str, object]:
    return {"error": str(error)}


def _sign(request: httpx2.Request, login: McpLogin) -> None:
    request.headers["Authorization"] = f"Bearer {login.access_token}"


async def _renew(login: McpLogin, logins: McpLogins) -> McpLogin | None:
    """Return a login with a new token, which is kept; where the old one is over, that is kept.

    Raises:
        McpLoginError: The authorization server cannot be reached, or the login cannot be kept.
    """
    if not login.refresh_token:
        return await logins.end(login)
    provider = _Provider(login)
    try:
        async with open_guarded(login.url) as client:
            response = await client.send(await provider.request())
            if response.status_code in _REFUSED:
                logger.warning("a login at an MCP server is over", extra={"url": login.url})
                return await logins.end(login)
            token = await provider.read(response)
    except (httpx2.HTTPError, OAuthFlowError, OSError, ValueError) as error:
        msg = f"{login.url}: {str(error) or type(error).__name__}"
        raise McpLoginError(msg) from error
    renewed = with_token(login, token, logins)
    return await logins.exchange(login, renewed)


def with_token(login: McpLogin, token: OAuthToken, logins: McpLogins) -> McpLogin:
    """Return a login that has another token."""
    now = logins.clock.now()
    lasts = timedelta(seconds=token.expires_in) if token.expires_in is not None else None
    return replace(
        login,
        access_token=token.access_token,
        refresh_token=token.refresh_token or login.refresh_token,
        scope=token.scope or login.scope,
        expires_at=now + lasts if lasts is not None else None,
    )


class _Provider(OAuthClientProvider):
    """The official client, with what a login knows in place of what it would look up."""

    def __init__(self, login: McpLogin) -> None:
        metadata = OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1/callback")])
        self._kept = TokenSlot()
        super().__init__(login.url, metadata, self._kept)
        context = self.context
        context.client_info = OAuthClientInformationFull.model_validate(login.client)
        if login.authorization:
            context.oauth_metadata = OAuthMetadata.model_validate(login.authorization)
        if login.resource:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                login.resource
            )
        context.current_tokens = OAuthToken(
            access_token=login.access_token,
            refresh_token=login.refresh_token,
            scope=login.scope or None,
        )

    async def request(self) -> httpx2.Request:
        """Return the request for a new token."""
        return await self._refresh_token()

    async def read(self, response: httpx2.Response) -> OAuthToken:
        """Return the new token.

        Raises:
            OAuthFlowError: There is none in the answer.
        """
        await self._handle_refresh_response(response)
        if self._kept.token is None:
            msg = f"no new token, but HTTP {response.status_code}"
            raise OAuthFlowError(msg)
        return self._kept.token


class TokenSlot:
    """Holds what the official client would store; implements its `TokenStorage`."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        """Hold no token yet."""
        self.token: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        """Return the token."""
        return self.token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take the token."""
        self.token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return as whom the gateway is registered."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Take as whom the gateway is registered."""
        self.client = client_info
