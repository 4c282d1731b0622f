"""The transport to an MCP server behind an address: streamable HTTP.

Protocol, sessions and redirects - followed only where they stay at the same origin - are the
official client's. What is ours: how much a server may send at once, and that an HTTP error costs
one call and not the connection.

Imports `mcp`, which takes half a second: nothing but `wire` imports this.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from everturn_actors.json_values import is_object
from everturn_gateway.tools.mcp.errors import McpStartError
from everturn_gateway.tools.mcp.settings import McpServerSettings
from everturn_gateway.tools.mcp.transports.bounded import MESSAGE_BYTES, Bounded, described_fault
from everturn_gateway.tools.mcp.transports.guarded import is_loopback
from everturn_gateway.tools.mcp.transports.streams import Receiving, Sending

ERROR_BYTES: Final = 64 * 1024  # of the body of an HTTP error that is read
CONNECT_S: Final = 10.0
MARGIN_S: Final = 15.0  # beyond a call's deadline: who waits for the answer leaves first
CLOSE_S: Final = 1.0
STATUS: Final = "everturn_http_status"
"In the data of an error that stands for an HTTP error: its status, 0 where nobody answered."
EXPIRED: Final = "everturn_session_expired"
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t -~]*")
_SESSION: Final = "mcp-session-id"
_METHOD: Final = "mcp-method"
_WORDS: Final = {
    401: "it does not accept the credentials in its headers",
    403: "it does not let these credentials in",
    404: "nothing is there",
    502: "nobody answers behind its gateway",
    503: "it is overloaded or down",
}


@asynccontextmanager
async def open_streamable(
    settings: McpServerSettings, auth: httpx2.Auth | None
) -> AsyncGenerator[tuple[Receiving, Sending]]:
    """Yield the streams to a server; nothing is sent before the first message.

    Args:
        settings: The server.
        auth: Says who asks, where the owner's headers do not.

    Raises:
        McpStartError: Its address or headers cannot be used.
    """
    try:
        client = await anyio.to_thread.run_sync(_client, settings, auth)
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        msg = f"its url, headers, proxy or certificates cannot be used: {error}"
        raise McpStartError(msg) from error
    try:
        async with streamable_http_client(
            settings.url, http_client=client, max_sse_event_size=MESSAGE_BYTES
        ) as (incoming, outgoing):
            yield incoming, outgoing
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await client.aclose()


def _client(settings: McpServerSettings, auth: httpx2.Auth | None) -> _Client:
    """Return the client for one server. Certificates are read from disk: not for the event loop."""
    url = httpx2.URL(settings.url)
    for name, value in settings.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            msg = f"the header {name!r} is not one line of ASCII"
            raise ValueError(msg)
    made = _Client(
        auth=auth,
        headers={**settings.headers, "accept-encoding": "identity", "user-agent": "everturn"},
        timeout=httpx2.Timeout(CONNECT_S, read=settings.timeout_s + MARGIN_S),
        verify=True if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        trust_env=not is_loopback(url.host),  # no proxy reaches this machine's own addresses
    )
    if auth is not None:
        made.refused = f"it wants a login: `everturn mcp login {settings.name}`"
    return made


class _Client(httpx2.AsyncClient):
    """Answers every request with something that the protocol's client can tell of.

    That client fails as a whole where a request fails, and knows no more of an HTTP error than
    that there was one. So both become answers: an error of the protocol, with the status in it.
    """

    refused = _WORDS[401]
    "What is said of a request that the server does not know the sender of."

    async def send(
        self,
        request: httpx2.Request,
        *,
        stream: bool = False,
        **options: Any,  # noqa: ANN401 - as httpx2 has them
    ) -> httpx2.Response:
        """Send a request; never raises for what the server or the network does."""
        if request.method == "GET" or request.headers.get(_METHOD) == "subscriptions/listen":
            # These wait for what the server has to say by itself, however long that takes.
            timeout = cast("dict[str, float | None]", request.extensions.get("timeout", {}))
            request.extensions["timeout"] = {**timeout, "read": None}
        try:
            response = await super().send(request, stream=stream, **options)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                return _stand_in(request, 0, "its answer is compressed, which was not asked for")
            if response.status_code >= HTTPStatus.BAD_REQUEST and request.method == "POST":
                return await _refusal(request, response, self.refused)
        except httpx2.TransportError as error:
            return _stand_in(request, 0, described_fault(error))
        if stream:
            kind = response.headers.get("content-type", "")
            if kind.startswith("text/event-stream"):
                # A person may be asked in the middle; who waits for the call has a deadline.
                waits = cast("dict[str, float | None]", request.extensions.get("timeout", {}))
                waits["read"] = None
            inner = cast("httpx2.AsyncByteStream", response.stream)
            response.stream = Bounded(inner, has_events=kind.startswith("text/event-stream"))
        return response


async def _refusal(
    request: httpx2.Request, response: httpx2.Response, refused: str
) -> httpx2.Response:
    """Return what stands for an HTTP error: where there are some, the server's own words."""
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > ERROR_BYTES:
            break
    await response.aclose()
    status = response.status_code
    if status == HTTPStatus.NOT_FOUND and _SESSION in request.headers:
        return _stand_in(request, status, "it knows the session no more", expired=True)
    if status not in {401, 403} and _is_error(body):
        json_type = {"content-type": "application/json"}
        return httpx2.Response(status, headers=json_type, content=body, request=request)
    words = {**_WORDS, HTTPStatus.UNAUTHORIZED: refused}.get(status)
    why = f"it answers with HTTP {status}"
    return _stand_in(request, status, f"{why}: {words}" if words else why)


def _is_error(body: bytes) -> bool:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return is_object(found) and isinstance(found.get("error"), dict)


def _stand_in(
    request: httpx2.Request, status: int, why: str, *, expired: bool = False
) -> httpx2.Response:
    """Return an answer that the protocol's client reads as an error of this one request."""
    data = {STATUS: status, EXPIRED: expired}
    error = {"code": INTERNAL_ERROR, "message": why, "data": data}
    return httpx2.Response(
        status or HTTPStatus.BAD_GATEWAY,
        json={"jsonrpc": "2.0", "id": None, "error": error},
        request=request,
    )
