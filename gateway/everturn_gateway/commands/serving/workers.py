"""`everturn serve --workers N`: several processes behind one port, which share the work by leases.

This process answers nobody. It starts the others, tells each what it is, starts it again where it
ends, and has them all stop. Each is a gateway like any node of a cluster, and listens on the one
port by itself: the kernel deals out connections.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.abc import Process, TaskStatus
from msgspec import Struct

from everturn_actors.supervisor import Backoff
from everturn_gateway.app.storage import held_workspace
from everturn_gateway.commands.serving.supervision import READY, STOPPING, ServiceManager
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.running import Running, from_here, noted
from everturn_gateway.config.cluster import ClusterConfig, host_name
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.http.server import listen
from everturn_gateway.logs import speaks_json
from everturn_gateway.plugins import installed
from everturn_gateway.private_environ import process_environ

logger = logging.getLogger(__name__)

WORKERS_FOLDER: Final = "workers"
"In the workspace: what belongs to one process alone."
_LATER_S: Final = 5.0  # beyond the time of an orderly stop, until a process is ended
_AGAIN: Final = Backoff(longest_s=30.0)
_STEADY_S: Final = 60.0
_OF_THE_MANAGER: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Assignment(Struct, frozen=True, kw_only=True):
    """What one of the processes is; it reads it from its standard input."""

    workspace: str
    common: str
    port: int
    node: str
    listen: str
    advertise: str
    secret: str

    def __repr__(self) -> str:  # no log shows the secret
        return f"Assignment({self.node!r})"


def assigned(config: Config, assignment: Assignment | None) -> Config:
    """Return the configuration of a process that has an assignment."""
    if assignment is None:
        return config
    tls = config.cluster.tls if config.cluster is not None else None
    return replace(
        config,
        workspace=Path(assignment.workspace),
        common=Path(assignment.common),
        server=replace(config.server, port=assignment.port, shares_port=True),
        cluster=ClusterConfig(
            node=assignment.node,
            listen=assignment.listen,
            advertise=assignment.advertise,
            secret=assignment.secret,
            tls=tls,
            workspace_shared=config.cluster is None or config.cluster.workspace_shared,
            is_one_machine=config.cluster is None,
        ),
    )


def read_assignment() -> Assignment:
    """Return what this process is, from the first line of its standard input.

    Raises:
        GatewayError: It was not started by `everturn serve --workers`.
    """
    try:
        return msgspec.json.decode(sys.stdin.buffer.readline(), type=Assignment)
    except (msgspec.DecodeError, OSError) as error:
        msg = "--worker is for processes that `everturn serve --workers` starts"
        raise GatewayError(msg) from error


async def until_parent_ends() -> None:
    """Return when the process that gave the assignment is gone: its end of the pipe closes."""
    pipe = sys.stdin.fileno()
    await anyio.wait_readable(pipe)  # nothing more is written there


async def serve_workers(config: Config, options: Options, count: int) -> int:
    """Run so many processes until a signal stops them; return the exit code.

    Raises:
        GatewayError: The store cannot be shared, or the address cannot be listened on.
        WorkspaceLockedError: Another process has the workspace.
    """
    plugin = await anyio.to_thread.run_sync(installed().stores.get, config.store.type)
    if plugin is None or not plugin.is_shareable:
        msg = (
            f"several processes cannot share the store {config.store.type!r}; take `store:"
            " {type: postgres}`, or leave --workers away: one process uses one core"
        )
        raise GatewayError(msg)
    manager = ServiceManager(process_environ())
    async with held_workspace(config.workspace), _reserved(config) as port:
        with tempfile.TemporaryDirectory(prefix="everturn-") as sockets:
            workers = [
                _Worker(each, _command(config, options, port))
                for each in _assignments(config, count, port, Path(sockets))
            ]
            return await _Workers(config, workers, manager).run()


@asynccontextmanager
async def _reserved(config: Config) -> AsyncGenerator[int]:
    """Keep the port for the processes of this gateway; nobody else may listen on it meanwhile."""
    server = config.server
    alone = await anyio.to_thread.run_sync(listen, server.host, server.port)  # it is free
    port: int = alone[0].getsockname()[1]
    kept: list[socket.socket] = []
    try:
        for each in alone:
            family, address = each.family, each.getsockname()
            each.close()
            holder = socket.socket(family, socket.SOCK_STREAM)
            kept.append(holder)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            holder.bind(address)  # it never listens: no connection comes here
        yield port
    finally:
        for holder in kept:
            holder.close()


def _assignments(config: Config, count: int, port: int, sockets: Path) -> list[Assignment]:
    """Return what each process is.

    Where the configuration names a cluster, machines reach each process: the first at the address
    that stands there, the next at the ports after it.
    """
    cluster = config.cluster
    node = cluster.node if cluster is not None else host_name()
    secret = cluster.secret if cluster is not None else secrets.token_hex(32)
    made: list[Assignment] = []
    for number in range(count):
        if cluster is not None and not cluster.listen.startswith("/"):
            own, advertised = _later(cluster.listen, number), _later(cluster.advertise, number)
        else:
            own = advertised = str(sockets / f"{number + 1}")
        made.append(
            Assignment(
                workspace=str(config.workspace / WORKERS_FOLDER / str(number + 1)),
                common=str(config.workspace),
                port=port,
                node=f"{node}-{number + 1}",
                listen=own,
                advertise=advertised,
                secret=secret,
            )
        )
    return made


def _later(address: str, number: int) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + number}"


def _command(config: Config, options: Options, port: int) -> list[str]:
    given = (
        ("--config", options.config),
        ("--workspace", options.workspace),
        ("--agents-dir", options.agents_dir),
        ("--host", config.server.host),
        ("--port", port),
    )
    named = [part for name, value in given if value is not None for part in (name, str(value))]
    debug = ["--debug"] if crash_log.debug else []
    form = ["--log-format", config.logging.form]
    return [sys.executable, "-m", "everturn_gateway", *debug, "serve", *named, *form, "--worker"]


class _Worker:
    """One of the processes; it comes and goes."""

    def __init__(self, assignment: Assignment, command: list[str]) -> None:
        self.assignment, self._command = assignment, command
        self.process: Process | None = None

    async def start(self) -> Process:
        environ = {
            name: value for name, value in process_environ().items() if name not in _OF_THE_MANAGER
        }
        self.process = process = await anyio.open_process(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            env=environ,
            start_new_session=True,  # Ctrl-C is this process's to pass on, once
        )
        assert process.stdin is not None
        with suppress(anyio.BrokenResourceError):  # it ended at once; it says why itself
            await process.stdin.send(msgspec.json.encode(self.assignment) + b"\n")
        return process

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)


class _Workers:
    """All of the processes, and what becomes of them."""

    def __init__(self, config: Config, workers: list[_Worker], manager: ServiceManager) -> None:
        self._config, self._workers, self._manager = config, workers, manager
        self._waiting = len(workers)
        "That were not ready yet."
        self._all_ready, self._stopping = anyio.Event(), anyio.Event()
        self._code = EXIT_OK

    async def run(self) -> int:
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._watch_signals, tasks.cancel_scope)
            await tasks.start(self._watch_hangups)
            tasks.start_soon(self._manager.keep_alive)
            tasks.start_soon(self._announce)
            async with anyio.create_task_group() as lives:
                for worker in self._workers:
                    lives.start_soon(self._live, worker)
            tasks.cancel_scope.cancel()
        return self._code

    async def _live(self, worker: _Worker) -> None:
        """Run one process, again and again, until all of them stop."""
        failures = 0
        while not self._stopping.is_set():
            began_s = anyio.current_time()
            process = await worker.start()
            was_ready = await self._until_over(process)
            if self._stopping.is_set():
                return
            code = process.returncode
            if not was_ready and self._waiting:  # what is wrong with it is wrong with all
                self._code = code or EXIT_FAILED
                self.stop()
                return
            failures = 1 if anyio.current_time() - began_s > _STEADY_S else failures + 1
            logger.error(
                "a worker ended, and is started again",
                extra={"node": worker.assignment.node, "code": code},
            )
            with anyio.move_on_after(_AGAIN.pause_s(failures, 1.0)):
                await self._stopping.wait()

    async def _until_over(self, process: Process) -> bool:
        """Wait for the end of a process; return whether it was ready before."""
        is_ready = False
        assert process.stdout is not None
        async with process:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await process.stdout.receive()
                    if not is_ready:  # it says one thing alone
                        is_ready = True
                        self._ready()
            await process.wait()
        return is_ready

    def _ready(self) -> None:
        self._waiting = max(0, self._waiting - 1)
        if not self._waiting:
            self._all_ready.set()

    async def _announce(self) -> None:
        """Tell people and other commands where they listen, once all of them do."""
        await self._all_ready.wait()
        server, port = self._config.server, self._workers[0].assignment.port
        host = f"[{server.host}]" if ":" in server.host else server.host
        address = f"http://{host}:{port}"
        running = Running(pid=os.getpid(), url=from_here(address))
        async with noted(self._config.workspace, running):
            if speaks_json() and not sys.stdout.isatty():  # one stream in a container
                logger.info("ready", extra={"url": address, "workers": len(self._workers)})
            else:
                sys.stdout.write(
                    f"Everturn listens on {address}\n"
                    f"  workers    {len(self._workers)}\n"
                    f"  workspace  {self._config.workspace}\n"
                    "Ctrl-C stops them.\n"
                )
                sys.stdout.flush()
            self._manager.notify(READY, f"STATUS=listens on {address}")
            await anyio.sleep_forever()

    def stop(self) -> None:
        """Have all of them stop in order."""
        self._stopping.set()
        for worker in self._workers:
            worker.send(signal.SIGTERM)

    async def _watch_signals(
        self, scope: anyio.CancelScope, *, task_status: TaskStatus[None]
    ) -> None:
        stop_s = self._config.server.stop_timeout_s
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            await anext(signals)
            self._manager.notify(STOPPING)
            say(f"stopping; what runs gets up to {stop_s:g} s, a second signal stops at once")
            self.stop()
            with anyio.move_on_after(stop_s + _LATER_S):
                await anext(signals)
            self._code = EXIT_INTERRUPTED
            for worker in self._workers:
                worker.send(signal.SIGKILL)
            scope.cancel()

    async def _watch_hangups(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGHUP) as hangups:
            task_status.started()
            async for _ in hangups:
                for worker in self._workers:
                    worker.send(signal.SIGHUP)
