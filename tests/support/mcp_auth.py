"""An MCP server that asks for a login, with its authorization server: both the official package's.

Codes and tokens are numbered, so that a test can say which of them it means.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from support.mcp_server import App, Receive, Scope, Send, Service, make_server, open_http
from support.patience import WAIT_S

LASTS_S = 3600
DEADLINE_S = WAIT_S  # of an answer, on a machine that does other things as well


@dataclass(slots=True)
class AuthServer(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Implements `OAuthAuthorizationServerProvider`, in memory; each person says yes at once."""

    url: str = ""
    "Of the MCP server."
    service: Service = field(default_factory=Service)
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    valid: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    renewals: int = 0
    says_no: bool = False
    number: int = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a client that is registered."""
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Register a client."""
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        """Say yes, or no."""
        if self.says_no:
            raise AuthorizeError(error="access_denied", error_description="not today")
        code = self._next("code")
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=math.inf,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """Return a code that was given."""
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Give a token for a code, once."""
        del self.codes[authorization_code.code]
        return self._token(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        """Return a refresh token that holds."""
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],
    ) -> OAuthToken:
        """Give a new token; the old refresh token holds no more."""
        self.renewals += 1
        del self.refresh[refresh_token.token]
        return self._token(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return a token that holds."""
        return self.valid.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """Take a token back."""

    def revoke_all(self) -> None:
        """Take every token back, but for those with which others are had."""
        self.valid.clear()

    def _token(
        self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None
    ) -> OAuthToken:
        assert resource == self.url, "a token is for this server alone (RFC 8707)"
        access, refresh = self._next("access"), self._next("refresh")
        self.valid[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=scopes, resource=resource
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client.client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(
            access_token=access, expires_in=LASTS_S, refresh_token=refresh, scope=" ".join(scopes)
        )

    def _next(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number:04}-of-the-test"


class _Late:
    """An application that is made when its address is known."""

    app: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _no_lifespan(receive, send)
            return
        assert self.app is not None
        await self.app(scope, receive, send)


async def _no_lifespan(receive: Receive, send: Send) -> None:
    for _ in range(2):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


@asynccontextmanager
async def open_auth_server(*, registers: bool = True) -> AsyncGenerator[AuthServer]:
    """Serve an MCP server at `url`, which takes nobody whom its authorization server does not know.

    Args:
        registers: Whether clients may register themselves.
    """
    auth, late = AuthServer(), _Late()
    async with open_http(late) as address:
        auth.url = f"{address}/mcp"
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(address),
            resource_server_url=AnyHttpUrl(auth.url),
            required_scopes=["tools"],
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(
                enabled=registers, valid_scopes=["tools"], default_scopes=["tools"]
            ),
        )
        server = make_server(auth.service)
        app: Any = server.streamable_http_app(
            auth=settings,
            auth_server_provider=auth,
            token_verifier=ProviderTokenVerifier(auth),
        )
        late.app = app
        async with server.session_manager.run():
            yield auth


async def browsed(page: str) -> str:
    """Return where a browser ends that opens a page and is sent on once."""
    async with httpx2.AsyncClient(timeout=DEADLINE_S) as http:
        answer = await http.get(page)
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


async def write_browser(folder: Path) -> str:
    """Write a program that opens a page as a browser does; return what to set BROWSER to."""
    script = folder / "browser.py"
    text = "import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n"
    await anyio.Path(script).write_text(text)
    return f"python3 {script} %s"
