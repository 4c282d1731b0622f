"""Addresses in the settings of channels: of servers, of sockets, of proxies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator


def proxy_password(proxy: str | None) -> Iterator[str]:
    """Yield the password in the address of a proxy, as it stands there and as it is meant."""
    password = urlsplit(proxy or "").password
    if password:
        yield from (password, unquote(password))


def _address(value: str, schemes: Sequence[str]) -> str:
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or any(character <= " " for character in value):
        msg = f"must be an address that starts with {' or '.join(f'{s}://' for s in schemes)}"
        raise ValueError(msg)
    return value


def _with(*schemes: str) -> AfterValidator:
    return AfterValidator(partial(_address, schemes=schemes))


Url = Annotated[str, _with("https", "http")]
SocketUrl = Annotated[str, _with("wss", "ws")]
ProxyUrl = Annotated[str, _with("http", "https", "socks5", "socks5h", "socks4", "socks4a")]
TunnelUrl = Annotated[str, _with("http", "socks5", "socks5h", "socks4", "socks4a")]
"Of a proxy through which other things than HTTP are spoken."
