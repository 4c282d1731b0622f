"""Several keys of one provider: one is used until it is refused or limited, then the next.

Nothing here is asked where a provider has one key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.errors import (
    ModelAuthError,
    ModelError,
    QuotaExhaustedError,
    RateLimitedError,
)
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.ports import counted_by
from everturn_gateway.providers.fallbacks import MAX_ASKED_S, Shown
from everturn_gateway.providers.inquiry import Asked

logger = logging.getLogger(__name__)

SHARED: Final = "everturn keys"
"By which name the providers of a gateway share their `KeyRings`."
REFUSED_S: Final = 600.0  # a key that was refused may be let in again, and money be paid in
LIMITED_S: Final = 10.0  # where the provider does not say how long


class _Rest(Struct):
    """What is known of one key."""

    until: float = 0.0
    "It is left alone until then."
    failures: int = 0
    "Ever; a call that began before one of them says nothing of the key any more."
    refused: str = ""
    "What is wrong with it; empty = nothing is, or it was only used too much."


class KeyRing:
    """The keys of one provider at one address, and which of them is used; all its models share it.

    A key is known by its position, from 0 on; the keys themselves stand in no text.
    """

    def __init__(self, label: str, count: int, now: Callable[[], float]) -> None:
        """Begin with the first key, and all of them good."""
        self.label = label
        "Of the provider and its address."
        self._now = now
        self._rests = [_Rest() for _ in range(count)]
        self.current = 0
        "The position of the key in use."

    def order(self) -> Sequence[int]:
        """Return the positions to ask with, the one in use first.

        A key that rests is left out; where all do, the one that rests the shortest is asked.
        """
        count = len(self._rests)
        ring = [(self.current + step) % count for step in range(count)]
        free = [each for each in ring if self._rests[each].until <= self._now()]
        return free or [min(ring, key=lambda each: self._rests[each].until)]

    def begin(self, position: int) -> int:
        """Return what `took` is to be told of a call with this key."""
        return self._rests[position].failures

    def took(self, position: int, begun: int) -> None:
        """Go on with a key that was taken, unless it failed since the call began."""
        rest = self._rests[position]
        if rest.failures == begun:
            rest.until, rest.refused = 0.0, ""
            self.current = position

    def failed(self, position: int, error: ModelError) -> None:
        """Let a key rest: as long as the provider asks for, or until it may be let in again."""
        if len(self._rests) == 1:
            return  # there is no other one: its caller tells what is wrong
        rest = self._rests[position]
        rest.failures += 1
        if isinstance(error, RateLimitedError):
            asked_s = LIMITED_S if error.retry_after_s is None else error.retry_after_s
            rest.until, rest.refused = self._now() + min(asked_s, MAX_ASKED_S), ""
        else:
            is_spent = isinstance(error, QuotaExhaustedError)
            rest.until = self._now() + REFUSED_S
            rest.refused = "has no money or quota left" if is_spent else "is refused"
        logger.warning(
            "a key of a provider is not taken",
            extra={
                "provider": self.label,
                "key": self.name(position),
                "error": type(error).__name__,
                "rests_s": round(rest.until - self._now(), 1),
            },
        )

    def wait_s(self) -> float | None:
        """Return in how many seconds the first key can be used again that is good.

        None where none is.
        """
        ends = [rest.until for rest in self._rests if not rest.refused]
        return max(min(ends) - self._now(), 0.0) if ends else None

    def name(self, position: int) -> str:
        """Return how people are told of a key: `2 of 3`."""
        return f"{position + 1} of {len(self._rests)}"

    def refused(self) -> tuple[str, ...]:
        """Return which keys cannot be used, a line each."""
        return tuple(
            f"{self.label}: key {self.name(position)} {rest.refused}; replace it"
            for position, rest in enumerate(self._rests)
            if rest.refused
        )


class KeyRings:
    """The rings of a gateway, kept in memory."""

    def __init__(self, now: Callable[[], float] = anyio.current_time) -> None:
        """Begin with none; `now` tells the time in seconds and never goes back."""
        self._now = now
        self._rings: dict[str, tuple[Sequence[str], KeyRing]] = {}

    def of(self, provider: str, address: str, keys: Sequence[str]) -> KeyRing:
        """Return the ring of these keys; other keys than before begin a new one."""
        label = f"{provider} at {address}"
        known, ring = self._rings.get(label, ((), None))
        if ring is None or known != keys:
            ring = KeyRing(label, len(keys), self._now)
            self._rings[label] = keys, ring
        return ring

    def refused(self) -> tuple[str, ...]:
        """Return which keys cannot be used, a line each."""
        return tuple(line for _, ring in self._rings.values() for line in ring.refused())


class Rotating:
    """A model that is asked with one of several keys; see `Asked`.

    A key that is refused, has no money left or is limited gives way to the next at once, unless a
    piece of the reply was passed on: what was shown cannot be taken back.
    """

    def __init__(self, adapters: Sequence[Asked], ring: KeyRing) -> None:
        """Take an adapter for each key, in the order of the ring."""
        self._adapters, self._ring = adapters, ring

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`.

        Raises:
            RateLimitedError: No key is taken now; it says when the first may be.
            ModelError: None is taken, and waiting does not help; or something else is wrong.
        """
        last: ModelError | None = None
        for position in self._ring.order():
            shown, begun = Shown(on_text), self._ring.begin(position)
            try:
                reply = await self._adapters[position].complete(request, shown)
            except (ModelAuthError, QuotaExhaustedError, RateLimitedError) as error:
                self._ring.failed(position, error)
                if shown.any:
                    raise
                last = error
            else:
                self._ring.took(position, begun)
                return reply
        assert last is not None  # an order has a position at least
        text, wait_s = f"{last}; no other key is taken now either", self._ring.wait_s()
        if wait_s is not None:
            raise RateLimitedError(text, retry_after_s=wait_s) from last
        raise last.with_text(text) from last

    async def window_tokens(self) -> int | None:
        """Return the window, asked with the key in use; see `WindowSource.window_tokens`."""
        return await self._adapters[self._ring.current].window_tokens()

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what a request would cost; see `PromptCounter.count_tokens`."""
        return await counted_by(self._adapters[self._ring.current], request)
