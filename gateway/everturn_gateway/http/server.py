"""Listens: uvicorn inside the caller's task, without its signal handlers."""

from __future__ import annotations

import errno
import logging
import resource
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import anyio
import uvicorn
from anyio.to_thread import run_sync

from everturn_gateway.config.schemas import STOP_TIMEOUT_S
from everturn_gateway.config.settings import ServerConfig, check_listener
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.http.asgi import create_app
from everturn_gateway.http.limits import ConnectionLimit, within_descriptors
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.protocol import LimitedProtocol, limited_protocol
from everturn_gateway.http.waiting import OpenWaits

logger = logging.getLogger(__name__)

BACKLOG = 2048  # connections that wait to be accepted
# Of the usual time for a stop; where another is set, these are longer or shorter by as much.
TURN_GRACE_S = 5.0  # for requests that wait for a turn, when the server stops
CLOSE_S = 5.0  # for connections to close after that
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
    waits = OpenWaits(max_followers=config.follower_limit)
    application = create_app(gateway, waits)
    if gateway.config.cluster is not None:
        # Other nodes answer meanwhile. Whoever came first would wait for it here.
        await run_sync(application.api)
    sockets = await run_sync(
        partial(listen, config.host, config.port, is_shared=config.shares_port)
    )
    limited = ConnectionLimit(application.app, max_connections=config.max_connections)
    protocol = limited_protocol(config.idle_timeout_s, config.max_connections)
    server = _Server(_uvicorn_config(limited, protocol, config), protocol)
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


def _uvicorn_config(
    app: ConnectionLimit, protocol: type[LimitedProtocol], config: ServerConfig
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,
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

    def __init__(self, config: uvicorn.Config, protocol: type[LimitedProtocol]) -> None:
        super().__init__(config)
        self._protocol = protocol
        self.listening = anyio.Event()
        self.stopped = anyio.Event()
        self._stop = anyio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._protocol.is_stopping = True
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


def listen(host: str, port: int, *, is_shared: bool = False) -> list[socket.socket]:
    """Return sockets that listen on every address of `host`, all on the same port.

    Args:
        host: A name or an address.
        port: 0 = any free one.
        is_shared: Other processes of this gateway listen on it, too.

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
            if is_shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
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
