"""Which logins at MCP servers are over."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from everturn_actors.ports import KeyedStore
from everturn_gateway.clock import SystemClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.specs import AgentFile
from everturn_gateway.tools.mcp import McpLogins, McpServerSettings


class RemoteServer(Struct, frozen=True, kw_only=True):
    """A server behind an address, and the agents that have it by one name."""

    settings: McpServerSettings
    agents: tuple[str, ...]


async def login_notes(
    keyed: KeyedStore, secrets: SecretRegistry, agents: Sequence[AgentFile]
) -> list[str]:
    """Return which logins are over, a line each.

    Raises:
        McpLoginError: A login cannot be read.
    """
    now = SystemClock().now()
    logins = await McpLogins(keyed, SystemClock(), secrets).all()
    known = {each.url: each for each in logins}
    return [
        f"MCP server {each.settings.name!r} of {', '.join(each.agents)}: its login is over;"
        f" `everturn mcp login {each.settings.name}`"
        for each in remote_servers(agents)
        if (made := known.get(each.settings.url)) is not None and made.is_over(now)
    ]


def sampling_notes(agent: AgentFile) -> list[str]:
    """Return which MCP servers of an agent may use a model, a line each."""
    notes: list[str] = []
    for server in agent.tool_config.mcp:
        if (limits := server.sampling) is not None:
            model = limits.model or agent.spec.model
            each = f"{limits.max_calls} times a call, {limits.max_tokens:,} tokens each"
            notes.append(
                f"MCP server {server.name!r} may use {model.provider} / {model.name} in the agent's"
                f" name and at its cost: {each} (`sampling`)"
            )
    return notes


def remote_servers(agents: Sequence[AgentFile]) -> list[RemoteServer]:
    """Return the servers behind an address, those that several agents have once."""
    found: dict[tuple[str, str], RemoteServer] = {}
    for agent in agents:
        for settings in filter(lambda each: each.url, agent.tool_config.mcp):
            key = (settings.name, settings.url)
            before = found[key].agents if key in found else ()
            found[key] = RemoteServer(settings=settings, agents=(*before, agent.spec.name))
    return list(found.values())
