"""The connections to one address, by aiohttp, which takes 100 ms to load: at the first call."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO

import aiohttp
from yarl import URL

from everturn_gateway.providers.transport.http_port import (
    BrokenError,
    SilentError,
    UnreachableError,
)

CONNECT_TIMEOUT_S = 10.0
KEPT_CONNECTIONS_S = 60.0  # as long as the load balancers in front of large providers keep theirs
_WHOLE_BYTES = 512 * 1024  # of a body; a larger one leaves in parts, and the loop goes on between
_HEADER_BYTES = 64 * 1024  # of one field of an answer


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

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        silence_s: float,
    ) -> AsyncGenerator[_Answer]:
        """Send a request; see `HttpClient.request`."""
        with _told():
            response = await self._session.request(
                method,
                URL(self._address + path, encoded=True),
                data=BytesIO(body) if len(body) > _WHOLE_BYTES else body or None,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(connect=CONNECT_TIMEOUT_S, sock_read=silence_s),
            )
        try:
            yield _Answer(response)
        finally:
            response.release()  # a connection whose answer was not read to its end is closed

    async def aclose(self) -> None:
        """Close every connection."""
        await self._session.close()


class _Answer:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._content = response.content

    async def read(self) -> bytes:
        with _told():
            return await self._content.readany()


@contextmanager
def _told() -> Generator[None]:
    """Raise errors of aiohttp as those of `http_port`."""
    try:
        yield
    except (
        aiohttp.ClientConnectorError,
        aiohttp.ConnectionTimeoutError,
        aiohttp.ClientHttpProxyError,
    ) as error:
        raise UnreachableError(str(error)) from error
    except aiohttp.ServerTimeoutError as error:
        raise SilentError(str(error)) from error
    except (aiohttp.ClientError, ValueError) as error:
        raise BrokenError(str(error) or type(error).__name__) from error
