"""What a connection needs of the protocol, without the package that speaks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import anyio.to_thread

from everturn_gateway.late_loading import loading_late
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.mcp.errors import McpStartError
from everturn_gateway.tools.mcp.listing import Listing
from everturn_gateway.tools.mcp.oauth import McpLogins
from everturn_gateway.tools.mcp.requests.values import (
    NOTHING,
    Response,
    Result,
    Sent,
    ServerRequest,
)
from everturn_gateway.tools.mcp.settings import McpServerSettings

INSTALL: Final = "run `pip install 'everturn[mcp]'`"
MODULES: Final = ("mcp", "mcp_types")
"What the package `mcp` brings."


class Session(Protocol):
    """One connection to a server that is up. Its methods may run side by side."""

    @property
    def protocol(self) -> str:
        """The revision of the protocol that both speak."""
        ...

    @property
    def why(self) -> str:
        """Why the connection ended; empty while it has not."""
        ...

    @property
    def words(self) -> str:
        """What the server said at its end."""
        ...

    def cut(self) -> None:
        """Send nothing more, so that nothing holds up the end."""
        ...

    async def listing(self) -> Listing:
        """Return the tools of the server that the agent is offered.

        Raises:
            McpError: They cannot be had.
        """
        ...

    async def call(
        self,
        name: str,
        arguments: dict[str, object],
        *,
        asker: Callable[[ServerRequest], Awaitable[Response]] | None = None,
        sent: Sent = NOTHING,
    ) -> Result:
        """Call a tool, or return what the server wants to know first. Cancellation stops it.

        Args:
            name: As the server calls it.
            arguments: Of the call.
            asker: Answers what the server asks while the call is open; None = nobody does.
            sent: What it wanted to know.

        Raises:
            McpError: There is no result, or none that can be used.
        """
        ...

    async def ping(self) -> None:
        """Return when the server has shown that it is there.

        Raises:
            McpError: It is not.
        """
        ...

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when the server says that its tools changed, for as long as it can."""
        ...


class OpenSession(Protocol):
    """Starts or reaches a server, and shakes hands with it."""

    def __call__(
        self,
        settings: McpServerSettings,
        environment: ToolEnvironment,
        logins: McpLogins,
        *,
        on_change: Callable[[], None],
        on_end: Callable[[], None],
    ) -> AbstractAsyncContextManager[Session]:
        """Yield a session; when the block ends, so does the server that was started for it.

        Raises:
            McpError: The server cannot be started or reached, or is none.
        """
        ...


async def protocol() -> OpenSession:
    """Return what speaks the protocol; imports the package `mcp`, which takes half a second.

    Raises:
        McpStartError: The package is not installed, or not one that fits.
    """
    return await anyio.to_thread.run_sync(_imported)


def _imported() -> OpenSession:
    with loading_late():
        try:
            from everturn_gateway.tools.mcp.wire import (  # noqa: PLC0415 - an extra, and heavy
                open_session,
            )
        except ModuleNotFoundError as error:
            if error.name not in MODULES:
                raise
            msg = f"MCP servers need the package mcp: {INSTALL}"
            raise McpStartError(msg) from error
        except ImportError as error:
            msg = f"the installed package mcp does not fit ({error}): {INSTALL}"
            raise McpStartError(msg) from error
    return open_session
