"""Listens: uvicorn inside the caller's task, without its signal handlers."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import anyio
import orjson
import uvicorn
from anyio.to_thread import run_sync
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from everturn_gateway.config.settings import STOP_TIMEOUT_S, ServerConfig, check_listener
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.http.application import create_app
from everturn_gateway.http.limits import ConnectionLimit, within_descriptors
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import MEDIA_TYPE, status_problem
from everturn_gateway.http.waiting import OpenWaits

logger = logging.getLogger(__name__)

BACKLOG = 2048  # connections that wait to be accepted
# Of the usual time for a stop; where another is set, these are longer or shorter by as much.
TURN_GRACE_S = 5.0  # for requests that wait for a turn, when the server stops
CLOSE_S = 5.0  # for connections to close after that
HEAD_BYTES = 64 * 1024  # of one request; tokens and cookies of a proxy stay far below
PIPELINED_MOST = 32  # requests of one connection that wait for their answers; few clients do that
FLUSH_S = 5.0  # for a client to take what is left of its answer, when its connection is closed
POLL_S = 0.01
TICK_S = 1.0  # how often the Date header is renewed


async def serve_http(gateway: Gateway, *, on_ready: Callable[[str], None]) -> None:
    """Serve until the caller's scope is cancelled; then stop within a deadline.

    Stopping: no new connections; followers are let go; requests that wait for a turn get a few
    seconds, then a 503 that says that their message is accepted.

    Args:
        gateway: What answers. It has to stay open until this returns.
        on_ready: Called with the server's address (`http://127.0.0.1:8080`) once it listens.

    Raises:
        ConfigError: The listener is one that must not be opened.
        GatewayError: The address cannot be listened on.
    """
    config = gateway.config.server
    fault = check_listener(config, gateway.config.path)
    if fault is not None:
        raise ConfigError(faults=[fault])
    # A warning for each request that is none would let strangers fill the disk with lines.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = within_descriptors(config, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    sockets = await run_sync(listen, config.host, config.port)
    waits = OpenWaits(max_followers=config.follower_limit)
    limited = ConnectionLimit(create_app(gateway, waits), max_connections=config.max_connections)
    server = _Server(_uvicorn_config(limited, config))
    limited.watch(server.server_state.connections)
    port = sockets[0].getsockname()[1]

    async with anyio.create_task_group() as tasks:
        shield = anyio.CancelScope(shield=True)
        tasks.start_soon(_serve, server, sockets, shield)
        try:
            await server.listening.wait()
            logger.info("the gateway listens", extra={"host": config.host, "port": port})
            on_ready(f"http://{_in_url(config.host)}:{port}")
            await anyio.sleep_forever()
        finally:
            share = config.stop_timeout_s / STOP_TIMEOUT_S
            shield.deadline = anyio.current_time() + (TURN_GRACE_S + CLOSE_S) * share
            server.stop()
            waits.end_followers()
            with anyio.move_on_after(TURN_GRACE_S * share, shield=True):
                await server.stopped.wait()
            waits.end_waiters()


async def _serve(server: _Server, sockets: list[socket.socket], shield: anyio.CancelScope) -> None:
    try:
        with shield:
            await server.serve(sockets)
            # Uvicorn cancels the last requests without waiting for them, and tells nobody.
            while server.server_state.tasks:  # noqa: ASYNC110 - there is no event to wait for
                await anyio.sleep(POLL_S)
    finally:
        for listener in sockets:
            listener.close()
        server.stopped.set()


def _uvicorn_config(app: ConnectionLimit, config: ServerConfig) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_protocol(config.idle_timeout_s, config.max_connections),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=max(1, round(config.idle_timeout_s)),
        timeout_graceful_shutdown=max(
            1, round((TURN_GRACE_S + CLOSE_S / 2) * config.stop_timeout_s / STOP_TIMEOUT_S)
        ),
    )


class _Server(uvicorn.Server):
    """A server that is stopped by its owner, never by a signal of its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()
        self.stopped = anyio.Event()
        self._stop = anyio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with anyio.move_on_after(TICK_S):
                await self._stop.wait()


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
            self._transport.write(head + data)
        elif data.startswith(b"HTTP/1."):
            self._head = data
            self._loop.call_soon(self._flush)
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


class _TooManyRequestsError(Exception):
    """A client sends requests and does not wait for their answers."""


def _protocol(idle_timeout_s: float, max_connections: int) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol, with limits that hold outside a request too.

    Uvicorn's own timeout holds between two requests only: a connection that never sends one, or
    stops within its head, would stay for ever. It limits neither how long a head may be, nor what
    follows a body (RFC 9112 allows fields there), nor how many requests wait on a connection; all
    of these are kept in memory, and whoever sends them needs no token. Nor does it limit how many
    connections there are that ask for nothing: of those beyond the limit, the one that has been
    silent for longest makes room, so that nobody can use the server up by saying nothing; nor by
    reading nothing: who takes no byte of an answer for that long loses the connection.
    """

    class Protocol(HttpToolsProtocol):
        idle_since = 0.0
        has_moved = False
        "Whether what came last ended a head or a request, or was of a body."
        unclear_bytes = 0
        "What came since then."
        open_requests = 0
        flush_check: asyncio.TimerHandle | None = None
        "Looks whether the client takes more of what is left to send."

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(cast("asyncio.Transport", _Joining(transport, self.loop)))
            self.expect()
            if len(self.connections) > max_connections:
                self.make_room()

        def make_room(self) -> None:
            """Close the connection that has waited longest for a request, this one left aside."""
            others = cast("set[Protocol]", self.connections) - {self}
            silent = [
                each
                for each in others
                if not each.open_requests and not each.transport.is_closing()
            ]
            if silent:
                min(silent, key=lambda each: each.idle_since).end()

        def end(self) -> None:
            """Close the connection, also where the client does not take what is left to send."""
            self.transport.close()
            self.watch_flush(min(FLUSH_S, idle_timeout_s))

        def timeout_keep_alive_handler(self) -> None:
            if not self.transport.is_closing():
                self.end()

        def pause_writing(self) -> None:
            super().pause_writing()
            self.watch_flush(idle_timeout_s)

        def resume_writing(self) -> None:
            super().resume_writing()
            if not self.transport.is_closing():
                self.unwatch_flush()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.unwatch_flush()

        def watch_flush(self, period_s: float) -> None:
            """Give the client up once it takes nothing for `period_s`, however slow it is else."""
            self.unwatch_flush()
            left_bytes = self.transport.get_write_buffer_size()
            self.flush_check = self.loop.call_later(
                period_s, self.check_flush, period_s, left_bytes
            )

        def check_flush(self, period_s: float, before_bytes: int) -> None:
            left_bytes = self.transport.get_write_buffer_size()
            if left_bytes and left_bytes >= before_bytes:
                self.transport.abort()
            elif left_bytes:
                self.watch_flush(period_s)

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
                self.send_400_response(f"the head of the request is over {HEAD_BYTES} bytes")
            elif not self.open_requests:
                # A part of a head, or of a body whose request was refused already.
                self.rearm()

        def on_headers_complete(self) -> None:
            self.has_moved = True
            if self.open_requests >= PIPELINED_MOST:
                raise _TooManyRequestsError
            self.open_requests += 1
            super().on_headers_complete()

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
                self.idle_since + idle_timeout_s, self.timeout_keep_alive_handler
            )

    return Protocol


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on every address of `host`, all on the same port.

    Args:
        host: A name or an address.
        port: 0 = any free one.

    Raises:
        GatewayError: Naming the address, with what to do.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        msg = f"cannot listen on {host}:{port}: {host!r} is no address of this machine ({error})"
        raise GatewayError(msg) from error
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(infos):
        try:
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            failure = error
            continue
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address[0], port, *address[2:]))
            # Only listening shows that another program has the port.
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            failure = error
            if not _may_be_missing(error):
                break
        else:
            sockets.append(listener)
            port = listener.getsockname()[1]
    if not sockets or (failure and not _may_be_missing(failure)):
        for listener in sockets:
            listener.close()
        raise GatewayError(_why(host, port, failure)) from failure
    return sockets


def _may_be_missing(error: OSError) -> bool:
    """Return whether one address of a name is not there, which is no harm if another one is."""
    return error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


def _why(host: str, port: int, error: OSError | None) -> str:
    place = f"cannot listen on {host}:{port}"
    match error.errno if error else None:
        case errno.EADDRINUSE:
            return f"{place}: the port is in use; stop the program that has it, or choose another"
        case errno.EACCES:
            return f"{place}: this user may not; choose a port from 1024 on"
        case errno.EADDRNOTAVAIL:
            return f"{place}: {host!r} is no address of this machine"
        case _:
            return f"{place}: {error}"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
