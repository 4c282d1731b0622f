"""HTTP to an application in the same process: no socket, and answers that come piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import httpx2
from anyio.abc import TaskGroup
from starlette.types import ASGIApp, Message, Receive, Send

from everturn_actors.supervisor import attempt

LEAVE_S: Final = 2.0  # for the application to see that its client left
_PIECES: Final = 64  # of an answer that wait for their reader; then the application waits


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Hands requests to an ASGI application in the same event loop.

    httpx2's own collects the whole answer before it returns it: nobody could follow a session
    through that. What the application raises is raised here.
    """

    def __init__(self, app: ASGIApp, tasks: TaskGroup) -> None:
        """Prepare.

        Args:
            app: What answers.
            tasks: Where it runs, a task for each request.
        """
        self._app = app
        self._tasks = tasks

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer as soon as it begins.

        Raises:
            RemoteProtocolError: There is none: the application was cancelled.
        """
        exchange = _Exchange(await request.aread())
        self._tasks.start_soon(exchange.run, partial(self._app, _scope(request)))
        try:
            await exchange.started.wait()
        except anyio.get_cancelled_exc_class():
            await exchange.aclose()
            raise
        if exchange.status:
            return httpx2.Response(exchange.status, headers=exchange.headers, stream=exchange)
        await exchange.aclose()
        if exchange.failure is not None:
            raise exchange.failure
        msg = "the gateway closed before it answered"
        raise httpx2.RemoteProtocolError(msg)


class _Exchange(httpx2.AsyncByteStream):
    """One request and its answer, which is read while the application still writes it."""

    def __init__(self, body: bytes) -> None:
        self.started = anyio.Event()
        "The answer has begun, or there will be none."
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.failure: Exception | None = None
        "What the application raised, once it is done."
        self._body: bytes | None = body
        self._left, self._done = anyio.Event(), anyio.Event()
        self._scope = anyio.CancelScope()
        self._writer, self._reader = anyio.create_memory_object_stream[bytes](_PIECES)

    async def run(self, app: Callable[[Receive, Send], Awaitable[None]]) -> None:
        """Have an application that has its scope answer."""
        try:
            with self._scope:
                self.failure = await attempt(partial(app, self._receive, self._send))
        finally:
            self._writer.close()
            self.started.set()
            self._done.set()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
            self.started.set()
        elif message.get("body") and not self._left.is_set():
            with suppress(anyio.BrokenResourceError):  # the client left meanwhile
                await self._writer.send(message["body"])

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield the body as it comes; then raise what the application raised behind it."""
        async for piece in self._reader:
            yield piece
        if self.failure is not None:
            raise self.failure

    async def aclose(self) -> None:
        """Leave: the application sees it as it sees a closed connection."""
        self._left.set()
        self._reader.close()
        with anyio.move_on_after(LEAVE_S, shield=True):
            await self._done.wait()
        self._scope.cancel()


def _scope(request: httpx2.Request) -> dict[str, object]:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "root_path": "",
        "server": (url.host, url.port),
        "client": None,
    }
