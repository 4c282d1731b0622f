"""`everturn mcp`: agents for a program that starts this command and speaks to it."""

from __future__ import annotations

import signal

from everturn_gateway.app.gateway import version
from everturn_gateway.commands.clients import open_workspace_api
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.errors import GatewayError
from everturn_gateway.tools.mcp.session import INSTALL


def mcp(options: Options) -> int:
    """Serve one MCP client over standard input and output, until it closes them.

    Args:
        options: Where the configuration is.

    Raises:
        GatewayError: The package `mcp` is not installed.
    """
    try:
        from everturn_gateway.mcp_server.stdio import serve_stdio  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        msg = f"`everturn mcp` needs the package mcp: {INSTALL}"
        raise GatewayError(msg) from error
    config = load(options)
    _leave_at_once()

    async def main() -> int:
        async with open_workspace_api(config, resume=True) as api:
            await serve_stdio(api, version=version())
        return EXIT_OK

    return run_async(main)


def _leave_at_once() -> None:
    """Let Ctrl-C end the process, which a thread that reads standard input would hold up.

    What was accepted is on disk. A turn of a gateway of one's own goes on at the next start.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
