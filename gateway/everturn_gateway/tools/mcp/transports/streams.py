"""What goes over an MCP connection, whichever way it goes: bounded, and cut at once.

Imports `mcp`, which takes half a second: nothing but `wire` and the transports imports this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

UNASKED_MOST: Final = 10_000  # messages of a server between two answers; a busy one sends hundreds
REQUESTS_MOST: Final = 32  # of a server that wait for our answer at the same time
SEND_S: Final = 10.0  # until a server has taken a message from us
CANCEL_S: Final = 0.5  # the same, where it says that nobody waits for an answer any more

Item: TypeAlias = SessionMessage | Exception


class Receiving(Protocol):
    """Where a transport's messages come from."""

    async def receive(self) -> Item:
        """Return the next message, or what was wrong with one."""
        ...

    async def aclose(self) -> None:
        """Take no more."""
        ...


class Sending(Protocol):
    """Where a transport takes messages."""

    async def send(self, item: SessionMessage, /) -> None:
        """Return when the message is on its way."""
        ...

    async def aclose(self) -> None:
        """Send no more."""
        ...


class Traffic:
    """How much goes over one connection, and why it came to its end."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._unasked = self._requests = 0
        self.why = ""
        "Why the connection ended; empty while it has not."
        self.words = ""
        "What the server said at its end."

    def end(self, why: str, words: str = "") -> None:
        """Say that the connection has ended; the first reason is the one that counts."""
        if not self.why:
            self.why, self.words = why, words
            self._on_end()

    def came(self, item: Item) -> bool:
        """Count a message of the server; return False for one too many."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._unasked = 0
            return True
        self._unasked += 1
        if isinstance(message, JSONRPCRequest):
            self._requests += 1
        if self._unasked > UNASKED_MOST or self._requests > REQUESTS_MOST:
            self.end("it floods the gateway with messages that nobody asked for")
            return False
        return True

    def went(self, item: SessionMessage) -> None:
        """Count a message to the server."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._requests -= 1


class _Closing(ABC):
    """Is closed at the end of its block, as the client expects of a stream."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class Incoming(_Closing):
    """The messages of a server, until it ends or floods us; the read stream of the client."""

    def __init__(self, inner: Receiving, traffic: Traffic) -> None:
        self._inner, self._traffic = inner, traffic

    async def receive(self) -> Item:
        """Return the next message.

        Raises:
            anyio.EndOfStream: There are no more.
        """
        try:
            item = await self._inner.receive()
        except anyio.EndOfStream:
            self._traffic.end("it ended the connection")
            raise
        if not self._traffic.came(item):
            raise anyio.EndOfStream
        return item

    @property
    def last_context(self) -> Context | None:
        """In which the newest message came; None where the transport does not say."""
        found: object = getattr(self._inner, "last_context", None)
        return found if isinstance(found, Context) else None

    async def aclose(self) -> None:
        """Take no more."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def _cancels(item: SessionMessage) -> bool:
    message = item.message
    return isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled"


class Outgoing(_Closing):
    """The messages to a server; the write stream of the client.

    A server that takes nothing holds up nobody: each message has a deadline, and `cut` ends those
    that still wait, so that a connection can be closed whatever is on its way.
    """

    def __init__(self, inner: Sending, traffic: Traffic) -> None:
        self._inner, self._traffic = inner, traffic
        self._waiting: set[anyio.CancelScope] = set()
        self._is_cut = False

    def cut(self) -> None:
        """Refuse every message from now on, and those that still wait."""
        self._is_cut = True
        for scope in self._waiting:
            scope.cancel()

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message.

        Raises:
            anyio.BrokenResourceError: The server does not take it.
        """
        if self._is_cut:
            raise anyio.BrokenResourceError
        with anyio.move_on_after(CANCEL_S if _cancels(item) else SEND_S) as scope:
            self._waiting.add(scope)
            try:
                await self._inner.send(item)
                self._traffic.went(item)
                return
            finally:
                self._waiting.discard(scope)
        if anyio.current_time() >= scope.deadline and not _cancels(item):
            self._traffic.end("it takes no more messages")
        raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Send no more."""
        self._is_cut = True
        await self._inner.aclose()
