"""How many calls a provider gets at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import anyio

from everturn_actors.errors import ModelTransientError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.ports import ModelProvider, WindowSource

# The engine answers one request after another; those that wait here can be cancelled at no cost,
# and two models on this machine do not halve each other's speed.
DEFAULT_LIMITS: Final[Mapping[str, int]] = {"local": 1}
WAITING_MAX: Final = 1000  # calls of one provider; more than that never get their turn in time


class ConcurrencyLimits:
    """The limits of all providers of a gateway. Made in the event loop that uses them."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        """Take the limits by provider's name; `DEFAULT_LIMITS` hold for those not named."""
        self._places = {
            name: anyio.Semaphore(count, max_value=count)
            for name, count in {**DEFAULT_LIMITS, **limits}.items()
        }

    def limited(self, name: str, provider: ModelProvider) -> ModelProvider:
        """Return a model of the provider `name`, which waits where its limit is reached."""
        places = self._places.get(name)
        return provider if places is None else Limited(provider, name=name, places=places)


class Limited:
    """A `ModelProvider` and `WindowSource` whose calls wait for a place, the longest first.

    Waiting counts against the deadline of the call, and can be cancelled.
    """

    def __init__(self, provider: ModelProvider, *, name: str, places: anyio.Semaphore) -> None:
        self._provider = provider
        self._name = name
        self._places = places

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`.

        Raises:
            ModelTransientError: Too many calls wait already.
        """
        if self._places.statistics().tasks_waiting >= WAITING_MAX:
            msg = f"{WAITING_MAX} calls wait for the provider {self._name} already"
            raise ModelTransientError(msg)
        async with self._places:
            return await self._provider.complete(request, on_text)

    async def window_tokens(self) -> int | None:
        """Return the window; see `WindowSource.window_tokens`."""
        if isinstance(self._provider, WindowSource):
            return await self._provider.window_tokens()
        return None
