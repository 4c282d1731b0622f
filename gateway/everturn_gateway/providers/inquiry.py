"""Asking a provider, after the first call to a model, how large its window is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from anyio.abc import TaskGroup

from everturn_actors.context.estimation.hints import with_window
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.errors import ContextOverflowError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.ports import (
    ModelProvider,
    ModelStatisticsStore,
    WindowSource,
    counted_by,
)
from everturn_actors.spec import ModelSpec
from everturn_actors.supervisor import contain

logger = logging.getLogger(__name__)

_ASKS_MAX = 3  # of a server that does not tell: it may have been too busy to answer


class Asked(ModelProvider, WindowSource, Protocol):
    """A provider that can say how large its model's window is."""


class Inquiry:
    """Finds out one model's window and remembers it; shared by all agents with this model."""

    def __init__(self, *, model_statistics: ModelStatisticsStore, tasks: TaskGroup) -> None:
        self._model_statistics = model_statistics
        self._tasks = tasks
        self._asks = 0
        self._asking = False

    def begin(self, source: WindowSource, model: ModelSpec) -> None:
        """Ask, unless that was done, or often enough in vain. Returns at once."""
        if not self._asking and self._asks < _ASKS_MAX:
            self._asking = True
            ask = partial(self._ask, source, model)
            self._tasks.start_soon(contain, f"window of {model.name}", ask)

    async def _ask(self, source: WindowSource, model: ModelSpec) -> None:
        self._asks += 1
        try:
            told = await source.window_tokens()
        finally:
            self._asking = False
        if told is None:
            return
        self._asks = _ASKS_MAX
        statistics = with_window(self._model_statistics.of(model), told)
        self._model_statistics.record(model, statistics)
        taken = input_window(model, statistics)
        if taken > told:  # some servers cut a longer request without a word
            logger.warning(
                "model is served with a smaller window than its agent says",
                extra={"model": model.name, "served_tokens": told, "agent_tokens": taken},
            )


class Inquiring:
    """A `ModelProvider` whose first call is followed by an inquiry, which delays and fails nothing.

    Not sooner: some servers load a model with the first call, and only then know its window.
    """

    def __init__(self, provider: Asked, *, model: ModelSpec, inquiry: Inquiry) -> None:
        self._provider = provider
        self._model = model
        self._inquiry = inquiry

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`."""
        try:
            reply = await self._provider.complete(request, on_text)
        except ContextOverflowError:
            self._inquiry.begin(self._provider, self._model)
            raise
        self._inquiry.begin(self._provider, self._model)
        return reply

    async def window_tokens(self) -> int | None:
        """Return the window; see `WindowSource.window_tokens`."""
        return await self._provider.window_tokens()

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what a request would cost; see `PromptCounter.count_tokens`."""
        return await counted_by(self._provider, request)
