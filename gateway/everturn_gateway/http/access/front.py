"""What every request of a listener meets first, in one place. Plain ASGI.

It is counted and timed, its caller is found, limits hold for it, and a fault of what is behind is
answered. A layer for each of these costs a turn's request and both messages of its answer as much
again as what it does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import anyio
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everturn_actors.scopes import loop_time
from everturn_actors.supervisor import UnexpectedEndError, attempt
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.access.guard import Guard
from everturn_gateway.http.limits import BodyLimits, BodyTooLargeError, late, too_large
from everturn_gateway.http.problems import INTERNAL, STOPPING, problem_response
from everturn_gateway.http.waiting import DEADLINE, OpenWaits
from everturn_gateway.telemetry.requests import LEFT, RequestCounts

GRACE_S = 10.0  # after its deadline, for a route to answer by itself
DRAIN_BYTES = 32 * 1024 * 1024  # of a refused body that are read away
DRAIN_S = 5.0
GIVE_UP_EVERY_S = 1.0


class Front:
    """Lets requests in, and notes what becomes of them."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        takes_posts: Callable[[], ASGIApp | None],
        counts: RequestCounts,
        guard: Guard,
        server: ServerConfig,
        waits: OpenWaits,
    ) -> None:
        """Stand in front of the API.

        Args:
            app: Probes, pages and the API.
            takes_posts: The API, once it is loaded: what is posted is for nothing else, and goes
                past the others.
            counts: What is known of all requests.
            guard: Says who asks, and turns others away.
            server: Says how large a body may be, and how long until an answer has to begin; a
                stream then runs as long as it likes.
            waits: Tells whether the server goes down.
        """
        self._app, self._counts, self._guard = app, counts, guard
        self._takes_posts = takes_posts
        self._limits, self._timeout_s = BodyLimits.by(server), server.request_timeout_s
        self._waits = waits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive=receive, send=send, limit_bytes=self._limits.of(scope))
        counts, began_s = self._counts, time.perf_counter()
        counts.in_flight += 1
        try:
            refusal = await self._guard.refusal(scope)
            if refusal is not None:
                await problem_response(refusal, scope)(scope, receive, exchange.write)
            else:
                await self._let_in(scope, exchange)
        except Exception:
            if not exchange.status:
                await problem_response(INTERNAL, scope)(scope, receive, exchange.write)
            raise  # the server logs it with its traceback
        finally:
            counts.in_flight -= 1
            took_s = time.perf_counter() - began_s
            counts.ended(scope, str(exchange.status) if exchange.status else LEFT, took_s)

    async def _let_in(self, scope: Scope, exchange: _Exchange) -> None:
        """Have a request answered within its time; a body that is too large is not read."""
        if self._limits.declared(scope) > exchange.limit_bytes:
            exchange.too_large = True
            answer = problem_response(too_large(exchange.limit_bytes), scope)
            await answer(scope, exchange.read, exchange.write)
            return
        app = self._takes_posts() if scope["method"] == "POST" else None
        scope[DEADLINE] = loop_time() + self._timeout_s
        exchange.expect_until(scope[DEADLINE] + GRACE_S)
        try:
            # A cancellation that nobody here asked for is a fault: without that the client would
            # get no answer at all.
            failure = await attempt(partial(app or self._app, scope, exchange.read, exchange.write))
        finally:
            exchange.expect_no_more()
        if exchange.is_late:
            exchange.take_back()
            answer = problem_response(late(self._timeout_s), scope)
            await answer(scope, exchange.receive, exchange.answer_late)
        elif (
            isinstance(failure, UnexpectedEndError) and self._waits.stopping and not exchange.status
        ):  # the last requests of a server that stops are cancelled
            await problem_response(STOPPING, scope)(scope, exchange.read, exchange.write)
        elif failure is not None:
            raise failure


class _Exchange(Struct):
    """One request and its answer on their way through."""

    receive: Receive
    send: Send
    limit_bytes: int
    size_bytes: int = 0
    too_large: bool = False
    status: int = 0
    "Of the answer; 0 = it has not begun."
    is_late: bool = False
    "Whether it was given up, as its time was over."
    task: asyncio.Task[object] | None = None
    timer: asyncio.TimerHandle | None = None

    def expect_until(self, deadline: float) -> None:
        """Give it up where no answer has begun by then.

        By a timer, and not a scope: it is never due, as routes answer in time by themselves, and a
        scope, the first of its task, takes as long as to read and to check a message.
        """
        self.task = asyncio.current_task()
        self.timer = asyncio.get_running_loop().call_at(deadline, self.give_up)

    def expect_no_more(self) -> None:
        """Let it take the time that it takes."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def give_up(self) -> None:
        """End the work on it; again after a while where it goes on all the same."""
        self.is_late = True
        self.timer = asyncio.get_running_loop().call_later(GIVE_UP_EVERY_S, self.give_up)
        if self.task is not None:
            self.task.cancel()

    def take_back(self) -> None:
        """Cancel the task no more: it goes on with the answer that says so."""
        while self.task is not None and self.task.uncancel():
            pass

    async def read(self) -> Message:
        message = await self.receive()
        self.size_bytes += len(message.get("body", b""))
        if self.size_bytes > self.limit_bytes:
            self.too_large = True
            raise BodyTooLargeError(self.limit_bytes)
        return message

    async def write(self, message: Message) -> None:
        if self.is_late:
            return  # what came of having been given up is no answer
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.expect_no_more()
        elif self.too_large and not message.get("more_body", False):
            await self.send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self.send(message)

    async def answer_late(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self.send(message)

    async def _drain(self) -> None:
        """Read the rest of a refused body away.

        A connection that is closed on a client which still sends is reset, and the client may
        never see the answer.
        """
        drained_bytes = 0
        with anyio.move_on_after(DRAIN_S):
            while drained_bytes < DRAIN_BYTES:
                message = await self.receive()
                drained_bytes += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
