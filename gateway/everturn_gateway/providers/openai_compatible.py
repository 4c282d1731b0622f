"""Streaming chat completions of OpenAI and of everything that speaks its format."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import ModelRequest
from everturn_gateway.late_loading import late
from everturn_gateway.providers.adaptive import AdaptiveProvider
from everturn_gateway.providers.transport.endpoints import MaxTokensField
from everturn_gateway.providers.transport.model_errors import unsupported_parameter
from everturn_gateway.providers.transport.reading import ReplyReader
from everturn_gateway.providers.transport.sse import image_events
from everturn_gateway.providers.transport.streaming import (
    Connection,
    RefusedRequestError,
    Transport,
)
from everturn_gateway.providers.transport.wire import BodyWriter, SentBytes

if TYPE_CHECKING:
    from everturn_gateway.providers import counting, responses
    from everturn_gateway.providers.counting.question import CountQuestion
else:
    counting = late("everturn_gateway.providers.counting")
    responses = late("everturn_gateway.providers.responses")

# DeepSeek and Kimi want the thoughts back that led to a call.
_WANTS_REASONING: Final = re.compile(
    r"reasoning_content\W.{0,60}(?:must be passed back|is missing)", re.IGNORECASE
)


class _Manner(Struct, frozen=True, kw_only=True):
    """How this model wants its requests, as far as is known."""

    max_tokens_field: MaxTokensField
    leave_out: frozenset[str] = frozenset()
    "Parameters that it refuses."
    echoes: bool = False
    "Whether it wants its thoughts back."


class OpenAICompatible(AdaptiveProvider[_Manner]):
    """One model behind an OpenAI-compatible API."""

    def __init__(
        self,
        connection: Connection,
        *,
        model: str = "",
        sent: SentBytes | None = None,
    ) -> None:
        endpoint, transport = connection.endpoint, Transport(connection, parser=image_events)
        manner = _Manner(max_tokens_field=endpoint.max_tokens_field)
        super().__init__(transport, model=model, manner=manner)
        self._endpoint, self._origin = endpoint, endpoint.address
        self._writer = BodyWriter(origin=endpoint.address, vendor=endpoint.vendor, sent=sent)

    def _reader(self, request: ModelRequest, on_text: Callable[[str], None]) -> ReplyReader:
        where = self._transport.where(request.model)
        return ReplyReader(where=where, model=request.model, on_text=on_text, origin=self._origin)

    def _body(self, manner: _Manner, request: ModelRequest) -> bytes:
        return self._writer.body(
            request,
            max_tokens_field=manner.max_tokens_field,
            leave_out=manner.leave_out,
            echoes=manner.echoes,
        )

    def _question(self, manner: _Manner, request: ModelRequest) -> CountQuestion | None:
        match self._endpoint.counts:
            case "openai":
                base = self._endpoint.base
                return responses.openai_question(request, base, leave_out=manner.leave_out)
            case "gemini":
                return counting.gemini_question(request, self._endpoint.base, self._endpoint.key)
            case _:
                return None

    def _observed(
        self,
        request: ModelRequest,
        manner: _Manner,
        refused: RefusedRequestError,
    ) -> _Manner | None:
        observed = _observed(manner, refused)
        return observed if observed != manner else None


def _observed(manner: _Manner, refused: RefusedRequestError) -> _Manner:
    if type(refused.error) is not ModelRefusedError:
        return manner
    if _WANTS_REASONING.search(refused.refusal.message):
        return replace(manner, echoes=True)
    name = unsupported_parameter(refused.refusal)
    if name == "max_tokens":
        return replace(manner, max_tokens_field="max_completion_tokens")
    return replace(manner, leave_out=manner.leave_out | {name}) if name else manner
