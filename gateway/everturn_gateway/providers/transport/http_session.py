"""The connections to one address, by aiohttp, which takes 100 ms to load: at the first call."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from math import inf
from typing import Final, Self, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from anyio.lowlevel import checkpoint
from yarl import URL

from everturn_gateway.providers.transport.endpoints import is_loopback
from everturn_gateway.providers.transport.http_port import (
    BrokenError,
    SilentError,
    UnreachableError,
)

CONNECT_TIMEOUT_S = 10.0
KEPT_CONNECTIONS_S = 60.0  # as long as the load balancers in front of large providers keep theirs
JOIN_S = 0.001  # pieces that follow each other faster are handed on together
_WHOLE_BYTES = 512 * 1024  # of a body; a larger one leaves in parts, and the loop goes on between
_HEADER_BYTES = 64 * 1024  # of one field of an answer
_PROXY_SCHEMES: Final = ("http", "https")
_HEADERS: Final = {"user-agent": "everturn", "accept": "*/*", "accept-encoding": "identity"}
_CONNECTING: Final = aiohttp.ClientTimeout(connect=CONNECT_TIMEOUT_S)


def prepared(address: str) -> Callable[[], HttpSession]:
    """Return what opens the connections to an address. Not for the event loop.

    Raises:
        OSError: The certificates of the environment cannot be read.
        ValueError: Its proxy cannot be asked.
    """
    proxy = _proxy_for(address)
    # Plain HTTP needs no certificates; reading them takes 20 ms.
    is_plain = all(url.startswith("http://") for url in (address, proxy or address))
    certificates = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if is_plain
        else ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or None)
    )
    return partial(HttpSession, address, certificates=certificates, proxy=proxy)


def _proxy_for(address: str) -> str | None:
    """Return the address of the proxy that the environment names for `address`.

    Raises:
        ValueError: It is none that can be asked.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    named = proxy if "://" in proxy else f"http://{proxy}"
    scheme = urlsplit(named).scheme
    if scheme not in _PROXY_SCHEMES:
        msg = f"a proxy that speaks {scheme} cannot be used; name one with http:// or https://"
        raise ValueError(msg)
    return named


class HttpSession:
    """Connections to one address; an `HttpClient`.

    Connections, TLS, proxies and the parser of answers are aiohttp's. Requests are written here, in
    one go: for each of them aiohttp's session merges headers, cookies, credentials, redirects and
    timeouts, none of which there are, and starts a task that writes; that took as long as all else
    of a request.
    """

    def __init__(self, address: str, *, certificates: ssl.SSLContext, proxy: str | None) -> None:
        self._connector = aiohttp.TCPConnector(
            ssl=certificates,
            limit=0,  # calls wait in the queues of `limits`, where none is lost
            keepalive_timeout=KEPT_CONNECTIONS_S,
        )
        # Says where to connect, and to whom; it is never sent itself.
        self._target = aiohttp.ClientRequest(
            "GET",
            URL(address, encoded=True),
            loop=asyncio.get_running_loop(),
            proxy=URL(proxy) if proxy else None,
        )
        self._is_passed_on = proxy is not None and not self._target.is_ssl()
        self._address = address
        self._head = lru_cache(maxsize=64)(self._made_head)  # of few models, in each request

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        silence_s: float,
    ) -> _Exchange:
        """Send a request; see `HttpClient.request`."""
        return _Exchange(
            partial(self._send, method, path, tuple(headers.items()), body, silence_s),
            silence_s=silence_s,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connector.close()

    async def _send(
        self,
        method: str,
        path: str,
        headers: tuple[tuple[str, str], ...],
        body: bytes,
        silence_s: float,
    ) -> tuple[Connection, RawResponseMessage, aiohttp.StreamReader]:
        """Send a request; return the connection, the head of the answer, and its body."""
        try:
            connection = await self._connector.connect(self._target, traces=[], timeout=_CONNECTING)
        except TimeoutError as error:
            msg = f"no connection within {CONNECT_TIMEOUT_S:g} s"
            raise UnreachableError(msg) from error
        try:
            protocol, transport = _ends_of(connection)
            protocol.set_response_params(
                read_timeout=silence_s,
                read_until_eof=True,
                max_line_size=_HEADER_BYTES,
                max_field_size=_HEADER_BYTES,
            )
            head = self._head(method, path, headers)
            if body or method == "POST":
                head += b"content-length: %d\r\n" % len(body)
            # Together, but not joined: to copy a long body takes as long as to send it.
            transport.writelines((head + b"\r\n", body[:_WHOLE_BYTES]))
            for at in range(_WHOLE_BYTES, len(body), _WHOLE_BYTES):
                await checkpoint()
                transport.write(body[at : at + _WHOLE_BYTES])
            protocol.start_timeout()
            while True:
                message, content = await protocol.read()
                if message.code >= 200 or message.code == 101:  # else it announces the answer
                    return connection, message, content
        except BaseException:
            connection.close()
            raise

    def _made_head(self, method: str, path: str, headers: tuple[tuple[str, str], ...]) -> bytes:
        """Return the head of a request, but for the length of its body and the empty line.

        Raises:
            ValueError: A header would end its line.
        """
        target = self._target
        sent = {"host": target.headers["host"], **_HEADERS}
        sent.update((name.lower(), value) for name, value in headers)
        # The connector puts the credentials of a proxy there.
        if self._is_passed_on and (credentials := target.headers.get("proxy-authorization")):
            sent["proxy-authorization"] = credentials
        lines = [f"{method} {self._address if self._is_passed_on else ''}{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in sent.items()]
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            msg = "a header of the request holds the end of a line"
            raise ValueError(msg)
        return "\r\n".join((*lines, "")).encode()


def _ends_of(connection: Connection) -> tuple[ResponseHandler, asyncio.Transport]:
    """Return what reads a connection, and what writes to it.

    Raises:
        ServerDisconnectedError: It was closed.
    """
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None:
        raise aiohttp.ServerDisconnectedError
    return protocol, transport


class _Exchange:
    """A request and its answer. A class: as a generator it takes three times as long."""

    __slots__ = ("_connection", "_send", "_silence_s")

    def __init__(
        self,
        send: Callable[[], Awaitable[tuple[Connection, RawResponseMessage, aiohttp.StreamReader]]],
        *,
        silence_s: float,
    ) -> None:
        self._send, self._silence_s = send, silence_s

    async def __aenter__(self) -> _Answer:
        with _TRANSLATED:
            self._connection, message, content = await self._send()
        return _Answer(self._connection, message, content, silence_s=self._silence_s)

    async def __aexit__(self, *_: object) -> None:
        self._connection.release()  # one whose answer was not read to its end is closed


class _Answer:
    def __init__(
        self,
        connection: Connection,
        message: RawResponseMessage,
        content: aiohttp.StreamReader,
        *,
        silence_s: float,
    ) -> None:
        self.status, self.headers = message.code, message.headers
        self._connection, self._content = connection, content
        self._silence_s = silence_s

    async def read(self) -> bytes:
        with _TRANSLATED:
            return await self._content.readany()

    async def hand_on(self, take: Callable[[bytes], float | None]) -> None:
        content = self._content
        with _TRANSLATED, _Pieces(take, silence_s=self._silence_s) as pieces:
            if content is not aiohttp.EMPTY_PAYLOAD:
                _PushedReader.hand_on(content, pieces)  # with what came beside the head
            if not content.is_eof():
                protocol = self._connection.protocol
                if protocol is None:
                    msg = "the connection was closed"
                    raise BrokenError(msg)
                protocol.read_timeout = None  # it would move a timer with each piece
                await pieces
            pieces.finish()


class _Pieces(asyncio.Future[None]):
    """Takes the pieces of an answer; done when that has ended."""

    def __init__(self, take: Callable[[bytes], float | None], *, silence_s: float) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self._now, self._soon, self._at = loop.time, loop.call_soon, loop.call_at
        self._take = take
        self._silence_s = silence_s
        self._joined: list[bytes] = []
        self._came_s = self._now()
        "When the last piece came."
        self._end_s = inf
        "When the reading ends, whatever comes."

    def __enter__(self) -> Self:
        # One timer that looks when the last piece came: to move one with each piece costs more.
        self._timer = self._at(self._came_s + self._silence_s, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if not self.cancel() and not self.cancelled():
            self.exception()  # else one that came behind a cancellation is logged as unseen

    def take(self, piece: bytes) -> None:
        """Hand a piece on, with the others that come in the same moment."""
        if self.done():
            return  # nobody reads on
        if self._joined:
            self._joined.append(piece)
            return
        before_s, self._came_s = self._came_s, self._now()
        if self._came_s - before_s < JOIN_S:
            self._joined.append(piece)
            self._soon(self._flush)
        else:
            self._hand_on(piece)

    def finish(self) -> None:
        """Hand on what came together with the end; raise what ended it."""
        if self.done():
            self.result()
        if self._joined:
            self._take(self._whole())

    def _flush(self) -> None:
        if self._joined and not self.done():  # at the end, `finish` does
            self._hand_on(self._whole())

    def _whole(self) -> bytes:
        whole, self._joined = b"".join(self._joined), []
        return whole

    def _hand_on(self, piece: bytes) -> None:
        try:
            left_s = self._take(piece)
        except Exception as error:  # noqa: BLE001 - raised where the answer is awaited
            self.set_exception(error)
            return
        if left_s is not None and (end_s := self._now() + left_s) < self._end_s:
            self._end_s = end_s
            self._timer.cancel()
            self._timer = self._at(end_s, self._look)

    def _look(self) -> None:
        now_s, silent_s = self._now(), self._came_s + self._silence_s
        if self.done():
            return
        if now_s >= self._end_s:
            self.set_result(None)
        elif now_s >= silent_s:
            self.set_exception(SilentError(f"nothing came for {self._silence_s:g} s"))
        else:
            self._timer = self._at(min(silent_s, self._end_s), self._look)


class _PushedReader(aiohttp.StreamReader):
    """A body whose pieces are handed on in the moment they come.

    aiohttp's own wakes a task for each piece, which costs as much again as all that is done with
    it. Its parser makes readers itself; one that a call wants handed on is turned into this class.
    """

    __slots__ = ()

    @classmethod
    def hand_on(cls, reader: aiohttp.StreamReader, pieces: _Pieces) -> None:
        """Give what `reader` has, and gets from now on, to `pieces`; its end and its errors too."""
        reader.__class__ = cls
        cast("_PushedReader", reader)._begin(pieces)  # noqa: SLF001 - of its own class from here on

    def _begin(self, pieces: _Pieces) -> None:
        held, self._buffer = self._buffer, deque[bytes]()
        self._size, self._waiter = 0, pieces
        if held:
            pieces.take(b"".join(held))
        error = self.exception()
        if error is not None and not pieces.done():
            pieces.set_exception(error)
        elif self._protocol._reading_paused:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - more is packed than was unpacked
            self._loop.call_soon(self._protocol.resume_reading)

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        """Hand a piece on; `size` is aiohttp's own affair."""
        if isinstance(self._waiter, _Pieces):  # else nobody wants it any more
            self._waiter.take(data)
        self._size += len(data)
        if self._size > self._high_water:
            # What was packed may be a thousand times what came: the loop goes round between.
            self._size = 0
            self._protocol.pause_reading()
            self._loop.call_soon(self._protocol.resume_reading)
        return False

    def begin_http_chunk_receiving(self) -> None:
        """Take no note of how the body was cut."""

    def end_http_chunk_receiving(self) -> None:
        """Take no note of how the body was cut."""


class _Translated:
    """Raises errors of aiohttp as those of `http_port`."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is None:
            return
        if isinstance(
            error,
            (
                aiohttp.ClientConnectorError,
                aiohttp.ConnectionTimeoutError,
                aiohttp.ClientHttpProxyError,
            ),
        ):
            raise UnreachableError(str(error).replace(" ssl:default", "")) from error
        if isinstance(error, aiohttp.ServerTimeoutError):
            raise SilentError(str(error)) from error
        if isinstance(error, (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)):
            raise BrokenError(str(error) or type(error).__name__) from error


_TRANSLATED = _Translated()
