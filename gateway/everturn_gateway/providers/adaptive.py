"""One model behind an API, asked in the manner that it takes: what all formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from everturn_actors.errors import ModelError
from everturn_actors.model import ModelRequest, Reply
from everturn_gateway.providers.transport.parts import Reader
from everturn_gateway.providers.transport.sight import Sight
from everturn_gateway.providers.transport.streaming import (
    RefusedRequestError,
    Transport,
    written,
)

MannerT = TypeVar("MannerT")
"How a model wants its requests, as far as is known; a value that can be compared."


class AdaptiveProvider(ABC, Generic[MannerT]):
    """A `ModelProvider` and a `WindowSource` that learns from what its model refuses."""

    def __init__(self, transport: Transport, *, model: str, manner: MannerT) -> None:
        """Ask `model` over `transport`, at first in this manner."""
        self._transport, self._model, self._manner = transport, model, manner
        self._sight = Sight()

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`.

        What the model refuses (a parameter, a way to think, images, ...) is done without from then
        on, and the request sent again; what stands for images says that they are not shown.
        """
        request = self._sight.shown(request)
        while True:
            manner = self._manner
            try:
                where = self._transport.where(request.model)
                body = await written(request, partial(self._body, manner))
                return await self._transport.call(body, self._reader(request, on_text), where)
            except RefusedRequestError as refused:
                unseen = self._sight.without(request, refused)
                if unseen is None and not self._adapts(request, manner, refused):
                    raise self._explained(refused) from None
                request = unseen or request

    async def window_tokens(self) -> int | None:
        """Return the window of the model as it is served; see `WindowSource.window_tokens`."""
        return await self._transport.window_tokens(self._model)

    @abstractmethod
    def _reader(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reader:
        """Return what makes the reply of its events."""

    @abstractmethod
    def _body(self, manner: MannerT, request: ModelRequest) -> bytes:
        """Return a request in a manner."""

    @abstractmethod
    def _learnt(
        self, request: ModelRequest, manner: MannerT, refused: RefusedRequestError
    ) -> MannerT | None:
        """Return the manner that a refusal asks for; None where it is about something else.

        Each time less is left to change, so that a server that refuses everything is not asked
        for ever.
        """

    def _explained(self, refused: RefusedRequestError) -> ModelError:
        """Return the error of a request that nothing can be changed about."""
        return refused.error

    def _adapts(self, request: ModelRequest, manner: MannerT, refused: RefusedRequestError) -> bool:
        learnt = self._learnt(request, manner, refused)
        if learnt is not None and self._manner == manner:
            self._manner = learnt  # else another call has learnt something: that is tried first
        return learnt is not None
