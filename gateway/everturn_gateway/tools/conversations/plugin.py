"""The plug-ins `session` and `delegate`."""

from __future__ import annotations

from typing import Final

from everturn_actors.ports import Tool
from everturn_gateway.plugins import (
    PluginToolSettings,
    ToolPlan,
    ToolPlugin,
    ToolRequest,
    ToolSetup,
)
from everturn_gateway.tools.conversations.delegating import Delegate
from everturn_gateway.tools.conversations.sessions import SessionTool
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.yaml_files.fields import AgentName, Count


class SessionSettings(PluginToolSettings):
    """Lists and reads the agent's conversations, and writes to others where that is allowed."""

    send_to: tuple[str, ...] = ()
    "Conversations as channel:chat, a trailing * matches the rest; by default none."
    read_from: tuple[str, ...] = ()
    "Conversations that it may read, in the same form; by default its own alone."


class DelegateSettings(PluginToolSettings):
    """Lets another agent, or this one afresh, work on a task and return its conclusion."""

    agents: tuple[AgentName, ...] = ()
    "Who may be asked; by default the agent itself alone."
    max_depth: Count = 2
    "How deep delegates may delegate."


def _plan(request: ToolRequest) -> ToolPlan:
    return ToolPlan(settings=request.entries[-1].settings, reaches_out=False)


def _session(setup: ToolSetup[SessionSettings]) -> tuple[Tool, ...]:
    section, environment = setup.settings, setup.part(ToolEnvironment)
    return (SessionTool(environment, send_to=section.send_to, read_from=section.read_from),)


def _delegate(setup: ToolSetup[DelegateSettings]) -> tuple[Tool, ...]:
    section, environment = setup.settings, setup.part(ToolEnvironment)
    return (Delegate(environment, agents=section.agents, max_depth=section.max_depth),)


SESSION: Final = ToolPlugin(
    name="session",
    interface=1,
    summary="lists and reads the agent's conversations, and writes to others",
    docs="docs/builtin-tools.md",
    settings=SessionSettings,
    plan=_plan,
    make=_session,
)
DELEGATE: Final = ToolPlugin(
    name="delegate",
    interface=1,
    summary="lets another agent, or this one afresh, work on a task",
    docs="docs/builtin-tools.md",
    settings=DelegateSettings,
    plan=_plan,
    make=_delegate,
)
