"""Connections of a channel by way of a proxy, where its settings name one.

- `__init__`: which address is one, and what makes the connections
- `sessions`: a session of requests, which tells how far each of them got
- `socks`: those by way of a SOCKS proxy; loads `everturn[socks]`
"""

from __future__ import annotations

import importlib
import importlib.util
import socket
from ssl import SSLContext
from types import ModuleType
from typing import Final

from aiohttp import (
    ClientConnectionError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    TCPConnector,
)
from yarl import URL

from everturn_channels.errors import SetupError

HTTP: Final = ("http://", "https://")
SOCKS: Final = ("socks5://", "socks5h://", "socks4://", "socks4a://")
PROXY_LOGIN: Final = 407
"What an HTTP proxy answers that wants to know who asks, and nobody else (RFC 9110, 15.5.8)."
INSTALL: Final = "pip install 'everturn[socks]'"
"What brings the library for them."


class ProxyFailedError(ClientConnectionError):
    """There is no connection by way of a SOCKS proxy; nothing of a request left."""


def failure(error: BaseException) -> str:
    """Return what failed: words of ours, else the error's name, since its text may hold secrets."""
    match error:
        case ProxyFailedError():
            return str(error)
        case ClientHttpProxyError():
            return refusal(error.status)
        case ClientProxyConnectionError():
            return "the proxy cannot be reached"
        case _:
            return type(error).__name__


def refusal(status: int) -> str:
    """Return what it means that an HTTP proxy answers in the place of the server behind it.

    >>> refusal(503)
    'the proxy makes no connection: it answers 503'
    """
    login = "; set its user and password in its address" if status == PROXY_LOGIN else ""
    return f"the proxy makes no connection: it answers {status}{login}"


def is_proxy(address: str) -> bool:
    """Return whether an address can be that of a proxy.

    >>> is_proxy("socks5://ann:pass@proxy.lan:1080"), is_proxy("proxy.lan:1080")
    (True, False)
    """
    try:
        return address.startswith((*HTTP, *SOCKS)) and bool(URL(address).host)
    except ValueError:
        return False


def is_socks(proxy: str) -> bool:
    """Return whether an address is that of a SOCKS proxy."""
    return proxy.startswith(SOCKS)


def http_proxy(proxy: str) -> str | None:
    """Return what aiohttp takes as the `proxy` of a request or a session; None for a SOCKS proxy.

    >>> http_proxy("http://proxy.lan:3128"), http_proxy("socks5://proxy.lan"), http_proxy("")
    ('http://proxy.lan:3128', None, None)
    """
    return None if is_socks(proxy) else proxy or None


def open_connector(
    proxy: str,
    *,
    where: str,
    ssl: SSLContext | bool = True,
    limit: int = 100,
    ttl_dns_cache: int = 10,
) -> TCPConnector:
    """Return what makes the connections of an `aiohttp.ClientSession`, which closes it.

    Names are looked up by a SOCKS proxy, never here. Call it in an event loop; it does not wait, so
    nobody opens a second one meanwhile.

    Args:
        proxy: The address; empty = none. An HTTP proxy is named to the session as well, with
            `http_proxy`.
        where: Whose settings name it: `channels.telegram`.
        ssl: Which certificates are believed; True = those of the system.
        limit: How many connections at once; 0 = any number.
        ttl_dns_cache: For how many seconds an address that was looked up here holds.

    Raises:
        SetupError: It needs a library that is not installed.
    """
    if not is_socks(proxy):
        return TCPConnector(ssl=ssl, limit=limit, ttl_dns_cache=ttl_dns_cache)
    made: TCPConnector = _socks(where).SocksConnector(proxy, ssl=ssl, limit=limit)
    return made


async def open_socket(
    proxy: str, host: str, port: int, *, where: str, deadline_s: float
) -> socket.socket:
    """Return a connection to a server that is not spoken HTTP with, not blocking.

    Args:
        proxy: A SOCKS proxy, or `http://` of one that knows CONNECT.
        host: The server's name, which the proxy looks up.
        port: The server's.
        where: Whose settings name the proxy.
        deadline_s: How long it may take.

    Raises:
        ProxyFailedError: There is none.
        SetupError: It needs a library that is not installed.
    """
    opened: socket.socket = await _socks(where).open_socket(proxy, host, port, deadline_s)
    return opened


def _socks(where: str) -> ModuleType:
    """Return the module `socks`, which needs an extra."""
    if importlib.util.find_spec("aiohttp_socks") is None:
        msg = f"{where}.proxy: such a proxy needs one more library: {INSTALL}"
        raise SetupError(msg)
    return importlib.import_module("everturn_channels.proxies.socks")
