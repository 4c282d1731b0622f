"""How a person logs in at an MCP server: discovery, registration, a browser, a token.

All of it - RFC 9728, RFC 8414, RFC 7591, PKCE - is the official client's. What is ours: which
addresses may be asked and shown, and that a login is asked for although the server would answer
somebody whom it does not know.

Imports `mcp`, which takes half a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import AnyUrl, BaseModel

from everturn_gateway.tools.mcp.oauth.logins import McpLogin, McpLoginError, McpLogins
from everturn_gateway.tools.mcp.oauth.renewal import TokenSlot, with_token
from everturn_gateway.tools.mcp.settings import McpOAuthSettings, McpServerSettings
from everturn_gateway.tools.mcp.transports.guarded import check_address, open_guarded

_CLIENT_NAME: Final = "Everturn"
_BEGIN: Final = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_HANDSHAKE_VERSION,
        "capabilities": {},
        "clientInfo": {"name": _CLIENT_NAME.lower(), "version": "0"},
    },
}
_HEADERS: Final = {"accept": "application/json, text/event-stream"}
_WORDS_MOST: Final = 500  # characters of what a server says

Browse = Callable[[str], Awaitable[str]]
"Shows a person the page at an address; returns the address at which the browser ended."


async def log_in(
    settings: McpServerSettings, *, redirect_uri: str, browse: Browse, logins: McpLogins
) -> McpLogin:
    """Let a person log in at a server; return the login, which is kept.

    Raises:
        McpLoginError: The server offers none, the person said no, or it cannot be kept.
    """
    kept = TokenSlot(_registered(settings.oauth))
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)],
        client_name=_CLIENT_NAME,
        token_endpoint_auth_method="client_secret_post" if settings.oauth.client_secret else None,
    )
    ended: list[str] = []

    async def show(address: str) -> None:
        check_address(address, settings.url)
        ended.append(await browse(address))

    async def answered() -> AuthorizationCodeResult:
        return _code(ended[-1])

    try:
        provider = OAuthClientProvider(
            settings.url,
            metadata,
            kept,
            redirect_handler=show,
            callback_handler=answered,
            client_metadata_url=settings.oauth.client_metadata_url or None,
        )
        status = await _ask(settings, provider)
    except OAuthRegistrationError as error:
        msg = (
            f"{settings.url} takes no client that registers itself ({_short(error)}); register one"
            " there, and name it in the server's settings, under oauth.client_id"
        )
        raise McpLoginError(msg) from error
    except (httpx2.HTTPError, OAuthFlowError, OSError, ValueError) as error:
        msg = f"no login at {settings.url}: {_short(error)}"
        raise McpLoginError(msg) from error
    if kept.token is None or kept.client is None:
        msg = f"{settings.url} answers with HTTP {status}, and offers no login"
        raise McpLoginError(msg)
    if status == HTTPStatus.UNAUTHORIZED:
        msg = f"{settings.url} does not take the token that its login gave"
        raise McpLoginError(msg)
    login = McpLogin(
        url=settings.url,
        made_at=logins.clock.now(),
        client=_dumped(kept.client),
        authorization=_dumped(provider.context.oauth_metadata),
        resource=_dumped(provider.context.protected_resource_metadata),
    )
    login = with_token(login, kept.token, logins)
    await logins.keep(login)
    return login


async def _ask(settings: McpServerSettings, provider: OAuthClientProvider) -> int:
    """Ask the server as somebody whom it does not know; return the status in the end."""

    async def refuse(response: httpx2.Response) -> None:
        # Some servers answer everybody, and ask for a login only where a tool needs it.
        is_first = response.request.url == settings.url and not provider.context.current_tokens
        if is_first and response.is_success:
            response.status_code = HTTPStatus.UNAUTHORIZED

    async with open_guarded(settings.url) as client:
        client.event_hooks = {
            "request": client.event_hooks["request"],
            "response": [*client.event_hooks["response"], refuse],
        }
        request = client.build_request(
            "POST", settings.url, json=_BEGIN, headers={**settings.headers, **_HEADERS}
        )
        response = await client.send(request, auth=provider, stream=True)
        await response.aclose()
        return response.status_code


def _registered(settings: McpOAuthSettings) -> OAuthClientInformationFull | None:
    if not settings.client_id:
        return None
    method = "client_secret_post" if settings.client_secret else "none"
    return OAuthClientInformationFull(
        client_id=settings.client_id,
        client_secret=settings.client_secret or None,
        token_endpoint_auth_method=method,
    )


def _code(address: str) -> AuthorizationCodeResult:
    """Return what the address says at which the browser ended.

    Raises:
        OAuthFlowError: It says no.
    """
    said = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    if "error" in said:
        why = ": ".join(filter(None, (said["error"], said.get("error_description"))))
        msg = f"it was refused: {why}"
        raise OAuthFlowError(msg)
    code, state = said.get("code", ""), said.get("state")
    return AuthorizationCodeResult(code=code, state=state, iss=said.get("iss"))


def _dumped(model: BaseModel | None) -> dict[str, object]:
    return model.model_dump(mode="json", exclude_none=True) if model is not None else {}


def _short(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _WORDS_MOST else f"{text[:_WORDS_MOST]}…"
