"""A service whose agents can talk to each other and to themselves; their model follows a plan.

def plan(request):              # what any agent answers to the newest message it reads
    return calls(...) if ... else "done"

async with open_agents(plan, tools_of) as test: ...
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio
from msgspec.structs import replace
from support.patience import WAIT_S
from support.tool_environments import tool_environment

from everturn_actors.events import Event
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    ConversationKey,
    IncomingMessage,
    ModelRequest,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from everturn_actors.ports import Agent, Gate, Tool
from everturn_actors.service import TurnResult
from everturn_actors.spec import AgentSpec
from everturn_actors.testing import ScriptedProvider, TestService, make_spec, open_test_service
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment

Plan: TypeAlias = Callable[[ModelRequest], str | Reply]
ToolsOf: TypeAlias = Callable[[ToolEnvironment], tuple[Tool, ...]]
"Makes the tools of an agent."


class Thinker(ScriptedProvider):
    """A model that answers each request as a plan says, whichever conversation it is from."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        self.script.insert(0, self._plan(request))
        return await super().complete(request, on_text)


@asynccontextmanager
async def open_agents(
    plan: Plan,
    tools_of: ToolsOf,
    *,
    names: tuple[str, ...] = ("test",),
    disk: MemoryDisk | None = None,
    spec: AgentSpec | None = None,
    gate: Gate | None = None,
) -> AsyncGenerator[TestService]:
    """Open a service with agents of these names; every one has its own tools and the same model."""
    link = ServiceLink()
    model = Thinker(plan)
    async with open_test_service(
        disk=disk, provider=model, spec=spec, gate=gate, tools=_tools(tools_of, "test", link)
    ) as test:
        first = test.agents.agents["test"]
        for name in names:
            made = Agent(
                spec=replace(spec or make_spec(), name=name),
                provider=model,
                tools=_tools(tools_of, name, link),
                gate=gate,
            )
            test.agents.agents[name] = first if name == "test" else made
        link.connect(test.service)
        yield test


def _tools(tools_of: ToolsOf, agent: str, link: ServiceLink) -> dict[str, Tool]:
    return {
        each.definition.name: each for each in tools_of(tool_environment(agent=agent, link=link))
    }


def asks(name: str, *calls: Mapping[str, object]) -> Reply:
    """Return a reply that calls a tool once for each of these arguments: `c1`, `c2` and so on."""
    made = tuple(
        ToolCall(call_id=f"c{number}", name=name, arguments=json.dumps(arguments))
        for number, arguments in enumerate(calls, 1)
    )
    return Reply(calls=made, stop_reason="tool_calls")


def newest(request: ModelRequest) -> str:
    """Return the text of the newest message that is no reply."""
    found = [m.text for m in request.messages if isinstance(m, UserMessage | ToolResult)]
    return found[-1]


async def say(
    test: TestService, text: str, *, key: ConversationKey | None = None, sender: str = ""
) -> TurnResult:
    """Submit a message and wait for its answer."""
    inbound = IncomingMessage(text=text, key=key or test.key(), sender=sender)
    with anyio.fail_after(WAIT_S):
        return await (await test.service.submit(inbound)).result()


async def log_of(test: TestService, session_id: str) -> tuple[Event, ...]:
    """Return all events of a session."""
    return await test.service.history(session_id, after=0, limit=10_000)


async def results_of(test: TestService, session_id: str) -> list[ToolResult]:
    """Return the results of all calls of a session's held turns, oldest first."""
    state = await test.service.view(session_id)
    return [result for turn in state.held_turns for step in turn.steps for result in step.results]


async def sessions_in(test: TestService, channel: str) -> list[str]:
    """Return the ids of the sessions of a channel, by their conversations' names."""
    rows = await test.service.reader.sessions(limit=1_000)
    found = sorted(
        (row.key.chat, row.key.topic, row.session_id) for row in rows if row.key.channel == channel
    )
    return [session_id for _, _, session_id in found]
