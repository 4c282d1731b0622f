"""A call that a server works on, and what the server asks whoever waits for it."""

from __future__ import annotations

from collections import deque

import anyio
from msgspec import Struct, field

from everturn_gateway.tools.mcp.errors import McpError
from everturn_gateway.tools.mcp.requests.values import (
    RefusedError,
    Respond,
    Response,
    Result,
    Sent,
    ServerRequest,
)


class CallToMake(Struct, frozen=True, kw_only=True):
    """A call, as its server gets it."""

    name: str
    arguments: dict[str, object]
    respond: Respond
    sent: Sent


class _Asked(Struct, kw_only=True):
    """What a server asks while a call is open."""

    request: ServerRequest
    settled: anyio.Event = field(default_factory=anyio.Event)
    withdrawn: anyio.Event = field(default_factory=anyio.Event)
    "The server does not wait any more."
    response: Response | None = None
    error: RefusedError | None = None

    async def settle(self, respond: Respond) -> None:
        """Answer it."""
        try:
            self.response = await respond(self.request, self.withdrawn)
        except RefusedError as error:
            self.error = error
        finally:
            self.settled.set()


class PendingCall(Struct, kw_only=True):
    """A call that somebody waits for."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    moved: anyio.Event = field(default_factory=anyio.Event)
    "The server asks something, or it is done."
    asked: deque[_Asked] = field(default_factory=deque["_Asked"])
    answer: Result | None = None
    error: McpError | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, or there will be none."""
        return self.answer is not None or self.error is not None

    def leave(self) -> None:
        """Wait no more: the call is called off, and what its server asks gets no answer."""
        self.scope.cancel()
        for each in self.asked:
            each.settled.set()

    async def until_done(self, respond: Respond, timeout_s: float) -> None:
        """Wait for the answer, and answer what the server asks before it; no longer than it may.

        While it waits for us, its time stands still.
        """
        left_s = timeout_s
        while not self.is_done:
            began = anyio.current_time()
            with anyio.move_on_after(left_s):
                await self.moved.wait()
            left_s -= anyio.current_time() - began
            self.moved = anyio.Event()
            if not self.asked:
                return
            while self.asked and not self.is_done:
                await self.asked.popleft().settle(respond)

    async def ask(self, request: ServerRequest) -> Response:
        """Have whoever waits for the call answer what its server asks.

        Raises:
            RefusedError: It is refused.
        """
        asked = _Asked(request=request)
        self.asked.append(asked)
        self.moved.set()
        try:
            await asked.settled.wait()
        finally:
            asked.withdrawn.set()
        if asked.response is None:
            raise asked.error or RefusedError("nobody answered")
        return asked.response


async def refuse_all(request: ServerRequest, _: anyio.Event) -> Response:
    """Refuse what a server asks where no tool is called.

    Raises:
        RefusedError: Always.
    """
    msg = f"{request.method} is answered in calls of tools alone"
    raise RefusedError(msg)
