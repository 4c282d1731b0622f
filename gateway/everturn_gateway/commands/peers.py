"""`everturn mcp` and `everturn acp`: agents for a program that starts the command."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from everturn_gateway import commands
from everturn_gateway.app.gateway import version
from everturn_gateway.client import SessionClient
from everturn_gateway.commands.clients import open_workspace_api, pick_agent
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.extras import extra
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.late_loading import late
from everturn_gateway.tools.mcp.session import MODULES

if TYPE_CHECKING:  # extras
    from everturn_gateway.acp import agent as acp_agent
    from everturn_gateway.acp import stdio as acp_stdio
    from everturn_gateway.mcp_server import stdio as mcp_stdio
else:
    acp_agent = late("everturn_gateway.acp.agent")
    acp_stdio = late("everturn_gateway.acp.stdio")
    mcp_stdio = late("everturn_gateway.mcp_server.stdio")


def mcp(options: Options) -> int:
    """Serve one MCP client over standard input and output, until it closes them.

    Args:
        options: Where the configuration is.

    Raises:
        GatewayError: The package `mcp` is not installed.
    """
    with extra("everturn mcp", "mcp", "mcp", *MODULES):
        serve_stdio = mcp_stdio.serve_stdio
    config = load(options)
    _leave_at_once()

    async def main() -> int:
        async with open_workspace_api(config, resume=True) as api:
            await serve_stdio(api, version=version())
        return EXIT_OK

    return run_async(main)


def acp(options: Options, *, agent: str) -> int:
    """Let one editor drive an agent over standard input and output, until it closes them.

    Args:
        options: Where the configuration is.
        agent: Its name; empty = the only one, or `assistant`.

    Raises:
        GatewayError: The package `agent-client-protocol` is not installed.
    """
    with extra("everturn acp", "agent-client-protocol", "acp", "acp"):
        make_agent, serve_stdio = acp_agent.EditorAgent, acp_stdio.serve_stdio
    config = load(options)

    async def main() -> int:
        async with open_workspace_api(config, resume=True) as api:
            name = await pick_agent(agent, SessionClient(api), config)
            root = await run_sync(commands.agents.workspace_of, config, name)
            await serve_stdio(make_agent(api, name, root=str(root), version=version()))
        return EXIT_OK

    return run_async(main)


def _leave_at_once() -> None:
    """Let Ctrl-C end the process, which a thread that reads standard input would hold up.

    What was accepted is on disk. A turn of a gateway of one's own goes on at the next start.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
