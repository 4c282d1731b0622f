"""A SOCKS proxy on loopback, which leads every name to this machine.

Source: RFC 1928 (SOCKS 5), RFC 1929 (name and password), and for SOCKS 4a
https://www.openssh.com/txt/socks4a.protocol.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

_NONE, _PASSWORD, _REFUSED = 0, 2, 0xFF
_IPV4, _NAME, _IPV6 = 1, 3, 4
_SUCCEEDED: Final = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x01"
_ENDED: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class SocksProxy:
    """What it was asked for."""

    def __init__(self, login: tuple[str, str] | None) -> None:
        self.port = 0
        self.hosts: list[str] = []
        "To what it made connections: names, as they came."
        self._login = login

    def url(self, scheme: str = "socks5", login: str = "") -> str:
        """Return its address; `login` is a name and a password with a colon between them."""
        return f"{scheme}://{login and login + '@'}127.0.0.1:{self.port}"

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection."""
        with suppress(*_ENDED, anyio.IncompleteRead):
            async with stream:
                reader = BufferedByteReceiveStream(stream)
                version = (await reader.receive_exactly(1))[0]
                target = await (self._read_5 if version == 5 else self._read_4)(reader, stream)
                if target is None:
                    return
                host, port = target
                self.hosts.append(host)
                async with await anyio.connect_tcp("127.0.0.1", port) as there:
                    await stream.send(_SUCCEEDED if version == 5 else b"\x00\x5a" + bytes(6))
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(_pass_on, reader, there, tasks.cancel_scope)
                        tasks.start_soon(_pass_on, there, stream, tasks.cancel_scope)

    async def _read_5(
        self, reader: BufferedByteReceiveStream, stream: ByteStream
    ) -> tuple[str, int] | None:
        methods = await reader.receive_exactly((await reader.receive_exactly(1))[0])
        wanted = _PASSWORD if self._login else _NONE
        if wanted not in methods:
            await stream.send(bytes((5, _REFUSED)))
            return None
        await stream.send(bytes((5, wanted)))
        if self._login:
            await reader.receive_exactly(1)
            name, password = [await _text(reader) for _ in range(2)]
            is_right = (name, password) == self._login
            await stream.send(bytes((1, not is_right)))
            if not is_right:
                return None
        kind = (await reader.receive_exactly(4))[3]
        if kind == _NAME:
            host = await _text(reader)
        else:
            host = str(ip_address(await reader.receive_exactly(4 if kind == _IPV4 else 16)))
        return host, struct.unpack("!H", await reader.receive_exactly(2))[0]

    async def _read_4(
        self, reader: BufferedByteReceiveStream, _stream: ByteStream
    ) -> tuple[str, int] | None:
        _, port, address = struct.unpack("!BH4s", await reader.receive_exactly(7))
        await reader.receive_until(b"\0", 256)
        if address[:3] != bytes(3):
            return str(ip_address(address)), port
        return (await reader.receive_until(b"\0", 256)).decode(), port


async def _text(reader: BufferedByteReceiveStream) -> str:
    return (await reader.receive_exactly((await reader.receive_exactly(1))[0])).decode()


async def _pass_on(source: ByteReceiveStream, target: ByteStream, scope: anyio.CancelScope) -> None:
    with suppress(*_ENDED):
        while True:
            await target.send(await source.receive())
    scope.cancel()


@asynccontextmanager
async def open_socks_proxy(login: tuple[str, str] | None = None) -> AsyncGenerator[SocksProxy]:
    """Run one while the block runs; with `login` it lets nobody else through."""
    proxy = SocksProxy(login)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        proxy.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
        tasks.start_soon(listener.serve, proxy.serve)
        yield proxy
        tasks.cancel_scope.cancel()
