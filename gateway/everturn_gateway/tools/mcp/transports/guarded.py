"""The HTTP client with which a login at an MCP server is made and renewed.

The server names the addresses that are asked, so each is checked: tokens and codes go over TLS, and
nothing on this machine is reached unless the server itself is here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Final

import anyio.to_thread
import httpx2

from everturn_gateway.tools.mcp.transports.bounded import Bounded

TIMEOUT_S: Final = 15.0


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(address: str | httpx2.URL, server: str) -> None:
    """Make sure that an address which a server named may be asked, or opened by a browser.

    Raises:
        ValueError: It is not HTTPS, or is this machine although the server is elsewhere.
    """
    url, is_ours = httpx2.URL(address), is_loopback(httpx2.URL(server).host)
    if is_loopback(url.host):
        if is_ours and url.scheme in {"http", "https"}:
            return
        msg = f"it names {url.scheme}://{url.host}, an address of this machine"
        raise ValueError(msg)
    if url.scheme != "https":
        msg = f"it names {url.scheme}://{url.host}; a login needs https"
        raise ValueError(msg)


@asynccontextmanager
async def open_guarded(server: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """Yield a client for a login at a server; what it may ask is checked, answers are bounded."""

    async def check(request: httpx2.Request) -> None:
        check_address(request.url, server)

    async def bound(response: httpx2.Response) -> None:
        inner = response.stream
        assert isinstance(inner, httpx2.AsyncByteStream)
        response.stream = Bounded(inner, has_events=False)

    # Certificates are read from disk: not for the event loop.
    made = partial(
        httpx2.AsyncClient,
        timeout=TIMEOUT_S,
        trust_env=not is_loopback(httpx2.URL(server).host),
        headers={"accept-encoding": "identity", "user-agent": "everturn"},
        event_hooks={"request": [check], "response": [bound]},
    )
    async with await anyio.to_thread.run_sync(made) as client:
        yield client
