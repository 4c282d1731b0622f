"""The HTTP API of an open gateway, inside another application."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio import to_thread

if TYPE_CHECKING:  # the gateway is loaded when one is opened
    from everturn_gateway.app import Gateway as OpenGateway

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Mounted:
    """An ASGI application; `Gateway.asgi` makes one."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; its path is taken from below where it is mounted."""
        path, root = str(scope.get("path", "")), str(scope.get("root_path", ""))
        inner = path.removeprefix(root) if root and path.startswith(f"{root}/") else path
        await self._app({**scope, "path": inner, "root_path": ""}, receive, send)


async def mounted(gateway: OpenGateway, token: str) -> Mounted:
    """Return the API of a gateway, see `Gateway.asgi`."""
    create_app = await to_thread.run_sync(_load)
    # Whoever mounts it decides who reaches it: it never counts as one of this machine alone.
    server = dataclasses.replace(gateway.config.server, api_token=token, require_token=True)
    gateway.config = dataclasses.replace(gateway.config, server=server)
    if token:
        gateway.secrets.add(token)
    return Mounted(create_app(gateway))


def _load() -> Callable[[OpenGateway], App]:
    """Return what makes the application; its library takes a while to load."""
    from everturn_gateway.http.asgi import create_app  # FastAPI, where it is served

    return create_app
