"""How a command gets to the conversations: through the running gateway, or by opening one."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.to_thread

from everturn_actors.errors import UnknownAgentError, WorkspaceLockedError
from everturn_actors.model import ConversationKey
from everturn_channels.terminal.client import Client
from everturn_gateway import commands
from everturn_gateway.client import Api, SessionClient, open_api
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.options import DEFAULT_AGENT
from everturn_gateway.commands.shared.settings import (
    admin_token,
    api_token,
    log_to_file,
    require_agents,
)
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import ConfigError, GatewayError

_STARTING_S = 3.0  # a gateway that was just started holds the workspace before it listens
_LOOK_AGAIN_S = 0.1


@asynccontextmanager
async def open_client(config: Config, *, resume: bool = True) -> AsyncGenerator[SessionClient]:
    """Open the way to the conversations of the workspace; see `open_workspace_api`."""
    async with open_workspace_api(config, resume=resume) as api:
        yield SessionClient(api)


@asynccontextmanager
async def open_workspace_api(
    config: Config, *, resume: bool, is_admin: bool = False
) -> AsyncGenerator[Api]:
    """Open the API of the gateway of a workspace: of the one that runs, or of one opened for this.

    Warnings are written to the log of the workspace meanwhile.

    Args:
        config: Names the workspace.
        resume: Where no gateway runs: let turns that were open go on, and wait for them at the end.
            Without it this is a short look.
        is_admin: What is asked for is for the administration.

    Raises:
        WorkspaceLockedError: Another process has the workspace, and serves nobody.
        ClientError: The running gateway refuses.
    """
    async with AsyncExitStack() as stack:

        def prepare() -> None:
            if not config.workspace.exists():
                require_agents(config)
            stack.enter_context(log_to_file(config, crash_log.secrets))

        await anyio.to_thread.run_sync(prepare)
        yield await _enter(config, stack, resume=resume, is_admin=is_admin)


async def _enter(config: Config, stack: AsyncExitStack, *, resume: bool, is_admin: bool) -> Api:
    deadline = anyio.current_time() + _STARTING_S
    while True:
        running = await find_running(config.workspace)
        if running is not None:
            token = (admin_token(config) if is_admin else "") or api_token(config)
            over_http = open_api(running.url, token=token)
            return await stack.enter_async_context(over_http)
        try:
            # The whole gateway is loaded only where there is none to talk to.
            opening = commands.own_gateway.open_own(config, resume=resume)
            return await stack.enter_async_context(opening)
        except WorkspaceLockedError:
            if anyio.current_time() > deadline:
                raise
            await anyio.sleep(_LOOK_AGAIN_S)


async def pick_agent(name: str, client: Client, config: Config) -> str:
    """Return the agent to talk to through `client`; raises what `choose_agent` raises."""
    known = await client.agents()
    return await anyio.to_thread.run_sync(choose_agent, name, known, config)


def choose_agent(name: str, known: Sequence[str], config: Config) -> str:
    """Return the agent to talk to.

    Args:
        name: What was asked for; empty = nothing was.
        known: The agents that are loaded.
        config: Where the agents are, to say what is wrong with one that is not loaded.

    Raises:
        ConfigError: The agent, or every agent, has faults.
        UnknownAgentError: There is none of this name.
        GatewayError: There are several, and none was named; or there are none.
    """
    if name in known:
        return name
    if not name and len(known) == 1:
        return known[0]
    if not name and DEFAULT_AGENT in known:
        return DEFAULT_AGENT
    if not name and known:
        msg = f"which agent? There are: {', '.join(known)}"
        raise GatewayError(msg)
    require_agents(config)
    _, faults = commands.agents.check_agents(config)
    mine = [fault for fault in faults if not name or name in fault.file.parts]
    if mine:
        raise ConfigError(faults=mine)
    if name:
        raise UnknownAgentError(name, tuple(known))
    msg = f"there is no agent in {config.agents_dir}; `everturn init` creates a first one"
    raise GatewayError(msg)


def conversation_key(agent: str, *, suffix: str = "") -> ConversationKey:
    """Return the conversation of whoever sits at this terminal with an agent."""
    return ConversationKey(channel="terminal", chat=f"{user_name()}{suffix}", agent=agent)


def user_name() -> str:
    """Return the name of the user whose process this is."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return str(os.getuid())  # a container may have no name for it
