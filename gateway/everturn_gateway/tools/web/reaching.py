"""From the host of a URL to the addresses that may be connected to."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeAlias

import anyio
import anyio.to_thread

from everturn_gateway.tools.web.addresses import Allowed, IpAddress, literal, reach_of

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"Finds the addresses of a name; the second argument is the port."

_ADDRESSES_TRIED: Final = 4
_PORTS: Final = frozenset((80, 443))
_HIGH_PORTS: Final = range(1024, 65536)
# Above 1023, the ports on which no browser speaks HTTP: what listens there might obey a request.
# Source: https://fetch.spec.whatwg.org/#port-blocking, November 2026.
_BAD_PORTS: Final = frozenset(
    (
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566),
        *(6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    )
)


class UnreachableError(Exception):
    """A host cannot be reached, or must not be; the text is for the model.

    Attributes:
        is_forbidden: It must not be, and asking again will not help.
    """

    def __init__(self, message: str, *, is_forbidden: bool = True) -> None:
        self.is_forbidden = is_forbidden
        super().__init__(message)


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of a name as the system finds them, the preferred first.

    Raises:
        OSError: There are none.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class Reaching:
    """Decides which addresses may stand for a host."""

    def __init__(self, allowed: Allowed, find: Resolve = resolve) -> None:
        """Reach the public Internet and what is `allowed`; names are looked up by `find`."""
        self._allowed = allowed
        self._find = find

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses to connect to, the preferred first.

        Every address of the name has to be one that may be reached. The caller connects to what
        is returned and asks no resolver again: a name that changes its mind gains nothing.

        Raises:
            UnreachableError: There is none, or not all of them may be reached.
        """
        if port not in _PORTS and (port not in _HIGH_PORTS or port in _BAD_PORTS):
            msg = f"port {port} is not one for web pages (80, 443, and from {_HIGH_PORTS[0]} on)"
            raise UnreachableError(msg)
        name = host.lower()
        try:
            known = literal(name)
        except ValueError as error:
            raise UnreachableError(str(error)) from None
        found = (known,) if known is not None else await self._look_up(name, port)
        outside = [ip for ip in found if not self._allowed.lists(name, ip)]
        for ip in outside:
            if reach_of(ip) != "public":
                where = "" if known is not None else f" ({ip})"
                msg = (
                    f"{name}{where} is not on the public Internet ({reach_of(ip)});"
                    " only the owner of this agent can allow it"
                )
                raise UnreachableError(msg)
        # This machine may trust itself more than others, under its public address too.
        own = await anyio.to_thread.run_sync(_first_own, outside) if outside else None
        if own is not None:
            msg = f"{name} ({own}) is this machine; only the owner of this agent can allow it"
            raise UnreachableError(msg)
        return tuple(map(str, found[:_ADDRESSES_TRIED]))

    async def _look_up(self, name: str, port: int) -> tuple[IpAddress, ...]:
        try:
            found = tuple(map(ip_address, await self._find(name, port)))
        except (OSError, UnicodeError) as error:
            msg = f"there is no host {name}, or it cannot be looked up now"
            raise UnreachableError(msg, is_forbidden=False) from error
        except ValueError as error:  # an address with a zone: link-local
            msg = f"{name} is not on the public Internet; only the owner of this agent can allow it"
            raise UnreachableError(msg) from error
        if not found:
            msg = f"the host {name} has no address"
            raise UnreachableError(msg, is_forbidden=False)
        return found


def _first_own(found: Sequence[IpAddress]) -> IpAddress | None:
    return next((ip for ip in found if _is_own(ip)), None)


def _is_own(ip: IPv4Address | IPv6Address) -> bool:
    """Ask the system from which address it would speak to `ip`. Nothing is sent."""
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(ip), 9))
            own: object = probe.getsockname()[0]
    except OSError:
        return False  # no way there at all
    return own == str(ip)
