"""The connections to one address, by aiohttp, which takes 100 ms to load: at the first call."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from io import BytesIO
from math import inf
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
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
    """Connections to one address; an `HttpClient`."""

    def __init__(self, address: str, *, certificates: ssl.SSLContext, proxy: str | None) -> None:
        self._address = address
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=certificates,
                limit=0,  # calls wait in the queues of `limits`, where none is lost
                keepalive_timeout=KEPT_CONNECTIONS_S,
            ),
            headers={"user-agent": "everturn", "accept-encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            proxy=proxy,
        )

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
        send = partial(
            self._session.request,
            method,
            _url(self._address + path),
            data=BytesIO(body) if len(body) > _WHOLE_BYTES else body or None,
            headers=headers,
            allow_redirects=False,
            timeout=_timeout(silence_s),
        )
        return _Exchange(send, silence_s=silence_s)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._session.close()


@lru_cache(maxsize=64)  # of few models, in each request
def _url(address: str) -> URL:
    return URL(address, encoded=True)


@lru_cache(maxsize=64)
def _timeout(silence_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(connect=CONNECT_TIMEOUT_S, sock_read=silence_s)


class _Exchange:
    """A request and its answer. A class: as a generator it takes three times as long."""

    __slots__ = ("_response", "_send", "_silence_s")

    def __init__(
        self, send: Callable[[], Awaitable[aiohttp.ClientResponse]], *, silence_s: float
    ) -> None:
        self._send, self._silence_s = send, silence_s

    async def __aenter__(self) -> _Answer:
        with _TRANSLATED:
            self._response = await self._send()
        return _Answer(self._response, silence_s=self._silence_s)

    async def __aexit__(self, *_: object) -> None:
        self._response.release()  # a connection whose answer was not read to its end is closed


class _Answer:
    def __init__(self, response: aiohttp.ClientResponse, *, silence_s: float) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._content = response.content
        self._silence_s = silence_s

    async def read(self) -> bytes:
        with _TRANSLATED:
            return await self._content.readany()

    async def hand_on(self, take: Callable[[bytes], float | None]) -> None:
        content, connection = self._content, self._response.connection
        with _TRANSLATED, _Pieces(take, silence_s=self._silence_s) as pieces:
            while piece := content.read_nowait():  # what came with the head
                pieces.take(piece)
                if content.at_eof():
                    break  # the whole answer came in one go
                await checkpoint()  # to read lets more of what is packed be unpacked
            if not content.is_eof():
                if connection is None or connection.protocol is None:
                    msg = "the connection was closed"
                    raise BrokenError(msg)
                connection.protocol.read_timeout = None  # it would move a timer with each piece
                _PushedReader.hand_on(content, pieces)
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
        """Give whatever `reader` gets from now on to `pieces`; its end and its errors too."""
        reader.__class__ = cls
        reader._waiter = pieces  # noqa: SLF001 - of its own class from here on

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
            raise UnreachableError(str(error)) from error
        if isinstance(error, aiohttp.ServerTimeoutError):
            raise SilentError(str(error)) from error
        if isinstance(error, (aiohttp.ClientError, ValueError)):
            raise BrokenError(str(error) or type(error).__name__) from error


_TRANSLATED = _Translated()
