"""Streaming chat completions of OpenAI and of everything that speaks its format."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import ModelRequest, Reply
from everturn_gateway.providers.transport.endpoints import Endpoint, MaxTokensField
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.model_errors import unsupported_parameter
from everturn_gateway.providers.transport.reading import ReplyReader
from everturn_gateway.providers.transport.sight import Sight
from everturn_gateway.providers.transport.sse import EventParser
from everturn_gateway.providers.transport.streaming import RefusedRequestError, Transport, written
from everturn_gateway.providers.transport.wire import BodyWriter

# DeepSeek and Kimi want the thoughts back that led to a call.
_WANTS_REASONING: Final = re.compile(
    r"reasoning_content\W.{0,60}(?:must be passed back|is missing)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manner:
    """How this model wants its requests, as far as is known."""

    max_tokens_field: MaxTokensField
    leave_out: frozenset[str] = frozenset()
    "Parameters that it refuses."
    echoes: bool = False
    "Whether it wants its thoughts back."


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
        self._model = model
        self._origin = endpoint.address
        self._transport = Transport(endpoint, clients=clients, mask=mask, parser=EventParser)
        self._writer = BodyWriter(origin=endpoint.address, vendor=endpoint.vendor)
        self._manner = _Manner(max_tokens_field=endpoint.max_tokens_field)
        self._sight = Sight()

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`.

        A parameter that this model refuses by name (a fixed temperature, no usage in streams, the
        other name of the output limit) is left out from then on and the request sent again. So
        are images; what stands for them says that they are not shown.
        """
        request = self._sight.shown(request)
        while True:
            manner = self._manner
            try:
                return await self._once(request, manner, on_text)
            except RefusedRequestError as refused:
                unseen = self._sight.without(request, refused)
                # Each time less is left to change: who refuses everything is not asked for ever.
                if unseen is None and not self._adapts(manner, refused):
                    raise refused.error from None
                request = unseen or request

    async def window_tokens(self) -> int | None:
        """Return the window of the model as it is served; see `WindowSource.window_tokens`."""
        return await self._transport.window_tokens(self._model)

    async def _once(
        self, request: ModelRequest, manner: _Manner, on_text: Callable[[str], None]
    ) -> Reply:
        where = self._transport.where(request.model)
        reader = ReplyReader(where=where, model=request.model, on_text=on_text, origin=self._origin)
        body = await written(request, partial(self._body, manner))
        return await self._transport.call(body, reader, where)

    def _body(self, manner: _Manner, request: ModelRequest) -> bytes:
        return self._writer.body(
            request,
            max_tokens_field=manner.max_tokens_field,
            leave_out=manner.leave_out,
            echoes=manner.echoes,
        )

    def _adapts(self, manner: _Manner, refused: RefusedRequestError) -> bool:
        """Whether a request that was sent in this manner may pass in the one that is learnt now."""
        learnt = _learnt(manner, refused)
        if learnt != manner and self._manner == manner:
            self._manner = learnt  # else another call has learnt something: that is tried first
        return learnt != manner


def _learnt(manner: _Manner, refused: RefusedRequestError) -> _Manner:
    if type(refused.error) is not ModelRefusedError:
        return manner
    if _WANTS_REASONING.search(refused.refusal.message):
        return replace(manner, echoes=True)
    name = unsupported_parameter(refused.refusal)
    if name == "max_tokens":
        return replace(manner, max_tokens_field="max_completion_tokens")
    return replace(manner, leave_out=manner.leave_out | {name}) if name else manner
