"""Streaming replies by OpenAI's Responses API, and of whoever speaks it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import ModelRequest
from everturn_gateway.providers.adaptive import AdaptiveProvider
from everturn_gateway.providers.counting.question import CountQuestion
from everturn_gateway.providers.responses.question import openai_question
from everturn_gateway.providers.responses.reading import ReplyReader
from everturn_gateway.providers.responses.wire import BodyWriter
from everturn_gateway.providers.transport.model_errors import unsupported_parameter
from everturn_gateway.providers.transport.sse import image_events
from everturn_gateway.providers.transport.streaming import (
    Connection,
    RefusedRequestError,
    Transport,
)
from everturn_gateway.providers.transport.wire import SentBytes

# What was encrypted for another account, or with a key that is gone. The code is
# `invalid_encrypted_content`, the text "The encrypted content ... could not be verified."
_ENCRYPTED: Final = re.compile(r"encrypted[ _]content", re.IGNORECASE)


class _Manner(Struct, frozen=True, kw_only=True):
    """How this model wants its requests, as far as is known."""

    leave_out: frozenset[str] = frozenset()
    "Parameters that it refuses."
    replays: bool = True
    "Whether it takes back what it gave encrypted."


class Responses(AdaptiveProvider[_Manner]):
    """One model behind the Responses API."""

    def __init__(
        self, connection: Connection, *, model: str, sent: SentBytes | None = None
    ) -> None:
        endpoint, transport = connection.endpoint, Transport(connection, parser=image_events)
        super().__init__(transport, model=model, manner=_Manner())
        self._endpoint, self._origin = endpoint, endpoint.address
        self._writer = BodyWriter(origin=endpoint.address, sent=sent)

    def _reader(self, request: ModelRequest, on_text: Callable[[str], None]) -> ReplyReader:
        where = self._transport.where(request.model)
        return ReplyReader(
            where=where,
            model=request.model,
            on_text=on_text,
            origin=self._origin,
            compacts=request.compacts,
        )

    def _body(self, manner: _Manner, request: ModelRequest) -> bytes:
        return self._writer.body(request, leave_out=manner.leave_out, replays=manner.replays)

    def _question(self, manner: _Manner, request: ModelRequest) -> CountQuestion | None:
        if self._endpoint.counts != "openai":
            return None
        return openai_question(
            request,
            self._endpoint.base,
            self._writer,
            leave_out=manner.leave_out,
            replays=manner.replays,
        )

    def _observed(
        self, request: ModelRequest, manner: _Manner, refused: RefusedRequestError
    ) -> _Manner | None:
        if type(refused.error) is not ModelRefusedError:
            return None
        refusal = refused.refusal
        if manner.replays and _ENCRYPTED.search(f"{refusal.code} {refusal.message}"):
            return replace(manner, replays=False)
        name = unsupported_parameter(refusal)
        if not name or name in manner.leave_out:
            return None
        return replace(manner, leave_out=manner.leave_out | {name})
