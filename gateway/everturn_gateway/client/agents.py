"""Asks a running gateway about its agents, and about tools, prompts and models of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from everturn_actors.model import ChosenModel
from everturn_channels.models import AgentModels, ModelChoice, SessionModels
from everturn_channels.prompts import OfferedPrompt
from everturn_gateway.client.answers import Json, session_path, value_of
from everturn_gateway.client.api import Api, ask_once

PROMPT_S: Final = 180.0  # a server may have to be started, and has its own time to answer


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


class PromptClient:
    """What MCP servers have for people to send; see `Prompts`, the port of that."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def offered(self, agent: str) -> Sequence[OfferedPrompt]:
        """Return what MCP servers of an agent have for people to send."""
        data = await self._api.ask("GET", _prompts(agent), repeat=True, silence_s=PROMPT_S)
        return value_of(_offered, data)

    async def text(self, agent: str, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt, with its places filled in; it is from outside."""
        body = {"name": name, "arguments": dict(arguments)}
        data = await self._api.ask("POST", _prompts(agent), body=body, silence_s=PROMPT_S)
        return str(data["content"])


def _prompts(agent: str) -> str:
    return f"/api/v1/agents/{quote(agent, safe='')}/prompts"


def _offered(data: Json) -> tuple[OfferedPrompt, ...]:
    return tuple(
        OfferedPrompt(
            name=each["name"],
            description=each["description"],
            required=tuple(a["name"] for a in each["arguments"] if a["required"]),
            optional=tuple(a["name"] for a in each["arguments"] if not a["required"]),
        )
        for each in data["prompts"]
    )


class ModelClient:
    """Which model answers in sessions; see `Models`, the port of that."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def of(self, session_id: str) -> SessionModels:
        """Return which model answers in a session, and which others there are."""
        return value_of(_session_models, await self._api.get(f"{session_path(session_id)}/model"))

    async def choose(self, session_id: str, name: str) -> SessionModels:
        """Have another model answer from the next turn on; empty: the agent's own again."""
        path, body = f"{session_path(session_id)}/model", {"model": name}
        data = await self._api.ask("PUT", path, body=body, repeat=True)  # twice is once
        return value_of(_session_models, data)


def _session_models(data: Json) -> SessionModels:
    return SessionModels(
        models=AgentModels(
            own=_model_choice(data["own"]), others=tuple(map(_model_choice, data["others"]))
        ),
        chosen=_model_choice(data["model"]) if data["is_chosen"] else None,
    )


def _model_choice(data: Json) -> ModelChoice:
    provider, _, name = data["model"].partition("/")
    cost_in, cost_out = data["input_usd"], data["output_usd"]
    return ModelChoice(
        model=ChosenModel(provider=provider, name=name),
        window_tokens=data["window_tokens"],
        price=None if cost_in is None or cost_out is None else (cost_in, cost_out),
    )
