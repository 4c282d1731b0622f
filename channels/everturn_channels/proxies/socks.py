"""Connections by way of a SOCKS proxy. Only this module knows aiohttp-socks and python-socks."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
from typing import Final, TypedDict
from urllib.parse import unquote, urlsplit

from aiohttp.client_proto import ResponseHandler
from aiohttp_socks import ProxyConnector
from python_socks import ProxyError, ProxyType
from python_socks.async_.asyncio import Proxy

from everturn_channels.proxies import ProxyFailedError

PORT: Final = 1080
"Where the address names none. Source: RFC 1928, section 3."
_FAILURES: Final = (ProxyError, OSError, EOFError)


class SocksConnector(ProxyConnector):
    """Makes the connections of a session. The proxy looks names up."""

    def __init__(self, proxy: str, *, ssl: tls.SSLContext | bool, limit: int) -> None:
        super().__init__(**_parts(proxy), rdns=True, ssl=ssl, limit=limit)

    async def _connect_via_proxy(
        self,
        host: str,
        port: int,
        ssl: tls.SSLContext | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the base class names it
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        try:
            return await super()._connect_via_proxy(host, port, ssl, timeout)
        except _FAILURES as error:  # the library's are of no kind that callers know
            raise ProxyFailedError(_words(error)) from error


async def open_socket(proxy: str, host: str, port: int, deadline_s: float) -> socket.socket:
    """As `proxies.open_socket`."""
    try:
        return await Proxy(**_parts(proxy), rdns=True).connect(host, port, timeout=deadline_s)
    except _FAILURES as error:
        raise ProxyFailedError(_words(error)) from error


class _Parts(TypedDict):
    proxy_type: ProxyType
    host: str
    port: int
    username: str | None
    password: str | None


def _parts(proxy: str) -> _Parts:
    parts = urlsplit(proxy)
    kind = {"5": ProxyType.SOCKS5, "4": ProxyType.SOCKS4}.get(parts.scheme[5:6], ProxyType.HTTP)
    default = 80 if kind is ProxyType.HTTP else PORT
    return {
        "proxy_type": kind,
        "host": parts.hostname or "",
        "port": parts.port or default,
        "username": None if parts.username is None else unquote(parts.username),
        "password": None if parts.username is None else unquote(parts.password or ""),
    }


def _words(error: Exception) -> str:
    words = str(error) or type(error).__name__
    if isinstance(error, tls.SSLError):  # the proxy did its part
        words = getattr(error, "verify_message", "") or words
        return f"no TLS with the server behind the proxy: {words}"
    return f"the proxy makes no connection: {words}"
