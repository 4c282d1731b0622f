"""One streamed call to a model API over HTTP, whichever format it speaks.

One try a call; the turn decides about the next. A reply is returned only when the provider said why
it ended; everything else is one of the kinds of `ModelError`, with a text that holds no secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

import anyio
import anyio.to_thread
from msgspec import Struct

from everturn_actors.errors import (
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    TruncatedStreamError,
)
from everturn_actors.model import ModelRequest, Reply
from everturn_gateway.providers.transport.attached import LARGE_BYTES, size_bytes
from everturn_gateway.providers.transport.endpoints import Endpoint
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.http_port import (
    Answer,
    HttpError,
    SilentError,
    UnreachableError,
)
from everturn_gateway.providers.transport.images import LARGE_CHARS
from everturn_gateway.providers.transport.model_errors import (
    Refusal,
    error_for,
    read_refusal,
    request_id,
)
from everturn_gateway.providers.transport.parts import UNKNOWN_FORM, Reader
from everturn_gateway.providers.transport.sse import IMAGE_EVENT_BYTES, EventTooLargeError
from everturn_gateway.providers.transport.windows import WINDOW_TIMEOUT_S, served_window

logger = logging.getLogger(__name__)

ERROR_BODY_LIMIT_BYTES = 64 * 1024
TAIL_S = 5.0  # from the end of the reply to its usage and the end of the stream
_REDIRECTS = (301, 302, 303, 307, 308)
DRAIN_S = 0.2  # what may follow the last chunk; then the connection is given up, not kept


class Parser(Protocol):
    """Cuts a stream into events, however the network cut it."""

    def feed(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        """Return the events (name and data) that `piece` completes, oldest first."""
        ...

    def finish(self) -> list[tuple[bytes, bytes]]:
        """Return what is a whole event though the stream ended behind it."""
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


class Connection(Struct, frozen=True, kw_only=True):
    """How one endpoint is reached."""

    endpoint: Endpoint
    clients: HttpClients
    mask: Callable[[str], str]
    "Takes secrets out of the texts of errors."


class Transport:
    """Sends requests to one endpoint and reads what comes back."""

    def __init__(
        self,
        connection: Connection,
        *,
        parser: Callable[[], Parser],
        accept: str = "text/event-stream",
    ) -> None:
        endpoint = connection.endpoint
        self._endpoint, self._clients = endpoint, connection.clients
        self._mask, self._parser = connection.mask, parser
        self._headers = {
            "content-type": "application/json",
            "accept": accept,
            **endpoint.headers,
        }
        self._tells_window = True
        "False once its server has answered, and did not tell: it is not asked again."

    def where(self, model: str) -> str:
        """Return how the texts of errors begin: which model, and where."""
        return f"{model} at {self._endpoint.address}"

    async def call(
        self, body: bytes, reader: Reader, where: str, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request, with further headers, and return the whole reply.

        Raises:
            RefusedRequestError: The provider refused it.
            ModelError: Everything else that can go wrong.
        """
        try:
            return await self._exchange(body, reader, where, headers or {})
        except ModelError as error:
            raise self._masked(error) from error.__cause__

    async def window_tokens(self, model: str) -> int | None:
        """Return the window of the model as it is served; see `WindowSource.window_tokens`."""
        if not self._tells_window:
            return None
        with anyio.move_on_after(WINDOW_TIMEOUT_S):
            try:
                client = await self._clients.client(self._endpoint.address)
                told = await served_window(client, self._endpoint, model)
            except (HttpError, ModelRefusedError) as error:
                # A call to the model fails for the same reason, and tells it.
                reason = self._mask(str(error))
                logger.debug("window not told", extra={"model": model, "reason": reason})
            except UNKNOWN_FORM as error:
                # Nobody waits for this question: whatever is answered, the gateway goes on.
                kind = type(error).__name__
                logger.warning("window not understood", extra={"model": model, "reason": kind})
            else:
                self._tells_window = told is not None
                return told
        return None

    async def asked(
        self, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes]:
        """Post a question beside the model's calls; return the status and the answer.

        A header that is empty is left out.

        The status is 0, and the answer empty, where none came in time. Never raises for a server
        that does not answer.
        """
        sent = {**self._headers, "accept": "application/json", **headers}
        with anyio.move_on_after(timeout_s):
            try:
                client = await self._clients.client(self._endpoint.address)
                async with client.request(
                    "POST",
                    path,
                    headers={name: value for name, value in sent.items() if value},
                    body=body,
                    silence_s=timeout_s,
                ) as answer:
                    return answer.status, await _limited(answer, ERROR_BODY_LIMIT_BYTES)
            except HttpError as error:
                reason = self._mask(str(error))
                logger.debug("a question was not answered", extra={"reason": reason})
        return 0, b""

    def _masked(self, error: ModelError) -> ModelError:
        return error.with_text(self._mask(str(error)))

    async def _exchange(
        self, body: bytes, reader: Reader, where: str, headers: Mapping[str, str]
    ) -> Reply:
        endpoint = self._endpoint
        client = await self._clients.client(endpoint.address)
        named = ""
        try:
            async with client.request(
                "POST",
                endpoint.path,
                headers={**self._headers, **headers} if headers else self._headers,
                body=body,
                silence_s=endpoint.stall_timeout_s,
            ) as answer:
                if not 200 <= answer.status < 300:
                    raise await self._refused(answer, where)
                named = request_id(answer.headers)
                await self._read(answer, reader, where)
            return await _whole(reader)
        except HttpError as error:
            if not reader.complete:  # else only usage is lost, and the reply is whole
                raise _with_id(self._broken(error, reader, where), named) from error
            return await _whole(reader)
        except ModelError as error:
            raise _with_id(error, named) from error.__cause__

    async def _refused(self, answer: Answer, where: str) -> ModelError | RefusedRequestError:
        if answer.status in _REDIRECTS:
            target = answer.headers.get("location", "elsewhere")
            msg = (
                f"{where}: answered with a redirect to {target}; set base_url to the right address"
            )
            return ModelRefusedError(msg)
        refusal = read_refusal(await _limited(answer, ERROR_BODY_LIMIT_BYTES))
        error = self._masked(error_for(answer.status, refusal, answer.headers, where))
        return RefusedRequestError(refusal, error)

    def _broken(self, error: HttpError, reader: Reader, where: str) -> ModelError:
        match error:
            case SilentError():
                stall_s = self._endpoint.stall_timeout_s
                return ModelTransientError(f"{where}: sent nothing for {stall_s:g} seconds")
            case UnreachableError():
                to = self._endpoint
                usual = "does it run?" if to.is_loopback else "look at network, proxy and address"
                msg = f"{where}: cannot be reached ({error}); {to.hint or usual}"
                return ModelTransientError(msg)
            case _ if reader.begun:
                return TruncatedStreamError(f"{where}: the reply broke off: {error}")
            case _:
                return ModelTransientError(f"{where}: the connection broke: {error}")

    async def _read(self, answer: Answer, reader: Reader, where: str) -> None:
        """Read the body of a reply to its end, so that the connection can be used again."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html":
            msg = f"{where}: answered with a web page; is base_url the address of an API?"
            raise ModelRefusedError(msg)
        if kind == "application/json":
            body = await _limited(answer, IMAGE_EVENT_BYTES)
            if len(body) == IMAGE_EVENT_BYTES:
                msg = f"{where}: the reply is larger than {IMAGE_EVENT_BYTES >> 20} MiB"
                raise ModelTransientError(msg)
            reader.take(b"", body)
            return
        try:
            await _read_events(answer, self._parser(), reader)
        except EventTooLargeError as error:
            msg = f"{where}: {error}"
            raise ModelTransientError(msg) from error


async def written(request: ModelRequest, write: Callable[[ModelRequest], bytes]) -> bytes:
    """Return the body that `write` makes; one with large images is made beside the event loop."""
    if size_bytes(request) > LARGE_BYTES:
        return await anyio.to_thread.run_sync(write, request)
    return write(request)


async def _read_events(answer: Answer, parser: Parser, reader: Reader) -> None:
    done = False

    def take(piece: bytes) -> float | None:
        nonlocal done
        if done:
            return None  # whatever follows: read to its end, the connection can be used again
        for name, data in parser.feed(piece):
            reader.take(name, data)
        done = reader.done
        if done:
            return DRAIN_S
        return TAIL_S if reader.complete else None

    await answer.hand_on(take)
    if not done:
        for name, data in parser.finish():
            reader.take(name, data)


async def _whole(reader: Reader) -> Reply:
    """Return the reply, of which large images were decoded beside the event loop."""
    if reader.complete and reader.images.chars > LARGE_CHARS:
        await anyio.to_thread.run_sync(reader.images.decode)
    return reader.reply()


async def _limited(answer: Answer, limit_bytes: int) -> bytes:
    body = bytearray()
    while len(body) <= limit_bytes and (piece := await answer.read()):
        body += piece
    return bytes(body[:limit_bytes])


def _with_id(error: ModelError, named: str) -> ModelError:
    """Return an error that names the request, by which its provider finds it."""
    return error.with_text(f"{error} (request {named})") if named else error
