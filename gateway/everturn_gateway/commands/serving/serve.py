"""`everturn serve`: the gateway until a signal stops it."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from everturn_actors.faults import first_cause
from everturn_actors.supervisor import attempt, contain
from everturn_gateway.app import Gateway, open_gateway
from everturn_gateway.channels import route_notes
from everturn_gateway.commands.first_steps.offer import offer_setup
from everturn_gateway.commands.serving.descriptors import raise_descriptor_limit
from everturn_gateway.commands.serving.reloads import (
    ControllingTerminal,
    leave_terminal,
    reload_config,
)
from everturn_gateway.commands.serving.supervision import READY, STOPPING, ServiceManager
from everturn_gateway.commands.serving.workers import (
    assigned,
    read_assignment,
    serve_workers,
    until_parent_ends,
)
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, say
from everturn_gateway.commands.shared.options import DEFAULT_AGENT, Options
from everturn_gateway.commands.shared.running import Running, from_here, noted, remove_note
from everturn_gateway.commands.shared.settings import (
    API_TOKEN_VARIABLE,
    OWN_TOKEN_VARIABLE,
    load,
    make_private,
    read_again,
    run_async,
)
from everturn_gateway.config.env_file import open_to_others
from everturn_gateway.config.home import home_folder
from everturn_gateway.config.settings import Config, check_listener
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.gc_tuning import short_rounds, tune_collector
from everturn_gateway.heap import fold_heap_after_loading, keep_heap_whole
from everturn_gateway.http.server import serve_http
from everturn_gateway.logs import LogFormat, RecentLog, SecretRegistry, setup_logging, speaks_json
from everturn_gateway.private_environ import process_environ, seal_process, shown_above

logger = logging.getLogger(__name__)


def serve(
    options: Options,
    *,
    host: str | None,
    port: int | None,
    log_format: LogFormat | None = None,
    workers: int = 1,
    is_worker: bool = False,
) -> int:
    """Run the gateway; return the exit code when it has stopped.

    Args:
        options: Where the configuration is.
        host: Instead of the configuration's `server.host`.
        port: Instead of the configuration's `server.port`.
        log_format: Instead of the configuration's `logging.format`.
        workers: How many processes listen on the one port.
        is_worker: This is one of them.

    Raises:
        ConfigError: The configuration is not valid.
        WorkspaceLockedError: Another process has the workspace.
        GatewayError: The address cannot be listened on, or a library is missing that a channel or
            `telemetry` needs.
        SetupError: A channel cannot work as it is set up.
    """
    try:
        config = load(options, host=host, port=port, with_channels=True)
    except GatewayError:
        if log_format == "json":  # who reads the log reads of this fault as well
            setup_logging(logging.INFO, crash_log.secrets, form="json")
        raise
    if offer_setup(options, config):
        config = load(options, host=host, port=port, with_channels=True)
    _require_configuration(config, options)
    fault = check_listener(config.server, config.path)
    if fault is not None:
        raise ConfigError(faults=[fault])
    assignment = read_assignment() if is_worker else None
    config = assigned(config, assignment)
    make_private(config.common or config.workspace)
    make_private(config.workspace)
    secrets, recent = crash_log.secrets, RecentLog()
    level = logging.DEBUG if crash_log.debug else logging.INFO

    def read() -> Config:
        return assigned(read_again(options, host=host, port=port), assignment)

    def apply_logging(new: Config) -> None:
        setup_logging(level, secrets, form=log_format or new.logging.form, recent=recent)

    apply_logging(config)
    seal_process()  # keys are in its memory and in its environment
    raise_descriptor_limit(config.server.max_connections)
    for each in shown_above():
        logger.warning(
            "a process above the gateway shows its keys to programs of the same user",
            extra={"shown_by": each},
        )
    if config.env_file and (open_file := open_to_others(config.env_file)):
        logger.warning("keys can be read by other users", extra={"file": open_file})
    for note in config.notes:
        logger.warning("a setting has no effect", extra={"setting": note})

    async def main() -> int:
        if workers > 1:
            return await serve_workers(config, options, workers)
        return await _serve(config, options, secrets, _Reload(read, apply_logging), recent)

    return run_async(main, fast_loop=True)


def _require_configuration(config: Config, options: Options) -> None:
    """Refuse a folder in which nobody has set anything up.

    A gateway that is started in the wrong folder would make an empty workspace there, and answer
    nobody.

    Raises:
        GatewayError: There is no configuration here, and none is named.
    """
    is_named = options.config or options.workspace or options.agents_dir
    if is_named or config.path or config.agents_dir.is_dir() or config.workspace.is_dir():
        return
    here, home = Path.cwd(), home_folder(process_environ())
    msg = (
        f"there is no everturn.yaml and no agents folder in {here}"
        f"{'' if home == here else f', nor in {home}'}; `everturn setup` sets one up there,"
        " `everturn init` here; --config, --agents-dir or --workspace name another"
    )
    raise GatewayError(msg)


class _Reload(Struct):
    """How the configuration is read again, by the gateway that is open."""

    read: Callable[[], Config]
    apply_logging: Callable[[Config], None]
    gateway: Gateway | None = None

    async def __call__(self) -> None:
        """Read it; before the gateway is open, there is nothing that could take it over."""
        if self.gateway is not None:
            await reload_config(self.gateway, self.read, self.apply_logging)


async def _serve(
    config: Config,
    options: Options,
    secrets: SecretRegistry,
    reload: _Reload,
    recent: RecentLog,
) -> int:
    serving, manager = anyio.CancelScope(), ServiceManager(process_environ())
    terminal = ControllingTerminal.find()
    async with anyio.create_task_group() as watch:
        # Before the gateway opens: a signal meanwhile is no kill.
        await watch.start(_watch_signals, config, serving, manager)
        await watch.start(_watch_hangups, terminal, reload)
        watch.start_soon(manager.keep_alive)
        watch.start_soon(fold_heap_after_loading, anyio.sleep)
        if config.server.shares_port:
            watch.start_soon(_stop_with_parent, serving)
        async with open_gateway(config, environ=process_environ(), secrets=secrets) as gateway:
            reload.gateway, gateway.recent_log = gateway, recent
            tune_collector()  # after all that stays is loaded
            keep_heap_whole()
            with serving, short_rounds():
                await _listen(gateway, options, manager)
        watch.cancel_scope.cancel()
    return EXIT_OK


async def _listen(gateway: Gateway, options: Options, manager: ServiceManager) -> None:
    address = ""
    listening = anyio.Event()

    def ready(url: str) -> None:
        nonlocal address
        address = url
        listening.set()

    async def announce() -> None:
        await listening.wait()
        running = Running(pid=os.getpid(), url=from_here(address))
        if gateway.config.server.shares_port:  # whoever started it tells people
            sys.stdout.write(f"{address}\n")
            sys.stdout.flush()
            await anyio.sleep_forever()
        async with noted(gateway.config.workspace, running):
            _greet(gateway, running.url, address, options)
            manager.notify(READY, f"STATUS=listens on {address}")
            await anyio.sleep_forever()  # the note is there for as long as it listens

    async with anyio.create_task_group() as tg:
        tg.start_soon(announce)
        failure = await attempt(partial(serve_http, gateway, on_ready=ready))
        if isinstance(failure, GatewayError):
            raise failure
        if failure is not None:  # nobody can reach the gateway any more: whoever runs it has to
            logger.error("the HTTP server failed", exc_info=failure)
            cause = first_cause(failure)
            msg = (
                f"the HTTP server failed ({type(cause).__name__}: {cause}), and the gateway ends;"
                " what was accepted is on disk and goes on at the next start"
            )
            raise GatewayError(msg) from failure
        tg.cancel_scope.cancel()


def _greet(gateway: Gateway, url: str, listens_on: str, options: Options) -> None:
    for fault in gateway.library.faults():
        say(str(fault))
    names = gateway.library.names()
    for note in route_notes(gateway.config, names):
        say(note)
    if not names:
        say("no agent can be used; nothing is answered until one is set right")
    if speaks_json() and not sys.stdout.isatty():  # both are one stream in a container
        told = {"url": url, "agents": names, "workspace": str(gateway.config.workspace)}
        logger.info("ready", extra={**told, "version": gateway.version})
        return
    lines = [
        f"Everturn {gateway.version} listens on {listens_on}",
        f"  agents     {', '.join(names) or 'none'}",
        *_channels(gateway.config),
        f"  workspace  {gateway.config.workspace}",
        *_console(gateway, url),
        *_next_steps(gateway, url, names, options),
        "Ctrl-C stops it.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _channels(config: Config) -> Iterator[str]:
    if config.channels:
        yield f"  channels   {', '.join(channel.name for channel in config.channels)}"


def _console(gateway: Gateway, url: str) -> Iterator[str]:
    server = gateway.config.server
    if not server.console:
        return
    address = f"{server.public_url or url}/console/"
    # What is written to a file or a journal is read by others, and later.
    if (server.api_token or server.require_token) and sys.stdout.isatty():
        yield f"  console    {address}#/login/{gateway.logins.make_link()}"
        yield "             (this link logs in once, within 15 minutes)"
    else:
        yield f"  console    {address}"


def _next_steps(
    gateway: Gateway, url: str, names: tuple[str, ...], options: Options
) -> Iterator[str]:
    if not names:
        return
    agent = DEFAULT_AGENT if DEFAULT_AGENT in names else names[0]
    argument = "" if agent == DEFAULT_AGENT or len(names) == 1 else f" {shlex.quote(agent)}"
    server = gateway.config.server
    variable = API_TOKEN_VARIABLE if server.api_token else OWN_TOKEN_VARIABLE
    needs_token = server.api_token or server.require_token
    token = f' -H "Authorization: Bearer ${variable}"' if needs_token else ""
    body = f'{{"model":"{agent}","messages":[{{"role":"user","content":"Hello"}}]}}'
    yield "Talk to it:"
    yield f"  everturn chat{argument}{options.again()}"
    yield (
        f"  curl {url}/v1/chat/completions{token} -H 'Content-Type: application/json' -d '{body}'"
    )


async def _stop_with_parent(serving: anyio.CancelScope) -> None:
    """Stop in order where the process that started this one is gone."""
    await until_parent_ends()
    logger.warning("the process that started this one is gone, and it stops")
    serving.cancel()


async def _watch_hangups(
    terminal: ControllingTerminal, reload: _Reload, *, task_status: TaskStatus[None]
) -> None:
    """Read the configuration again on SIGHUP; where the terminal was closed, stop in order."""
    with anyio.open_signal_receiver(signal.SIGHUP) as hangups:
        task_status.started()
        async for _ in hangups:
            if terminal.is_gone():
                leave_terminal()
                logger.info("the terminal was closed")
                os.kill(os.getpid(), signal.SIGTERM)  # one way to stop, whoever asks for it
            else:
                await contain("reload of the configuration", reload)


async def _watch_signals(
    config: Config,
    serving: anyio.CancelScope,
    manager: ServiceManager,
    *,
    task_status: TaskStatus[None],
) -> None:
    """Stop on the first SIGINT or SIGTERM; at once on the second, or when it takes too long."""
    stop_s = config.server.stop_timeout_s
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        await anext(signals)
        manager.notify(STOPPING)
        say(f"stopping; what runs gets up to {stop_s:g} s, a second signal stops at once")
        serving.cancel()
        with anyio.move_on_after(stop_s):
            await anext(signals)
            say("stopped at once; open turns go on at the next start")
            _leave(config, EXIT_INTERRUPTED)  # without cleaning up: that is what takes too long
        say(f"not stopped after {stop_s:g} s, left; open turns go on at the next start")
        _leave(config, EXIT_FAILED)


def _leave(config: Config, code: int) -> NoReturn:
    """End the process now. Everything that was accepted is on disk."""
    remove_note(config.workspace, os.getpid())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
