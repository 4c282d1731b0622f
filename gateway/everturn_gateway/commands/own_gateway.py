"""The gateway that a command opens for itself, where none runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from everturn_gateway.app import open_gateway
from everturn_gateway.client import Api, open_api_here
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.config.settings import Config
from everturn_gateway.http.access.auth import THIS_PROCESS
from everturn_gateway.http.asgi import create_app
from everturn_gateway.private_environ import process_environ, seal_process


@asynccontextmanager
async def open_own(config: Config, *, resume: bool) -> AsyncGenerator[Api]:
    """Open a gateway in this process, and its API as whoever runs it.

    Args:
        config: Names the workspace.
        resume: Let turns that were open go on, and wait for them at the end.

    Raises:
        WorkspaceLockedError: Another process has the workspace.
    """
    seal_process()
    async with (
        open_gateway(
            config,
            environ=process_environ(),
            watch=False,
            resume=resume,
            secrets=crash_log.secrets,
        ) as gateway,
        open_api_here(create_app(gateway, caller=THIS_PROCESS)) as api,
    ):
        yield api
