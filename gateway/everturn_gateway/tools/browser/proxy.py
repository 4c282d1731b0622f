"""The way of a browser to the net: each connection goes to an address that was checked for it.

The browser looks no name up: it asks this proxy, on loopback, for each host - of pages, redirects,
frames, scripts and web sockets alike. The proxy connects to the very address that `Reaching`
returned, so a name that changes its mind gains nothing.
"""

from __future__ import annotations

import base64
import logging
import secrets
from collections import OrderedDict
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, SocketAttribute, TaskStatus
from msgspec import Struct

from everturn_gateway.tools.web.reaching import Reaching, UnreachableError

logger = logging.getLogger(__name__)

CONNECTIONS_MOST: Final = 64  # at a time
_HEAD_BYTES: Final = 64 * 1024
_HEAD_S: Final = 30.0
_CONNECT_S: Final = 10.0
_REFUSED_KEPT: Final = 20
_END: Final = b"\r\n\r\n"
_USER: Final = "browser"
_DROPPED: Final = ("proxy-", "connection:", "keep-alive:")
_HTTP_PORT: Final = 80
_HTTPS_PORT: Final = 443


class _Asked(Struct, frozen=True):
    """What a connection of the browser is for."""

    host: str
    port: int
    first: bytes
    "What is sent on at once; empty for a tunnel."


class CheckedProxy:
    """A proxy for one browser session; nobody else knows its password."""

    def __init__(self, reaching: Reaching) -> None:
        """Reach what `reaching` lets anybody."""
        self._reaching = reaching
        self.user: Final = _USER
        self.password: Final = secrets.token_urlsafe(32)
        self.port = 0
        "Set when it listens."
        self._refused: OrderedDict[str, str] = OrderedDict()
        self._slots = anyio.CapacityLimiter(CONNECTIONS_MOST)

    def take_refused(self) -> tuple[str, ...]:
        """Return why hosts were refused since this was asked last, in words."""
        refused = tuple(self._refused.values())
        self._refused.clear()
        return refused

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Listen on loopback until cancelled."""
        async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as server:
            self.port = server.extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
            task_status.started()
            await server.serve(self._handle)

    async def _handle(self, client: ByteStream) -> None:
        async with client:
            try:
                async with self._slots:
                    await self._relay(client)
            except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, TimeoutError) as error:
                logger.debug("a connection of a browser broke", extra={"error": str(error)})
            except Exception:  # a boundary: one connection, not all of them
                logger.exception("a connection of a browser failed")

    async def _relay(self, client: ByteStream) -> None:
        with anyio.fail_after(_HEAD_S):
            head, rest = await _read_head(client)
        if not self._is_known(head):
            await client.send(
                b'HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic realm="browser"\r\n'
                b"Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
            return
        asked = _read(head)
        if asked is None:
            await client.send(b"HTTP/1.1 400 Bad request\r\nConnection: close\r\n\r\n")
            return
        upstream = await self._connected(asked)
        if upstream is None:
            await client.send(b"HTTP/1.1 403 Not to be reached\r\nConnection: close\r\n\r\n")
            return
        async with upstream:
            if asked.first:
                await upstream.send(asked.first + rest)
            else:
                await client.send(b"HTTP/1.1 200 Connected\r\n\r\n")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_pass_on, client, upstream)
                await _pass_on(upstream, client)
                tasks.cancel_scope.cancel()  # the server is done: so is the connection

    def _is_known(self, head: bytes) -> bool:
        word = base64.b64encode(f"{self.user}:{self.password}".encode())
        wanted = b"proxy-authorization: basic " + word
        lines = head.split(b"\r\n")
        return any(
            secrets.compare_digest(
                line[: len(wanted) - len(word)].lower() + line[-len(word) :], wanted
            )
            for line in lines
            if line.lower().startswith(b"proxy-authorization:")
        )

    async def _connected(self, asked: _Asked) -> ByteStream | None:
        try:
            addresses = await self._reaching.addresses(asked.host, asked.port)
        except UnreachableError as error:
            self._refused[asked.host] = str(error)
            while len(self._refused) > _REFUSED_KEPT:
                self._refused.popitem(last=False)
            return None
        for address in addresses:
            try:
                with anyio.fail_after(_CONNECT_S):
                    return await anyio.connect_tcp(address, asked.port)
            except (OSError, TimeoutError):
                continue
        return None


async def _read_head(client: ByteStream) -> tuple[bytes, bytes]:
    data = bytearray()
    while _END not in data:
        if len(data) > _HEAD_BYTES:
            raise anyio.EndOfStream
        data += await client.receive()
    head, _, rest = bytes(data).partition(_END)
    return head, rest


def _read(head: bytes) -> _Asked | None:
    """Return what a request is for; None where it is none that a browser sends to a proxy."""
    first, *headers = head.split(b"\r\n")
    method, _, target = first.rpartition(b" ")[0].partition(b" ")
    is_tunnel = method == b"CONNECT"
    text = target.decode("latin-1")
    try:
        url = urlsplit(f"//{text}" if is_tunnel else text)
        host, port = url.hostname or "", url.port
    except ValueError:
        return None
    if not host or not host.isascii() or url.username is not None:
        return None
    if is_tunnel:
        return _Asked(host, port or _HTTPS_PORT, b"")
    if url.scheme != "http":
        return None
    path = text.partition("://")[2][len(url.netloc) :] or "/"
    path = path if path.startswith("/") else f"/{path}"
    kept = [each for each in headers if not each.lower().decode("latin-1").startswith(_DROPPED)]
    # One request a connection: the next one may be for another host.
    lines = [b"%b %b HTTP/1.1" % (method, path.encode("latin-1")), *kept, b"Connection: close"]
    return _Asked(host, port or _HTTP_PORT, b"\r\n".join(lines) + _END)


async def _pass_on(source: ByteStream, sink: ByteStream) -> None:
    try:
        while True:
            await sink.send(await source.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        return
