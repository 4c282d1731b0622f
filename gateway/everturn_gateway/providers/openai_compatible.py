"""Streaming chat completions of OpenAI and of everything that speaks its format.

One try a call; the turn decides about the next. A reply is returned only when the provider said why
it ended; everything else is one of the kinds of `ModelError`, with a text that holds no secret.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from math import inf

import anyio
import httpx2

from everturn_actors.errors import (
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    TruncatedStreamError,
)
from everturn_actors.model import ModelRequest, Reply
from everturn_gateway.providers.endpoints import Endpoint, MaxTokensField
from everturn_gateway.providers.http_clients import CONNECT_TIMEOUT_S, HttpClients
from everturn_gateway.providers.model_errors import (
    DROPPABLE,
    error_for,
    read_refusal,
    unsupported_parameter,
)
from everturn_gateway.providers.reading import ReplyReader
from everturn_gateway.providers.sse import EventParser, EventTooLargeError
from everturn_gateway.providers.windows import served_window
from everturn_gateway.providers.wire import BodyWriter

logger = logging.getLogger(__name__)

ERROR_BODY_LIMIT_BYTES = 64 * 1024
REPLY_BODY_LIMIT_BYTES = 16 * 1024 * 1024  # of a server that does not stream though it was asked to
TAIL_S = 5.0  # from the end of the reply to its usage and the end of the stream
WINDOW_TIMEOUT_S = 5.0  # for all questions about a model's window together
DRAIN_S = 0.2  # what may follow the last chunk; then the connection is given up, not kept


class OpenAICompatible:
    """One model behind an OpenAI-compatible API; a `ModelProvider` and a `WindowSource`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clients: HttpClients,
        mask: Callable[[str], str],
        model: str = "",
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._clients = clients
        self._mask = mask
        self._writer = BodyWriter()
        self._max_tokens_field: MaxTokensField = endpoint.max_tokens_field
        self._leave_out: frozenset[str] = frozenset()
        self._timeout = httpx2.Timeout(
            endpoint.stall_timeout_s, connect=CONNECT_TIMEOUT_S, pool=CONNECT_TIMEOUT_S
        )
        self._headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if endpoint.key:
            self._headers["authorization"] = f"Bearer {endpoint.key}"

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`.

        A parameter that this model refuses by name (a fixed temperature, no usage in streams, the
        other name of the output limit) is left out from then on and the request sent again.
        """
        for _ in DROPPABLE:
            try:
                return await self._masked(request, on_text)
            except _UnsupportedParameterError as refused:
                if refused.name == "max_tokens" and self._max_tokens_field == "max_tokens":
                    self._max_tokens_field = "max_completion_tokens"
                elif refused.name in self._leave_out or refused.name == "max_tokens":
                    raise refused.error from None
                else:
                    self._leave_out |= {refused.name}
        return await self._masked(request, on_text)

    async def window_tokens(self) -> int | None:
        """Return the window of the model as it is served; see `WindowSource.window_tokens`."""
        with anyio.move_on_after(WINDOW_TIMEOUT_S):
            try:
                client = await self._clients.client(self._endpoint.address)
                return await served_window(client, self._endpoint, self._model)
            except (httpx2.HTTPError, httpx2.InvalidURL, ModelRefusedError) as error:
                # A call to the model fails for the same reason, and tells it.
                reason = self._mask(str(error))
                logger.debug("window not told", extra={"model": self._model, "reason": reason})
        return None

    async def _masked(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        try:
            return await self._once(request, on_text)
        except ModelError as error:
            raise error.with_text(self._mask(str(error))) from error.__cause__

    async def _once(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        where = f"{request.model} at {self._endpoint.address}"
        body = self._writer.body(
            request, max_tokens_field=self._max_tokens_field, leave_out=self._leave_out
        )
        client = await self._clients.client(self._endpoint.address)
        reader = ReplyReader(where=where, model=request.model, on_text=on_text)
        try:
            async with client.stream(
                "POST",
                self._endpoint.address + self._endpoint.path,
                content=body,
                headers=self._headers,
                timeout=self._timeout,
            ) as response:
                if not response.is_success:
                    raise await self._refused(response, where)
                await _read(response, reader, where)
        except httpx2.InvalidURL as error:
            msg = f"{where}: base_url is not an address: {error}"
            raise ModelRefusedError(msg) from error
        except httpx2.HTTPError as error:
            if not reader.complete:  # else only usage is lost, and the reply is whole
                raise self._broken(error, reader, where) from error
        return reader.reply()

    async def _refused(self, response: httpx2.Response, where: str) -> ModelError:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if response.is_redirect:
            target = headers.get("location", "elsewhere")
            msg = (
                f"{where}: answered with a redirect to {target}; set base_url to the right address"
            )
            return ModelRefusedError(msg)
        async with aclosing(response.aiter_bytes()) as pieces:
            refusal = read_refusal(await _limited(pieces, ERROR_BODY_LIMIT_BYTES))
        error = error_for(response.status_code, refusal, headers, where)
        parameter = unsupported_parameter(refusal)
        if parameter and isinstance(error, ModelRefusedError):
            raise _UnsupportedParameterError(parameter, error)
        return error

    def _broken(self, error: httpx2.HTTPError, reader: ReplyReader, where: str) -> ModelError:
        match error:
            case httpx2.ReadTimeout():
                stall_s = self._endpoint.stall_timeout_s
                return ModelTransientError(f"{where}: sent nothing for {stall_s:g} seconds")
            case httpx2.PoolTimeout():
                return ModelTransientError(f"{where}: all connections to it are in use")
            case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError():
                hint = f"; {self._endpoint.hint}" if self._endpoint.hint else ""
                return ModelTransientError(f"{where}: cannot be reached ({error}){hint}")
            case _ if reader.begun:
                return TruncatedStreamError(f"{where}: the reply broke off: {error}")
            case _:
                return ModelTransientError(f"{where}: the connection broke: {error}")


class _UnsupportedParameterError(Exception):
    """The model does not take a parameter that a reply is possible without."""

    def __init__(self, name: str, error: ModelError) -> None:
        self.name = name
        self.error = error
        super().__init__(name)


async def _read(response: httpx2.Response, reader: ReplyReader, where: str) -> None:
    """Read the body of a reply to its end, so that the connection can be used again."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/html":
        msg = f"{where}: answered with a web page; is base_url the address of an API?"
        raise ModelRefusedError(msg)
    # Nothing is compressed, as asked, unless a server does not care: then httpx2 unpacks it.
    packed = response.headers.get("content-encoding", "identity") != "identity"
    async with aclosing(response.aiter_bytes() if packed else response.aiter_raw()) as pieces:
        if kind == "application/json":
            reader.take(b"", await _limited(pieces, REPLY_BODY_LIMIT_BYTES))
            return
        try:
            await _read_events(pieces, reader)
        except EventTooLargeError as error:
            msg = f"{where}: {error.__doc__}"
            raise ModelTransientError(msg) from error
        if reader.done:
            with anyio.move_on_after(DRAIN_S):
                async for _ in pieces:
                    pass


async def _read_events(pieces: AsyncIterator[bytes], reader: ReplyReader) -> None:
    parser = EventParser()
    with anyio.CancelScope() as patience:
        async for piece in pieces:
            for name, data in parser.feed(piece):
                reader.take(name, data)
            if reader.done:
                return
            if reader.complete and patience.deadline == inf:
                patience.deadline = anyio.current_time() + TAIL_S
    for name, data in parser.finish():
        reader.take(name, data)


async def _limited(pieces: AsyncIterator[bytes], limit_bytes: int) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > limit_bytes:
            break
    return bytes(body[:limit_bytes])
