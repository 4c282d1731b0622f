"""Agents as folders: read, checked, and reloaded when they change."""

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
