# ruff: noqa: D102 - most methods are of uvicorn's protocol, under its names
"""uvicorn's protocol for HTTP/1.1, with limits that hold before and between requests."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, ClassVar, Final, cast

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from everturn_gateway.http.problems import MEDIA_TYPE, status_problem
from everturn_gateway.http.sse import WRITE_NOW
from everturn_gateway.http.waiting import DEPARTURE, Departure

HEAD_BYTES: Final = 64 * 1024  # of one request; tokens and cookies of a proxy stay far below
PIPELINED_MOST: Final = 32  # requests of one connection that wait for their answers
FLUSH_S: Final = 5.0  # for a client to take what is left of its answer, when its connection ends


class _Joining:
    """A transport that sends the head of an answer with its body, where that follows at once.

    uvicorn writes them one after the other. Each write costs a call of the system, and wakes
    whoever reads.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all else is the transport's own
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write; a head waits until the body comes, or the event loop has gone round once."""
        head, self._head = self._head, b""
        if head:
            self._transport.write(head + data)  # head and body in one packet: a client wakes once
        elif data.startswith(b"HTTP/1."):
            self._head = data
            self._loop.call_soon(self._flush)  # a head without a body goes out all the same
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close, when all was sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)


def _write_now(cycle: RequestResponseCycle, body: bytes) -> bool:
    """Write a piece of an answer as uvicorn would; False where that would wait, or refuse it.

    `chunked_encoding` is not known before the answer has begun, and for HEAD never.
    """
    if (
        not cycle.chunked_encoding
        or cycle.flow.write_paused  # a slow reader takes the usual way, which waits
        or cycle.disconnected
        or cycle.response_complete
        or cycle.transport.is_closing()
    ):
        return False
    cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
    return True


class _TooManyRequestsError(Exception):
    """A client sends requests and does not wait for their answers."""


class LimitedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, with limits that hold outside a request too.

    Uvicorn's own timeout holds between two requests only: a connection that never sends one, or
    stops within its head, would stay for ever. It limits neither how long a head may be, nor what
    follows a body (RFC 9112 allows fields there), nor how many requests wait on a connection; all
    of these are kept in memory, and whoever sends them needs no token. Nor does it limit how many
    connections there are that ask for nothing: of those beyond the limit, the one that has been
    silent for longest makes room, so that nobody can use the server up by saying nothing; nor by
    reading nothing: who takes no byte of an answer for that long loses the connection.
    """

    idle_timeout_s: ClassVar[float]
    max_connections: ClassVar[int]
    is_stopping: ClassVar[bool] = False
    "Set when the server stops; it closes the connections that it has, and knows of no later ones."
    idle_since = 0.0
    has_moved = False
    "Whether what came last ended a head or a request, or was of a body."
    unclear_bytes = 0
    "What came since then."
    departure: Departure
    open_requests = 0
    flush_check: asyncio.TimerHandle | None = None
    "Looks whether the client takes more of what is left to send."

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _Joining(transport, self.loop)))
        self.departure = Departure()
        if self.is_stopping:
            # It was taken between the end of the others and that of the listener. It would be
            # served for as long as turns may take, by a gateway that says it is ready.
            self.transport.close()
            return
        self.expect()
        if len(self.connections) > self.max_connections:
            self.make_room()

    def make_room(self) -> None:
        """Close the connection that has waited longest for a request, this one left aside."""
        others = cast("set[LimitedProtocol]", self.connections) - {self}
        silent = [
            each for each in others if not each.open_requests and not each.transport.is_closing()
        ]
        if silent:
            # One that works on a request is never ended for another.
            min(silent, key=lambda each: each.idle_since).end()

    def end(self) -> None:
        """Close the connection, also where the client does not take what is left to send."""
        self.transport.close()
        self.watch_flush(min(FLUSH_S, self.idle_timeout_s))

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self.end()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.watch_flush(self.idle_timeout_s)  # who takes nothing for so long is gone

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self.unwatch_flush()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.departure.left()  # requests of it that wait end now, not when they are answered
        self.unwatch_flush()

    def watch_flush(self, period_s: float) -> None:
        """Give the client up once it takes nothing for `period_s`, however slow it is else."""
        self.unwatch_flush()
        left_bytes = self.transport.get_write_buffer_size()
        self.flush_check = self.loop.call_later(period_s, self.check_flush, period_s, left_bytes)

    def check_flush(self, period_s: float, before_bytes: int) -> None:
        left_bytes = self.transport.get_write_buffer_size()
        if left_bytes and left_bytes >= before_bytes:
            self.transport.abort()  # not one byte went in a whole period
        elif left_bytes:
            self.watch_flush(period_s)  # slow, but it reads: it gets another period

    def unwatch_flush(self) -> None:
        if self.flush_check is not None:
            self.flush_check.cancel()
            self.flush_check = None

    def data_received(self, data: bytes) -> None:
        self.has_moved = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        self.unclear_bytes = 0 if self.has_moved else self.unclear_bytes + len(data)
        if self.unclear_bytes > HEAD_BYTES:
            # The parser holds all of it, whatever it is.
            self.send_400_response(f"the head of the request is over {HEAD_BYTES} bytes")
        elif not self.open_requests:
            # A part of a head, or of a body whose request was refused already.
            self.rearm()

    def on_headers_complete(self) -> None:
        self.has_moved = True
        if self.open_requests >= PIPELINED_MOST:
            raise _TooManyRequestsError  # each holds memory until it is answered
        self.open_requests += 1
        scope = cast("dict[str, object]", self.scope)
        scope[DEPARTURE] = self.departure
        super().on_headers_complete()
        scope[WRITE_NOW] = partial(_write_now, self.cycle)

    def on_body(self, body: bytes) -> None:
        self.has_moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.has_moved = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.open_requests -= 1
        if not self.open_requests and not self.transport.is_closing():
            self.expect()

    def send_400_response(self, msg: str) -> None:
        body = orjson.dumps(status_problem(400, msg).document(""))
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        if not self.open_requests:  # else it would stand within the answer to another
            self.transport.write(head.encode() + body)
        self.transport.close()

    def expect(self) -> None:
        """Begin to wait for a request."""
        self.idle_since = self.loop.time()
        self.rearm()

    def rearm(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_at(
            self.idle_since + self.idle_timeout_s, self.timeout_keep_alive_handler
        )


def limited_protocol(idle_timeout_s: float, max_connections: int) -> type[LimitedProtocol]:
    """Return the protocol with these limits; uvicorn makes one of it for each connection."""
    limits = {"idle_timeout_s": idle_timeout_s, "max_connections": max_connections}
    return type("LimitedProtocol", (LimitedProtocol,), limits)
