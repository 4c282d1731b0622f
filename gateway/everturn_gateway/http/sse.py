"""The one writer of server-sent events.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11).
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final, TypeAlias

import anyio
import orjson
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from everturn_gateway.http.waiting import OpenWaits, disconnected

KEEP_ALIVE_S = 15.0  # proxies commonly cut a connection that is silent for 60 s
BURST_S = 0.001  # what is written at once within it is joined
RETRY_MS = 1000  # how long a client waits before it connects again
_COMMENT = b": keep-alive\n\n"

WriteNow: TypeAlias = Callable[[bytes], bool]
"""Sends a piece of an answer that has begun. False = not without waiting, or not at all: then the
piece goes the usual way."""
WRITE_NOW: Final = "everturn.write_now"  # in the ASGI scope, where the server has such a thing


def message(event: str, data: Mapping[str, object], *, seq: int = 0, cursor: str = "") -> bytes:
    """Return one message; its id, which a client sends back as `Last-Event-ID`, is one of the two.

    Args:
        event: What it is.
        data: What it says.
        seq: The number of an event, as its id; 0 = none.
        cursor: A place in a stream that has more than one number, as its id; empty = none.
    """
    number = b"id: %d\n" % seq if seq else b""
    if cursor:
        number = b"id: %b\n" % cursor.encode()
    # orjson writes no line breaks, so the data is always one line.
    return b"event: %b\n%bdata: %b\n\n" % (event.encode(), number, orjson.dumps(data))


def greeting() -> bytes:
    """Return what begins a stream: how soon to connect again when it breaks."""
    return b"retry: %d\n\n" % RETRY_MS


class Silence(Struct, frozen=True, kw_only=True):
    """What is sent where there is nothing to tell: proxies close connections without a byte."""

    longest_s: float = KEEP_ALIVE_S
    "Something is sent before so much time is over."
    says: Callable[[], bytes] = bytes
    "Gives what there is to say in place of a comment; empty = nothing."


_PLAIN: Final = Silence()


class EventStream(Response):
    """Sends messages as they come, and a comment when it would be silent for too long.

    What its source writes in the moment it comes wakes no task, and passes no layer between here
    and the connection.

    It ends with its source, when the client goes, or when the server stops.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        source: Callable[[WriteNow], AsyncGenerator[bytes]],
        waits: OpenWaits,
        *,
        on_leave: Callable[[], Awaitable[None]] | None = None,
        farewell: bytes = b"",
        headers: Mapping[str, str] | None = None,
        silence: Silence = _PLAIN,
    ) -> None:
        """Prepare the answer.

        Args:
            source: Makes the messages; it is closed when the stream ends. While it waits for the
                next one, it may write by what it is given.
            waits: Ends the stream when the server stops.
            on_leave: Called when the client goes before the source has ended.
            farewell: For a stream that ends with a turn: a stopping server gives it time, and
                ends it with this where that was not enough.
            headers: Further headers.
            silence: What is sent where the source has nothing.
        """
        super().__init__(
            headers={
                "Cache-Control": "no-cache, no-transform",
                "X-Accel-Buffering": "no",  # nginx would hold it until it is over
                **(headers or {}),
            }
        )
        del self.headers["content-length"]  # nobody knows it
        self._source = source
        self._waits = waits
        self._on_leave = on_leave
        self._farewell = farewell
        self._silence = silence
        self._sent = 0
        self._written_s = 0.0
        self._left = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream.

        Raises:
            ProblemError: It is a follower's, and there is no room for one; nothing was sent.
        """
        self._direct: WriteNow | None = scope.get(WRITE_NOW)
        # Closed here, whatever ends the request.
        async with aclosing(self._source(self._write_now)) as source:
            with self._waits.waiter() if self._farewell else self._waits.follower() as wait:
                with anyio.CancelScope(
                    shield=True
                ):  # a server that stops may have ended it already
                    await self._begin(send)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._watch, receive, tasks.cancel_scope)
                    tasks.start_soon(self._keep_alive, send)
                    async for chunk in source:
                        await self._write(send, chunk)
                    tasks.cancel_scope.cancel()
        if not self._left:
            last = self._farewell if wait.cancelled_caught else b""
            await send({"type": "http.response.body", "body": last, "more_body": False})
        elif self._on_leave is not None:
            await self._on_leave()  # the client went, and not the stream

    async def _begin(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )

    def _write_now(self, chunk: bytes) -> bool:
        if self._direct is None:
            return False
        now_s = time.monotonic()
        if now_s - self._written_s < BURST_S or not self._direct(chunk):
            return False  # while the source wakes, the rest of a burst comes
        self._written_s = now_s
        self._sent += 1
        return True

    async def _write(self, send: Send, chunk: bytes) -> None:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        self._sent += 1

    async def _watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await disconnected(receive)
        self._left = True
        scope.cancel()

    async def _keep_alive(self, send: Send) -> None:
        while True:
            sent = self._sent
            await anyio.sleep(self._silence.longest_s / 2)
            # Nothing came for half of the time, so that all of it is never passed.
            if self._sent == sent:
                said = self._silence.says() or _COMMENT  # a comment keeps proxies from cutting it
                await send({"type": "http.response.body", "body": said, "more_body": True})
