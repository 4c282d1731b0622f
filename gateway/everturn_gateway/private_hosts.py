"""How an owner writes which hosts and networks beyond the public Internet may be reached. Pure."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

ODD_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)
"What some programs take for an address, and others for a name."
_HOST: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?(?:\.[a-z0-9_-]+)*", re.ASCII
)


def read_private_host(entry: str) -> str | IPv4Network | IPv6Network:
    """Return a host name in lower case, or a network; an address is a network of its own.

    Raises:
        ValueError: It is neither.
    """
    plain = entry.strip().lower().rstrip(".")
    try:
        return ip_network(plain.strip("[]"), strict=False)
    except ValueError as error:
        if ODD_NUMBER.fullmatch(plain) or not _HOST.fullmatch(plain):
            msg = (
                f"{entry!r} is neither a host name nor a network;"
                " write wiki.lan, 10.1.2.3 or 10.1.0.0/16"
            )
            raise ValueError(msg) from error
        return plain
