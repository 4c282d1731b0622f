"""How many calls a provider gets at the same time; the others wait for their place.

This is the only place where a call waits for a limit of our own. The pools of connections have
none, as a call that finds no connection in time would fail, and with it its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.model import ModelRequest, Reply
from everturn_actors.ports import ModelProvider, WindowSource, counted_by
from everturn_actors.turn.call_status import waiting

# The engine answers one request after another; those that wait here can be cancelled at no cost,
# and two models on this machine do not halve each other's speed.
CALLS_PER_ADDRESS: Final = 256  # where the owner says nothing; each is a connection


class QueueLoad(Struct, frozen=True, kw_only=True):
    """How full one queue is at a moment."""

    name: str
    "Of a provider, or the address that is called."
    limit: int
    running: int
    waiting: int


class CallQueue:
    """So many calls at a time; further ones wait, the longest first.

    A call that nobody waits for, such as a summary's, begins only when no other one waits.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        setting: str,
        on_wait: Callable[[str, float], None],
    ) -> None:
        """Begin empty.

        Args:
            name: Of a provider, or the address that is called.
            limit: How many calls at a time.
            setting: What raises the limit, for people who wait.
            on_wait: Told of each call that begins: this queue's name, seconds that it waited.
        """
        self.name, self.limit = name, limit
        self._setting = setting
        self._on_wait = on_wait
        self._running = 0
        # Of those who wait, the events that give them their places.
        self._urgent: deque[anyio.Event] = deque()
        self._background: deque[anyio.Event] = deque()

    def load(self) -> QueueLoad:
        """Return how full it is now."""
        return QueueLoad(
            name=self.name,
            limit=self.limit,
            running=self._running,
            waiting=len(self._urgent) + len(self._background),
        )

    def take(self) -> bool:
        """Take a place if one is free, which has to be given back with `leave`."""
        if self._running >= self.limit:  # else nobody waits: a free place is always given away
            return False
        self._running += 1
        self._on_wait(self.name, 0.0)
        return True

    async def wait(self, *, in_background: bool) -> None:
        """Wait for a place where none is free; it has to be given back with `leave`."""
        began_s = anyio.current_time()
        await self._wait(self._background if in_background else self._urgent)
        self._on_wait(self.name, anyio.current_time() - began_s)

    async def _wait(self, line: deque[anyio.Event]) -> None:
        given = anyio.Event()
        line.append(given)
        try:
            with waiting(
                f"a free place for a call to {self.name}: {self.limit} are under way, which is all"
                f" that may be at a time ({self._setting})"
            ):
                await given.wait()
        except BaseException:
            if given.is_set():  # in the same moment: somebody else can have it
                self.leave()
            else:
                line.remove(given)
            raise

    def leave(self) -> None:
        """Give the place to who waits longest; who does not wait for it could overtake him."""
        line = self._urgent or self._background
        if line:
            line.popleft().set()
        else:
            self._running -= 1


def unnoted(_name: str, _waited_s: float) -> None:
    """Take note of nothing."""


class ConcurrencyLimits:
    """The limits of all providers of a gateway. Made in the event loop that uses them."""

    def __init__(
        self, limits: Mapping[str, int], on_wait: Callable[[str, float], None] = unnoted
    ) -> None:
        """Take the owner's limits by provider's name.

        A provider without one has `CALLS_PER_ADDRESS` at each address. `on_wait` is told of each
        call that begins: the name of its queue, and how many seconds it waited.
        """
        self._limits = limits
        self._on_wait = on_wait
        self._queues: dict[str, CallQueue] = {}

    def limited(
        self, name: str, provider: ModelProvider, address: str = "", *, usual: int | None = None
    ) -> ModelProvider:
        """Return a model of the provider `name`, which waits where its limit is reached.

        Args:
            name: The provider's.
            provider: The model.
            address: Where it is called (scheme, host and port); empty = it is in this process.
            usual: The limit where its owner says none.
        """
        limit = self._limits.get(name, usual)
        if limit is not None:
            return Limited(provider, queue=self._queue(name, limit, name))
        if not address:
            return provider
        return Limited(provider, queue=self._queue(address, CALLS_PER_ADDRESS, name))

    def loads(self) -> tuple[QueueLoad, ...]:
        """Return how full each queue is now."""
        return tuple(queue.load() for queue in self._queues.values())

    def _queue(self, name: str, limit: int, provider: str) -> CallQueue:
        if name not in self._queues:
            self._queues[name] = CallQueue(
                name,
                limit,
                setting=f"providers.{provider}.max_concurrent",
                on_wait=self._on_wait,
            )
        return self._queues[name]


class Limited:
    """A `ModelProvider` and `WindowSource` whose calls wait for a place, the longest first.

    Waiting counts against the deadline of the call, and can be cancelled.
    """

    def __init__(self, provider: ModelProvider, *, queue: CallQueue) -> None:
        self._provider = provider
        self._queue = queue

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`."""
        queue = self._queue
        if not queue.take():
            await queue.wait(in_background=request.in_background)
        try:
            return await self._provider.complete(request, on_text)
        finally:
            queue.leave()

    async def window_tokens(self) -> int | None:
        """Return the window; see `WindowSource.window_tokens`."""
        if isinstance(self._provider, WindowSource):
            return await self._provider.window_tokens()
        return None

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what a request would cost; see `PromptCounter.count_tokens`. It waits for none."""
        return await counted_by(self._provider, request)
