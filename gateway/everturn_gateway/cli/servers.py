"""`everturn mcp`: agents for MCP clients, and the logins at MCP servers."""

from __future__ import annotations

from typing import Annotated

import typer

from everturn_gateway import commands
from everturn_gateway.cli.declaration import Json, command
from everturn_gateway.commands.shared.options import Options

mcp_app = typer.Typer(help="Offer the agents to an MCP client; log in at MCP servers of agents.")

_Server = Annotated[str, typer.Argument(help="As agents call it.", show_default=False)]
_Agent = Annotated[
    str, typer.Option("--agent", "-a", help="Whose, where agents mean different addresses by it.")
]


@command(mcp_app, is_default=True)
def serve_mcp(options: Options) -> int:
    """Offer the agents to an MCP client that starts this command; log in at servers of agents."""
    return commands.peers.mcp(options)


@command(mcp_app, "login")
def login(
    options: Options,
    server: _Server,
    *,
    agent: _Agent = "",
    browser: Annotated[
        bool, typer.Option(help="Open a browser here, or only print the link.")
    ] = True,
    as_json: Json = False,
) -> int:
    """Log in at an MCP server that asks for it (OAuth); agents use it from the next call on."""
    return commands.logins.login(options, server, agent=agent, browser=browser, as_json=as_json)


@command(mcp_app, "logout")
def logout(options: Options, server: _Server, *, agent: _Agent = "", as_json: Json = False) -> int:
    """Forget the login at an MCP server."""
    return commands.logins.logout(options, server, agent=agent, as_json=as_json)


@command(mcp_app, "list")
def list_servers(options: Options, *, as_json: Json = False) -> int:
    """List the MCP servers of agents, and whether somebody is logged in."""
    return commands.logins.list_servers(options, as_json=as_json)
