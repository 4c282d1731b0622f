"""Models, and what was learnt about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, cast, runtime_checkable

from msgspec import Struct

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.spec import ModelSpec


class ModelProvider(Protocol):
    """Talks to one model API."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; call `on_text` with each piece of its text as it arrives.

        One try: who retries, and for how long, is decided by the turn. Cancellation closes the
        request. Reply.seq is 0.

        Raises:
            ModelError: One of its kinds, for every failure of the API, with a text that a person
                may read and that holds no secret. Anything else is a fault of the provider, and
                fails this call alone.
        """
        ...


@runtime_checkable
class WindowSource(Protocol):
    """A provider that can say how large its model's window is."""

    async def window_tokens(self) -> int | None:
        """Return the window of the model as it is served, in tokens; None where it is not told.

        Never raises for a server that does not answer; returns within seconds.
        """
        ...


@runtime_checkable
class PromptCounter(Protocol):
    """A provider that can say what a request would cost, without answering it."""

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return how many tokens the prompt of a request has, as its provider counts them.

        None where its server has no such route, or gave no number in time. Never raises for a
        server that does not answer; returns within seconds.
        """
        ...


def counter_of(provider: ModelProvider) -> PromptCounter | None:
    """Return the provider where it can count prompts; else None."""
    return cast("PromptCounter", provider) if _counts(type(provider)) else None


@lru_cache(maxsize=64)  # to look for a method by its protocol takes longer than to render a request
def _counts(kind: type[ModelProvider]) -> bool:
    return issubclass(kind, PromptCounter)


async def counted_by(provider: ModelProvider, request: ModelRequest) -> int | None:
    """Return what `provider` says a request would cost; None where it does not say.

    For whoever wraps a provider: so it counts where what it wraps does.
    """
    counter = counter_of(provider)
    return None if counter is None else await counter.count_tokens(request)


class ModelStatisticsStore(Protocol):
    """What was learnt about models, across sessions and restarts."""

    def of(self, model: ModelSpec) -> ModelStatistics:
        """Return what is known of a model now; of one that was never used, what its name tells.

        Hints that have expired are marked as over.
        """
        ...

    def record(self, model: ModelSpec, statistics: ModelStatistics) -> None:
        """Remember `statistics`; where they are kept on disk, that happens later."""
        ...


class Summariser(Struct, frozen=True, kw_only=True):
    """The model that writes summaries."""

    provider: ModelProvider
    model: ModelSpec
