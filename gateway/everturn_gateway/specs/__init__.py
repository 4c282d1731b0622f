"""Agents as folders: read, checked, and reloaded when they change.

- `agent_files`: the files of an agent's folder, for people who edit them: listed, read, replaced,
  tried
- `agent_reader`: reads the folders of agents, each by itself: what is wrong in one costs no other
- `context`: from `spec.session.context` to the policy of an agent, with the agent's numbers
- `declared`: an agent that a program declares as values: what would stand in its `agent.yaml`, and
  its tools
- `jobs`: `spec.schedules` and `spec.heartbeat`: the scheduled jobs that stand in an agent's own
  file
- `library`: the agents of a gateway, and their reload while it runs
- `loading`: from an agent's folder to the values that the core works with
- `models`: the models that an agent's file names, and what talks to them
- `plugin_settings`: the settings of plug-ins in an agent's file
- `prompts`: the texts of an agent: named files in its folder, inline texts, directives,
  placeholders
- `reach`: what an agent's workspace must not hold: whatever makes the rules that the agent works by
- `schema`: the JSON Schema of `agent.yaml`, made from the models that check it
- `tool_sets`: puts an agent and its tools together
- `tooling`: from the tools, skills, hooks and policy of an agent's folder to its `ToolConfig`
- `values`: from the sections of `agent.yaml` to the values that the core works with
- `settings/`: the fields of `agent.yaml`, as models: what may stand there, not what is done with it
"""

from __future__ import annotations

from everturn_gateway.specs.agent_reader import AgentDefaults
from everturn_gateway.specs.library import AgentLibrary, ReloadReport, open_library
from everturn_gateway.specs.loading import AgentFile, load_agent
from everturn_gateway.specs.models import check_models
from everturn_gateway.specs.schema import agent_schema, schema_text

__all__ = [
    "AgentDefaults",
    "AgentFile",
    "AgentLibrary",
    "ReloadReport",
    "agent_schema",
    "check_models",
    "load_agent",
    "open_library",
    "schema_text",
]
