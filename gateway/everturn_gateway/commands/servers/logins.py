"""Log in at the MCP servers of agents, and out. Works with and without a gateway."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from anyio import to_thread

from everturn_actors.state.serialization import utc_text
from everturn_gateway.app import open_keyed
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.agents import check_agents
from everturn_gateway.commands.servers.loopback import Loopback, open_loopback
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.extras import extra
from everturn_gateway.commands.shared.moments import minute_text
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done, print_json
from everturn_gateway.commands.shared.settings import load, make_private, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.settings import Config
from everturn_gateway.doctor.logins import RemoteServer, remote_servers
from everturn_gateway.errors import GatewayError
from everturn_gateway.late_loading import late
from everturn_gateway.specs import AgentFile
from everturn_gateway.tools.mcp import McpLogins, McpServerSettings
from everturn_gateway.tools.mcp.oauth import McpLogin
from everturn_gateway.tools.mcp.session import MODULES

if TYPE_CHECKING:  # an extra, heavy
    from everturn_gateway.tools.mcp.oauth import flow
else:
    flow = late("everturn_gateway.tools.mcp.oauth.flow")

NO_BROWSER_PORT = 8765  # nobody listens there: a person reads the address off a browser elsewhere


def login(options: Options, name: str, *, agent: str, browser: bool, as_json: bool = False) -> int:
    """Let a person log in at a server; return the exit code.

    Args:
        options: Where the configuration is.
        name: The server's, as agents call it.
        agent: Whose, where agents mean different addresses by it; empty = any.
        browser: Open a browser here; else the person is given the link.
        as_json: Print the login as JSON, as `list_servers` does.

    Raises:
        GatewayError: There is no such server, or nobody logged in.
        McpLoginError: It offers no login, or the person said no.
    """
    with extra("everturn mcp login", "mcp", "mcp", *MODULES):
        log_in = flow.log_in
    config = load(options)
    settings = _named(remote_servers(_agents(config)), name, agent).settings
    if settings.is_signed:
        msg = f"{name}: its headers hold an Authorization already; leave it out to log in"
        raise GatewayError(msg)
    make_private(config.workspace)

    async def main() -> McpLogin:
        async with open_keyed(config, is_change=True) as keyed:
            logins = McpLogins(keyed, SystemClock(), crash_log.secrets)
            if not browser:
                port = settings.oauth.redirect_port or NO_BROWSER_PORT
                back = f"http://127.0.0.1:{port}/callback"
                return await log_in(settings, redirect_uri=back, browse=_paste, logins=logins)
            with open_loopback(settings.oauth.redirect_port) as loopback:
                return await log_in(
                    settings,
                    redirect_uri=loopback.redirect_uri,
                    browse=_back_from(loopback),
                    logins=logins,
                )

    made = run_async(main)
    state = _state(made, SystemClock().now())
    record = {"server": name, "place": made.url, "login": state, "expires_at": _end(made)}
    print_done(f"logged in at {made.url}: {state}", record, as_json=as_json)
    return EXIT_OK


def _back_from(loopback: Loopback) -> Callable[[str], Awaitable[str]]:
    """Return what opens a browser here, and waits until it is back."""

    async def browse(page: str) -> str:
        loopback.expect(page)
        say(f"log in here: {page}")
        await to_thread.run_sync(webbrowser.open, page, abandon_on_cancel=True)
        return await to_thread.run_sync(loopback.wait, abandon_on_cancel=True)

    return browse


async def _paste(page: str) -> str:
    say(f"log in here, with any browser: {page}")
    say("it ends at an address of this machine, which it may fail to open; paste that address:")
    address: str = await to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    if not address.strip():
        msg = "no address was pasted, and nobody is logged in"
        raise GatewayError(msg)
    return address.strip()


def logout(options: Options, name: str, *, agent: str, as_json: bool = False) -> int:
    """Forget the login at a server; return the exit code, 1 where there was none.

    Raises:
        GatewayError: There is no such server, or the login cannot be removed.
    """
    config = load(options)
    url = _named(remote_servers(_agents(config)), name, agent).settings.url

    async def main() -> bool:
        async with open_keyed(config, is_change=True) as keyed:
            return await McpLogins(keyed, SystemClock(), crash_log.secrets).remove(url)

    was_there = run_async(main)
    text = (
        f"logged out of {url}: its token is forgotten here, and may live on there"
        if was_there
        else f"nobody was logged in at {url}"
    )
    record = {"server": name, "place": url, "login": "none", "logged_out": was_there}
    print_done(text, record, as_json=as_json)
    return EXIT_OK if was_there else EXIT_FAILED


def list_servers(options: Options, *, as_json: bool) -> int:
    """Print the MCP servers of all agents, and whether somebody is logged in; return the exit code.

    Raises:
        McpLoginError: A login cannot be read.
    """
    config, now = load(options), SystemClock().now()
    agents = _agents(config)
    known = _known(config)
    rows = [
        (
            settings.name,
            agent.spec.name,
            settings.url or settings.command,
            _told(settings, known.get(settings.url), now),
        )
        for agent in agents
        for settings in agent.tool_config.mcp
    ]
    if as_json:
        print_json(
            [
                {
                    "server": name,
                    "agent": agent,
                    "place": place,
                    "login": login,
                    "expires_at": _end(known.get(place)),
                }
                for name, agent, place, login in rows
            ]
        )
    elif rows:
        print_table(("server", "agent", "command or address", "login"), rows)
    else:
        sys.stdout.write(
            "no agent has an MCP server; `everturn help mcp` shows how to give it one\n"
        )
    return EXIT_OK


def _end(login: McpLogin | None) -> str | None:
    """Return when a login ends; None where nobody knows, or there is none."""
    return utc_text(login.expires_at) if login and login.expires_at else None


def _agents(config: Config) -> Sequence[AgentFile]:
    agents, faults = check_agents(config)
    for fault in faults:
        say(str(fault))
    return agents


def _known(config: Config) -> Mapping[str, McpLogin]:
    async def read() -> tuple[McpLogin, ...]:
        async with open_keyed(config, is_change=False) as keyed:
            return await McpLogins(keyed, SystemClock(), crash_log.secrets).all()

    return {each.url: each for each in run_async(read)}


def _named(servers: Sequence[RemoteServer], name: str, agent: str) -> RemoteServer:
    found = [
        each
        for each in servers
        if each.settings.name == name and (not agent or agent in each.agents)
    ]
    if not found:
        names = sorted({each.settings.name for each in servers})
        there = f"there are: {', '.join(names)}" if names else "no agent has one"
        whose = f" of {agent}" if agent else ""
        msg = f"no MCP server{whose} with a url is called {name!r}; {there}"
        raise GatewayError(msg)
    if len(found) > 1:
        whose = ", ".join(each.agents[0] for each in found)
        msg = f"{name!r} is another address for each of these agents, name one by --agent: {whose}"
        raise GatewayError(msg)
    return found[0]


def _told(settings: McpServerSettings, login: McpLogin | None, now: datetime) -> str:
    if not settings.url:
        return "none: a program"
    if settings.is_signed:
        return "none: its headers say who asks"
    return _state(login, now) if login is not None else "none"


def _state(login: McpLogin, now: datetime) -> str:
    if login.is_over(now):
        return "over; log in again"
    if login.refresh_token or login.expires_at is None:
        return "holds until it is taken back"
    return f"holds until {minute_text(login.expires_at)}"
