"""Connections to model APIs as streams of asyncio, under httpx2's pool.

What httpcore2 has for anyio opens a cancel scope for each read and write, stops the socket between
two reads and waits a round of the event loop after each write: a tenth of the CPU of a turn. Here a
read costs a timer, and the head and the body of a request leave together.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, Final, SupportsIndex

import anyio
import anyio.lowlevel
import httpcore2
import httpx2
from anyio.abc import SocketAttribute

READ_AHEAD_BYTES: Final = 64 * 1024  # half of what is kept of a peer that is faster than we read
UNSENT_BYTES: Final = 64 * 1024  # of a peer that does not take more; then a write waits


class ModelTransport(httpx2.AsyncHTTPTransport):
    """httpx2's own transport, without a proxy, over such connections."""

    def __init__(self, ssl_context: ssl.SSLContext, limits: httpx2.Limits) -> None:
        """Begin without a connection.

        Args:
            ssl_context: For addresses with https.
            limits: How many connections there may be, and how long idle ones are kept.
        """
        super().__init__(verify=ssl_context, limits=limits)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Backend(),
        )


class _Backend(httpcore2.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del local_address, socket_options  # a `ModelTransport` has none
        with _told(httpcore2.ConnectTimeout, httpcore2.ConnectError), anyio.fail_after(timeout):
            # anyio tries the addresses of a host side by side, which uvloop does not; its stream is
            # left for one of asyncio at the same socket.
            found = await anyio.connect_tcp(host, port)
            socket = found.extra(SocketAttribute.raw_socket).dup()  # noqa: S610 - not Django's
            loop = asyncio.get_running_loop()
            reader = _Reader(limit=READ_AHEAD_BYTES, loop=loop)
            protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
            try:
                await found.aclose()
                transport, _ = await loop.create_connection(lambda: protocol, sock=socket)
            except BaseException:
                socket.close()
                raise
        transport.set_write_buffer_limits(high=UNSENT_BYTES)
        return _Stream(reader, asyncio.StreamWriter(transport, protocol, reader, loop), loop)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Reader(asyncio.StreamReader):
    """Knows whether something came that nobody has read."""

    has_unread = False

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.has_unread = True
        super().feed_data(data)

    def feed_eof(self) -> None:
        self.has_unread = True
        super().feed_eof()


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(
        self,
        reader: _Reader,
        writer: asyncio.StreamWriter,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._reader, self._writer, self._loop = reader, writer, loop
        self._unsent = bytearray()
        "What waits for the rest of its request: one packet wakes a server once."

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._unsent:
            await self._send(timeout)
        reader, timer = self._reader, None
        if timeout is not None:
            # The reader tells who waits; nobody reads on after that.
            timer = self._loop.call_later(timeout, reader.set_exception, httpcore2.ReadTimeout())
        try:
            data = await reader.read(max_bytes)
        except OSError as error:
            raise httpcore2.ReadError(str(error)) from error
        finally:
            if timer is not None:
                timer.cancel()
        reader.has_unread = len(data) == max_bytes  # else all of it was given
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._unsent += buffer
        # At the end of a request httpcore2 writes nothing, where its body has ended already.
        if not buffer or len(self._unsent) > UNSENT_BYTES:
            await self._send(timeout)

    async def _send(self, timeout: float | None) -> None:  # noqa: ASYNC109
        writer, unsent, self._unsent = self._writer, self._unsent, bytearray()
        if unsent:
            writer.write(unsent)
        if writer.transport.get_write_buffer_size() > UNSENT_BYTES:
            with _told(httpcore2.WriteTimeout, httpcore2.WriteError), anyio.fail_after(timeout):
                await writer.drain()

    async def aclose(self) -> None:
        self._writer.transport.abort()
        await anyio.lowlevel.checkpoint()  # in this round of the loop its socket is closed

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with _told(httpcore2.ConnectTimeout, httpcore2.ConnectError), anyio.fail_after(timeout):
                await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        except BaseException:
            await self.aclose()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the signature is httpcore2's
        match info:
            case "is_readable":
                return self._is_readable()
            case "ssl_object" | "socket":
                return self._writer.get_extra_info(info)
            case _:
                return None

    def _is_readable(self) -> bool:
        """Whether something came to an idle connection, which is mostly its end."""
        if self._reader.has_unread or self._writer.is_closing():
            return True
        poll = select.poll()  # what the event loop has not been told of yet
        poll.register(self._writer.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))


@contextmanager
def _told(
    late: type[httpcore2.TimeoutException], broken: type[httpcore2.NetworkError]
) -> Generator[None]:
    """Raise errors of asyncio and anyio as those of httpcore2."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except (OSError, anyio.BrokenResourceError) as error:
        raise broken(str(error)) from error
