"""Asks a running gateway about its agents, and about the tools of one."""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct

from everturn_gateway.client.answers import Json, value_of
from everturn_gateway.client.api import Api, ask_once


class ToolsNow(Struct, frozen=True, kw_only=True):
    """The tools of an agent, as a running gateway has them."""

    names: tuple[str, ...]
    "By the names that its model calls; those of MCP servers since its first turn."
    faults: tuple[str, ...]
    "What is wrong with them, one line each."


class AgentSummary(Struct, frozen=True, kw_only=True):
    """An agent that can be talked to."""

    name: str
    description: str


async def list_agents(api: Api) -> tuple[AgentSummary, ...]:
    """Return the agents that the caller may talk to, by name.

    Raises:
        ClientError: The gateway cannot be reached, or refuses.
    """
    return value_of(_summaries, await api.ask("GET", "/api/v1/agents", repeat=True))


def _summaries(data: Json) -> tuple[AgentSummary, ...]:
    return tuple(
        AgentSummary(name=each["name"], description=each["description"]) for each in data["agents"]
    )


async def ask_tools(url: str, agent: str, *, token: str) -> ToolsNow:
    """Return the tools of an agent of the gateway at `url`.

    Args:
        url: Where it listens.
        agent: The agent's name.
        token: Its API token; empty where it asks for none.

    Raises:
        CoreError: It refuses the request, or has no such agent.
        ClientError: It cannot be reached, or its answer is not understood.
    """
    said = await ask_once(url, "GET", f"/api/v1/agents/{quote(agent, safe='')}", token=token)
    return value_of(_tools, said)


def _tools(data: Json) -> ToolsNow:
    return ToolsNow(names=tuple(data["tools"]), faults=tuple(data["tool_faults"]))
