"""Where nodes listen and are reached: a Unix socket, or a host and a port."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketListener
from anyio.streams.tls import TLSListener
from msgspec import Struct

from everturn_actors.errors import InvalidInputError

CONNECT_S: Final = 3.0
_BACKLOG: Final = 128
_OWNER_ALONE: Final = 0o600
_PORTS: Final = range(65536)
_FORM: Final = "must be host:port, [::1]:port or the path of a socket, /run/everturn/node.sock"


class Address(Struct, frozen=True, kw_only=True):
    """Of one node."""

    path: str = ""
    "Of a Unix socket; empty = it is none."
    host: str = ""
    port: int = 0
    "Where a node listens: 0 = any that is free."


class Tls(Struct, frozen=True, kw_only=True):
    """How a node shows that it is itself, and how it knows others."""

    own: ssl.SSLContext
    "With its certificate and key."
    others: ssl.SSLContext
    "With those that their certificates are checked against."


def read_address(text: str) -> Address:
    """Return the address that a text names.

    Raises:
        InvalidInputError: It names none; says what it has to look like.
    """
    if text.startswith("/"):
        return Address(path=text)
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_whole = colon and bare and (":" not in bare or bare != host)
    if not is_whole or not port.isdecimal() or int(port) not in _PORTS:
        msg = f"{text!r} is no address of a node: it {_FORM}"
        raise InvalidInputError(msg)
    return Address(host=bare, port=int(port))


async def connect(address: Address, tls: Tls | None) -> ByteStream:
    """Return a stream to a node; over a socket of this machine always without TLS.

    Raises:
        OSError, TimeoutError: It cannot be reached.
    """
    with anyio.fail_after(CONNECT_S):
        if address.path:
            return await anyio.connect_unix(address.path)
        if tls is None:
            return await anyio.connect_tcp(address.host, address.port)
        return await anyio.connect_tcp(
            address.host,
            address.port,
            ssl_context=tls.others,
            tls_standard_compatible=False,
        )


def _bound(path: Path) -> socket.socket:
    """Return a socket at a path; one that a process left there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_socket():
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        path.chmod(_OWNER_ALONE)
        made.listen(_BACKLOG)
        made.settimeout(0)
    except BaseException:
        made.close()
        raise
    return made


async def listen(address: Address, tls: Tls | None) -> tuple[Listener[ByteStream], int]:
    """Return what others connect to, and its port; 0 where it has none.

    Raises:
        OSError: The address is taken, or not one of this machine.
    """
    if address.path:
        bound = await to_thread.run_sync(_bound, Path(address.path))
        return await SocketListener.from_socket(bound), 0
    listener: Listener[ByteStream] = await anyio.create_tcp_listener(
        local_host=address.host, local_port=address.port
    )
    port = int(listener.extra(SocketAttribute.local_port))  # noqa: S610 - of anyio, no SQL
    if tls is not None:
        listener = TLSListener(
            listener, tls.own, standard_compatible=False, handshake_timeout=CONNECT_S
        )
    return listener, port
