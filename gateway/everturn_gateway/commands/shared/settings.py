"""The configuration of a command, its log, and its event loop."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio

from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.config.env_file import ENV_NAME, read_env_file
from everturn_gateway.config.home import home_folder
from everturn_gateway.config.settings import Config, Overrides, configuration_file, load_config
from everturn_gateway.errors import GatewayError
from everturn_gateway.gc_tuning import end_loading
from everturn_gateway.logs import SecretRegistry, setup_logging
from everturn_gateway.private_environ import process_environ, use_beside
from everturn_gateway.workspace_files import LOG_NAME

API_TOKEN_VARIABLE = "EVERTURN_API_TOKEN"
OWN_TOKEN_VARIABLE = "EVERTURN_TOKEN"

T = TypeVar("T")


def load(
    options: Options,
    *,
    host: str | None = None,
    port: int | None = None,
    with_channels: bool = False,
) -> Config:
    """Return the configuration; from here on, unexpected errors are written to its workspace.

    Without `with_channels` the tokens of channels need not be in the environment.

    Raises:
        ConfigError: With every fault of the file.
    """
    log_nowhere()
    config = read_again(options, host=host, port=port, with_channels=with_channels)
    crash_log.folder = config.workspace
    for secret in config.secrets:
        crash_log.secrets.add(secret)
    return config


def read_again(
    options: Options, *, host: str | None, port: int | None, with_channels: bool = True
) -> Config:
    """Return the configuration of a gateway that runs, as its file says it now.

    Raises:
        ConfigError: With every fault of the file.
    """
    environ = process_environ()
    is_named = options.config or options.workspace or options.agents_dir
    home = None if is_named else home_folder(environ)
    file = configuration_file(options.config, home).absolute()
    if file.is_file():
        use_beside(partial(read_env_file, file.with_name(ENV_NAME)))
    return load_config(
        options.config,
        environ=environ,
        overrides=Overrides(
            host=host, port=port, workspace=options.workspace, agents_dir=options.agents_dir
        ),
        with_channels=with_channels,
        home=home,
    )


def api_token(config: Config) -> str:
    """Return the token with which commands speak to a running gateway; empty = none is needed.

    That of whoever types, in `EVERTURN_TOKEN`, goes before the one of the configuration.
    """
    token = own_token() or config.server.api_token or process_environ().get(API_TOKEN_VARIABLE, "")
    crash_log.secrets.add(token)
    return token


def admin_token(config: Config) -> str:
    """Return the token for what is for the administration; empty = the one for all else."""
    return "" if own_token() else config.server.admin_token


def own_token() -> str:
    """Return the token of whoever types; empty = there is none."""
    return process_environ().get(OWN_TOKEN_VARIABLE, "")


def run_async(main: Callable[[], Awaitable[T]], *, fast_loop: bool = False) -> T:
    """Run `main` in an event loop of its own and return what it does: mostly an exit code.

    Args:
        main: What to do.
        fast_loop: Use uvloop, where there is one: worth its start-up in a server.
    """
    end_loading()
    use_uvloop = fast_loop and sys.platform != "win32"
    return anyio.run(main, backend="asyncio", backend_options={"use_uvloop": use_uvloop})


def log_nowhere() -> None:
    """Keep log lines from the terminal until a command says where they go."""
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def require_agents(config: Config) -> None:
    """Make sure that there is something to work with, before anything is created.

    Raises:
        GatewayError: There is no agents folder.
    """
    if not config.agents_dir.is_dir():
        msg = (
            f"there is no agents folder {config.agents_dir}; `everturn setup` sets one up in your"
            " home, `everturn init` here"
        )
        raise GatewayError(msg)


def make_private(workspace: Path) -> None:
    """Create the workspace, if need be, as a folder that only its owner can look into.

    Raises:
        GatewayError: It cannot be created.
    """
    try:
        workspace.parent.mkdir(parents=True, exist_ok=True)
        workspace.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        msg = f"the workspace {workspace} cannot be created: {error.strerror}"
        raise GatewayError(msg) from error


@contextmanager
def log_to_file(config: Config, secrets: SecretRegistry) -> Generator[None]:
    """Write warnings to the log in the workspace: the terminal belongs to the conversation."""
    path = config.workspace / LOG_NAME
    make_private(config.workspace)
    try:
        log = os.fdopen(
            os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600),
            "a",
            encoding="utf-8",
        )
    except OSError:
        log = None  # the workspace cannot be written; what opens it says so
    if log is None:
        yield
        return
    with log:
        level = logging.DEBUG if crash_log.debug else logging.WARNING
        setup_logging(level, secrets, stream=log)
        try:
            yield
        finally:
            log_nowhere()
