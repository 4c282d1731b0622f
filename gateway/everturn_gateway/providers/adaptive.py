"""One model behind an API, asked in the manner that it takes: what all formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from everturn_actors.errors import ModelError
from everturn_actors.model import ModelRequest, Reply
from everturn_gateway.late_loading import late
from everturn_gateway.providers.transport.parts import Reader
from everturn_gateway.providers.transport.sight import Sight
from everturn_gateway.providers.transport.streaming import (
    RefusedRequestError,
    Transport,
    written,
)

if TYPE_CHECKING:
    from everturn_gateway.providers import counting
    from everturn_gateway.providers.counting.question import CountQuestion
else:
    counting = late("everturn_gateway.providers.counting")

COUNT_TIMEOUT_S: Final = 2.0  # a turn waits for it
_HAS_NO_ROUTE: Final = (
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)

MannerT = TypeVar("MannerT")
"How a model wants its requests, as far as is known; a value that can be compared."


class AdaptiveProvider(ABC, Generic[MannerT]):
    """A `ModelProvider`, `WindowSource`, `PromptCounter` that learns what its model refuses."""

    def __init__(self, transport: Transport, *, model: str, manner: MannerT) -> None:
        """Ask `model` over `transport`, at first in this manner."""
        self._transport, self._model, self._manner = transport, model, manner
        self._sight = Sight()
        self._counts = True
        "False once its server has said that it does not count."

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
                headers = self._headers(manner, request)
                reader = self._reader(request, on_text)
                return await self._transport.call(body, reader, where, headers)
            except RefusedRequestError as refused:
                unseen = self._sight.without(request, refused)
                if unseen is None and not self._adapts(request, manner, refused):
                    raise self._explained(refused) from None
                request = unseen or request

    async def window_tokens(self) -> int | None:
        """Return the window of the model as it is served; see `WindowSource.window_tokens`."""
        return await self._transport.window_tokens(self._model)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what a request would cost; see `PromptCounter.count_tokens`.

        A server that says that it has no such route is not asked again.
        """
        question = self._question(self._manner, request) if self._counts else None
        if question is None:
            return None
        path, headers = question.path, question.headers
        status, answer = await self._transport.asked(path, question.body, headers, COUNT_TIMEOUT_S)
        if status in _HAS_NO_ROUTE:
            self._counts = False
        return counting.counted(answer, question.member) if status == HTTPStatus.OK else None

    def _headers(self, manner: MannerT, request: ModelRequest) -> Mapping[str, str]:
        """Return the headers of a request beside those of every one."""
        del manner, request
        return {}

    def _question(self, manner: MannerT, request: ModelRequest) -> CountQuestion | None:
        """Return how the provider is asked what a request would cost; None where it cannot be."""
        del manner, request
        return None

    @abstractmethod
    def _reader(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reader:
        """Return what makes the reply of its events."""

    @abstractmethod
    def _body(self, manner: MannerT, request: ModelRequest) -> bytes:
        """Return a request in a manner."""

    @abstractmethod
    def _observed(
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
        observed = self._observed(request, manner, refused)
        if observed is not None and self._manner == manner:
            self._manner = observed  # else another call has learnt something: that is tried first
        return observed is not None
