"""One streamed call to a model API over HTTP, whichever format it speaks.

One try a call; the turn decides about the next. A reply is returned only when the provider said why
it ended; everything else is one of the kinds of `ModelError`, with a text that holds no secret.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import cached_property
from math import inf
from typing import Protocol

import anyio
import anyio.to_thread
import httpx2

from everturn_actors.errors import (
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    TruncatedStreamError,
)
from everturn_actors.model import ModelRequest, Reply
from everturn_gateway.providers.transport.attached import LARGE_BYTES, size_bytes
from everturn_gateway.providers.transport.endpoints import Endpoint
from everturn_gateway.providers.transport.http_clients import CONNECT_TIMEOUT_S, HttpClients
from everturn_gateway.providers.transport.model_errors import (
    Refusal,
    error_for,
    read_refusal,
    request_id,
)
from everturn_gateway.providers.transport.parts import UNKNOWN_FORM
from everturn_gateway.providers.transport.sse import EventTooLargeError
from everturn_gateway.providers.transport.windows import served_window

logger = logging.getLogger(__name__)

ERROR_BODY_LIMIT_BYTES = 64 * 1024
REPLY_BODY_LIMIT_BYTES = 16 * 1024 * 1024  # of a server that does not stream though it was asked to
TAIL_S = 5.0  # from the end of the reply to its usage and the end of the stream
WINDOW_TIMEOUT_S = 5.0  # for all questions about a model's window together
DRAIN_S = 0.2  # what may follow the last chunk; then the connection is given up, not kept


class Parser(Protocol):
    """Cuts a stream into events, however the network cut it."""

    def feed(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        """Return the events (name and data) that `piece` completes, oldest first."""
        ...

    def finish(self) -> list[tuple[bytes, bytes]]:
        """Return what is a whole event though the stream ended behind it."""
        ...


class Reader(Protocol):
    """Makes one reply out of events."""

    done: bool
    "Whether the provider said that nothing more comes."

    @property
    def complete(self) -> bool:
        """Whether the reply itself has ended; usage may still follow."""
        ...

    @property
    def begun(self) -> bool:
        """Whether anything of a reply has arrived."""
        ...

    def take(self, name: bytes, data: bytes, /) -> None:
        """Take one event; raise the `ModelError` that it reports."""
        ...

    def reply(self) -> Reply:
        """Return the reply; raise a `ModelError` where it is none."""
        ...


class RefusedRequestError(Exception):
    """The provider refused a request; another one may pass.

    Attributes:
        refusal: What it said.
        error: What the call fails with where there is no other request.
    """

    def __init__(self, refusal: Refusal, error: ModelError) -> None:
        self.refusal, self.error = refusal, error
        super().__init__(str(error))


class Transport:
    """Sends requests to one endpoint and reads what comes back."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clients: HttpClients,
        mask: Callable[[str], str],
        parser: Callable[[], Parser],
        accept: str = "text/event-stream",
    ) -> None:
        self._endpoint = endpoint
        self._clients = clients
        self._mask = mask
        self._parser = parser
        timeout = httpx2.Timeout(endpoint.stall_timeout_s, connect=CONNECT_TIMEOUT_S, pool=None)
        self._timeouts = timeout.as_dict()
        self._headers = {
            "content-type": "application/json",
            "accept": accept,
            **endpoint.headers,
        }
        self._fields: httpx2.Headers | None = None
        "These and those of every request; None before the first."

    @cached_property
    def _url(self) -> httpx2.URL:
        """The address of calls, taken apart once; raises `httpx2.InvalidURL`."""
        return httpx2.URL(self._endpoint.address + self._endpoint.path)

    def where(self, model: str) -> str:
        """Return how the texts of errors begin: which model, and where."""
        return f"{model} at {self._endpoint.address}"

    async def call(self, body: bytes, reader: Reader, where: str) -> Reply:
        """Send one request and return the whole reply.

        Raises:
            RefusedRequestError: The provider refused it.
            ModelError: Everything else that can go wrong.
        """
        try:
            return await self._exchange(body, reader, where)
        except ModelError as error:
            raise self._masked(error) from error.__cause__

    async def window_tokens(self, model: str) -> int | None:
        """Return the window of the model as it is served; see `WindowSource.window_tokens`."""
        with anyio.move_on_after(WINDOW_TIMEOUT_S):
            try:
                client = await self._clients.client(self._endpoint.address)
                return await served_window(client, self._endpoint, model)
            except (httpx2.HTTPError, httpx2.InvalidURL, ModelRefusedError) as error:
                # A call to the model fails for the same reason, and tells it.
                reason = self._mask(str(error))
                logger.debug("window not told", extra={"model": model, "reason": reason})
            except UNKNOWN_FORM as error:
                # Nobody waits for this question: whatever is answered, the gateway goes on.
                kind = type(error).__name__
                logger.warning("window not understood", extra={"model": model, "reason": kind})
        return None

    def _masked(self, error: ModelError) -> ModelError:
        return error.with_text(self._mask(str(error)))

    async def _exchange(self, body: bytes, reader: Reader, where: str) -> Reply:
        client = await self._clients.client(self._endpoint.address)
        named = ""
        try:
            async with self._sent(client, body) as response:
                if not response.is_success:
                    raise await self._refused(response, where)
                # Once: httpx2's own go through all fields at each look.
                headers = {
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in response.headers.raw
                }
                named = request_id(headers)
                await self._read(response, headers, reader, where)
            return reader.reply()
        except httpx2.InvalidURL as error:
            msg = f"{where}: base_url is not an address: {error}"
            raise ModelRefusedError(msg) from error
        except httpx2.HTTPError as error:
            if not reader.complete:  # else only usage is lost, and the reply is whole
                raise _with_id(self._broken(error, reader, where), named) from error
            return reader.reply()
        except ModelError as error:
            raise _with_id(error, named) from error.__cause__

    @asynccontextmanager
    async def _sent(
        self, client: httpx2.AsyncClient, body: bytes
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request; as `client.stream` does, which merges all fields anew for each."""
        if self._fields is None:
            self._fields = httpx2.Headers(client.headers)
            self._fields.update(self._headers)
        request = httpx2.Request(
            "POST",
            self._url,
            content=body,
            headers=self._fields,
            cookies=client.cookies or None,
            extensions={"timeout": self._timeouts},
        )
        response = await client.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    async def _refused(
        self, response: httpx2.Response, where: str
    ) -> ModelError | RefusedRequestError:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if response.is_redirect:
            target = headers.get("location", "elsewhere")
            msg = (
                f"{where}: answered with a redirect to {target}; set base_url to the right address"
            )
            return ModelRefusedError(msg)
        async with aclosing(response.aiter_bytes()) as pieces:
            refusal = read_refusal(await _limited(pieces, ERROR_BODY_LIMIT_BYTES))
        error = self._masked(error_for(response.status_code, refusal, headers, where))
        return RefusedRequestError(refusal, error)

    def _broken(self, error: httpx2.HTTPError, reader: Reader, where: str) -> ModelError:
        match error:
            case httpx2.ReadTimeout():
                stall_s = self._endpoint.stall_timeout_s
                return ModelTransientError(f"{where}: sent nothing for {stall_s:g} seconds")
            case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError():
                hint = f"; {self._endpoint.hint}" if self._endpoint.hint else ""
                return ModelTransientError(f"{where}: cannot be reached ({error}){hint}")
            case _ if reader.begun:
                return TruncatedStreamError(f"{where}: the reply broke off: {error}")
            case _:
                return ModelTransientError(f"{where}: the connection broke: {error}")

    async def _read(
        self, response: httpx2.Response, headers: Mapping[str, str], reader: Reader, where: str
    ) -> None:
        """Read the body of a reply to its end, so that the connection can be used again."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html":
            msg = f"{where}: answered with a web page; is base_url the address of an API?"
            raise ModelRefusedError(msg)
        # Nothing is compressed, as asked, unless a server does not care: then httpx2 unpacks it.
        packed = headers.get("content-encoding", "identity") != "identity"
        async with aclosing(response.aiter_bytes() if packed else response.aiter_raw()) as pieces:
            if kind == "application/json":
                reader.take(b"", await _limited(pieces, REPLY_BODY_LIMIT_BYTES))
                return
            try:
                await _read_events(pieces, self._parser(), reader)
            except EventTooLargeError as error:
                msg = f"{where}: {error.__doc__}"
                raise ModelTransientError(msg) from error


async def written(request: ModelRequest, write: Callable[[ModelRequest], bytes]) -> bytes:
    """Return the body that `write` makes; one with large images is made beside the event loop."""
    if size_bytes(request) > LARGE_BYTES:
        return await anyio.to_thread.run_sync(write, request)
    return write(request)


async def _read_events(pieces: AsyncIterator[bytes], parser: Parser, reader: Reader) -> None:
    done = False
    with anyio.CancelScope() as patience:
        async for piece in pieces:
            if done:
                continue  # whatever follows: read to its end, the connection can be used again
            for name, data in parser.feed(piece):
                reader.take(name, data)
            done = reader.done
            if done:
                patience.deadline = anyio.current_time() + DRAIN_S
            elif reader.complete and patience.deadline == inf:
                patience.deadline = anyio.current_time() + TAIL_S
    if not done:
        for name, data in parser.finish():
            reader.take(name, data)


async def _limited(pieces: AsyncIterator[bytes], limit_bytes: int) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > limit_bytes:
            break
    return bytes(body[:limit_bytes])


def _with_id(error: ModelError, named: str) -> ModelError:
    """Return an error that names the request, by which its provider finds it."""
    return error.with_text(f"{error} (request {named})") if named else error
