"""Which IP addresses belong to the public Internet, and which others an owner allows. Pure."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_gateway.plugins import ToolSettingsError
from everturn_gateway.private_hosts import ODD_NUMBER, read_private_host

IpAddress: TypeAlias = IPv4Address | IPv6Address
Reach: TypeAlias = Literal["public", "loopback", "private", "link-local", "multicast", "reserved"]
"How far away an address is."

# Source: the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890), November 2026.
# Written out, because what `ipaddress` calls global differs from one Python to the next.
_IPV4: Final[tuple[tuple[str, Reach], ...]] = (
    ("0.0.0.0/8", "loopback"),  # Linux takes 0.0.0.0 for this machine
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "private"),  # shared address space of providers and clouds
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "link-local"),  # Azure's metadata, though it looks public
    ("169.254.0.0/16", "link-local"),  # metadata of AWS, Google Cloud and others
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "private"),  # benchmarks; some VPNs give it to names
    ("198.51.100.0/24", "reserved"),
    ("203.0.113.0/24", "reserved"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)
_IPV4_NETWORKS: Final[tuple[tuple[IPv4Network, Reach], ...]] = tuple(
    (IPv4Network(network), reach) for network, reach in _IPV4
)
_IPV6: Final[tuple[tuple[str, Reach], ...]] = (
    ("::/127", "loopback"),  # unspecified, and ::1
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
    ("2001::/23", "reserved"),  # protocol assignments, Teredo among them
    ("2001:db8::/32", "reserved"),
    ("2002::/16", "reserved"),  # 6to4: leads to an IPv4 address of the sender's choice
    ("3fff::/20", "reserved"),
)
_IPV6_NETWORKS: Final[tuple[tuple[IPv6Network, Reach], ...]] = tuple(
    (IPv6Network(network), reach) for network, reach in _IPV6
)
_UNICAST: Final = IPv6Network("2000::/3")  # all that is assigned to hosts so far
_NAT64: Final = IPv6Network("64:ff9b::/96")  # the last 32 bits are an IPv4 address (RFC 6052)
_NAMED: Final[frozenset[Reach]] = frozenset(("public", "loopback", "private"))
"Where a host that the owner allows by name may be; cloud metadata is not among it."


def reach_of(ip: IpAddress) -> Reach:
    """Return how far away an address is; only `public` may be fetched without being allowed."""
    ip = _unwrapped(ip)
    if isinstance(ip, IPv4Address):
        for network, reach in _IPV4_NETWORKS:
            if ip in network:
                return reach
        return "public"
    for network6, reach in _IPV6_NETWORKS:
        if ip in network6:
            return reach
    return "public" if ip in _UNICAST else "reserved"


def literal(host: str) -> IpAddress | None:
    """Return the address that a host of a URL is, None for a name.

    Raises:
        ValueError: It is a number that is no plain address, such as `0x7f.1` or `2130706433`:
            what it means differs from one program to the next.
    """
    try:
        return ip_address(host)
    except ValueError:
        if ODD_NUMBER.fullmatch(host.lower()):
            msg = f"the host {host!r} is no name and no plain address; write it as 192.0.2.7"
            raise ValueError(msg) from None
        return None


class Allowed(Struct, frozen=True, kw_only=True):
    """What an owner allows beyond the public Internet."""

    hosts: frozenset[str] = frozenset()
    "Names in lower case."
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def lists(self, host: str, ip: IpAddress) -> bool:
        """Return whether the owner allows `ip`, found under the name `host` in lower case."""
        ip = _unwrapped(ip)
        if any(ip in network for network in self.networks):
            return True
        return host in self.hosts and reach_of(ip) in _NAMED


def read_allowed(entries: tuple[str, ...]) -> Allowed:
    """Return what `allow_private` says: host names, addresses, and networks as `10.1.0.0/16`.

    Raises:
        ToolSettingsError: An entry is none of these.
    """
    hosts: set[str] = set()
    networks: list[IPv4Network | IPv6Network] = []
    for entry in entries:
        try:
            found = read_private_host(entry)
        except ValueError as error:
            msg = f"allow_private: {error}"
            raise ToolSettingsError(msg) from error
        if isinstance(found, str):
            hosts.add(found)
        else:
            networks.append(found)
    return Allowed(hosts=frozenset(hosts), networks=tuple(networks))


def _unwrapped(ip: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 address stands for, where it is one of those."""
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip in _NAT64:
            return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip
