"""From which address a request comes, also where a proxy passes it on. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from operator import itemgetter
from typing import Final, TypeAlias

from starlette.datastructures import Headers

from everturn_gateway.config.schemas import ProxyNetwork

UNKNOWN: Final = "unknown"
"The address of whoever has none that can be read."
FORWARDED_HEADERS: Final = frozenset(
    (
        *("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"),
        "x-real-ip",
    )
)
_name_of = itemgetter(0)
_FORWARDED_NAMES: Final = frozenset(name.encode() for name in FORWARDED_HEADERS)
_HOPS_MAX: Final = 64  # addresses of one chain that are looked at, from the nearest
_SUBSCRIBER_BITS: Final = 64  # of an IPv6 address: one household or machine has all below it
# A node of `for=`, with or without quotes, brackets and a port. Source: RFC 7239, section 6.
_NODE: Final = re.compile(r'"?\[?([0-9A-Fa-f:.]+?)\]?(?::[0-9]+)?"?', re.ASCII)
_BRACKETED: Final = re.compile(r'"?\[([0-9A-Fa-f:.]+)\](?::[0-9]+)?"?', re.ASCII)

_Address: TypeAlias = IPv4Address | IPv6Address


def client_address(peer: str, headers: Headers, trusted: Sequence[ProxyNetwork]) -> str:
    """Return the address that limits count by.

    What headers say is believed only of a proxy that the configuration trusts, and of a chain only
    up to the first address that is no trusted proxy, from the nearest: what stands before it may be
    anybody's words. Where both kinds of headers are there and differ, one of them was not written
    by the proxy: then neither is believed.

    Args:
        peer: Who opened the connection.
        headers: Of the request.
        trusted: Networks of proxies.

    Returns:
        An IPv4 address, or the /64 network of an IPv6 one: whoever has one has all of it.
    """
    nearest = _read(peer)
    if nearest is None or not trusted or not _is_among(nearest, trusted):
        return _key(nearest)
    chains = [
        chain
        for chain in (
            _x_forwarded_for(headers.getlist("x-forwarded-for")),
            _forwarded(headers.getlist("forwarded")),
        )
        if chain
    ]
    found = {_first_untrusted(chain, trusted) for chain in chains}
    return _key(found.pop() or nearest) if len(found) == 1 else _key(nearest)


def peer_address(peer: str) -> str:
    """Return the same for a request that says of nobody that he passed it on."""
    return _key(_read(peer))


def header_of(headers: Headers, name: bytes) -> str | None:
    """Return the first header of a name in lower case; None where there is none.

    Most that the guard asks each request for are not there, which `Headers.get` finds out by an
    exception.
    """
    for known, value in headers.raw:
        if known == name:
            return value.decode("latin-1")
    return None


def is_forwarded(headers: Headers) -> bool:
    """Return whether a request says that somebody passed it on."""
    return not _FORWARDED_NAMES.isdisjoint(map(_name_of, headers.raw))


def _x_forwarded_for(lines: Sequence[str]) -> list[str]:
    """Return the nodes of `X-Forwarded-For`, the nearest last; several lines are one list."""
    return [part.strip() for line in lines for part in line.split(",") if part.strip()]


def _forwarded(lines: Sequence[str]) -> list[str]:
    """Return the `for` nodes of `Forwarded`, the nearest last. Source: RFC 7239, section 4."""
    nodes: list[str] = []
    for element in (each for line in lines for each in line.split(",")):
        pairs = (pair.partition("=") for pair in element.split(";"))
        nodes += [value.strip() for name, _, value in pairs if name.strip().lower() == "for"]
    return nodes


def _first_untrusted(chain: Sequence[str], trusted: Sequence[ProxyNetwork]) -> _Address | None:
    """Return the nearest address that is no trusted proxy; None where that cannot be read."""
    last: _Address | None = None
    for node in reversed(chain[-_HOPS_MAX:]):
        last = _read(node)
        if last is None or not _is_among(last, trusted):
            return last
    return last


@lru_cache(maxsize=1024)  # the same few ask again and again
def _read(node: str) -> _Address | None:
    """Return the address of a node, with or without a port; None where it is none."""
    for text in _spellings(node):
        try:
            address = ip_address(text)
        except ValueError:
            continue
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            return address.ipv4_mapped
        return address
    return None


def _spellings(node: str) -> tuple[str, ...]:
    plain = node.strip().strip('"').partition("%")[0]  # a zone says which interface
    if found := _BRACKETED.fullmatch(node.strip()):
        return (found[1],)
    found = _NODE.fullmatch(plain)
    return (plain, found[1]) if found else (plain,)


def _is_among(address: _Address, networks: Sequence[ProxyNetwork]) -> bool:
    return any(address in network for network in networks)


@lru_cache(maxsize=1024)
def _key(address: _Address | None) -> str:
    if address is None:
        return UNKNOWN
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, _SUBSCRIBER_BITS), strict=False))
    return str(address)
