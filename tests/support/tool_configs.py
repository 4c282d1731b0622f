"""What an agent is given whose file names tools and says no more of them."""

from __future__ import annotations

from pathlib import Path

from everturn_gateway.plugins import ToolEntry, ToolRequest, installed
from everturn_gateway.tools.config import ToolConfig, ToolUse


def config_of(*names: str) -> ToolConfig:
    """Return the config of an agent with the tools of these plug-ins."""
    return ToolConfig(uses=tuple(map(_use, names)))


def _use(name: str) -> ToolUse:
    plugin = installed().tools.get(name)
    assert plugin is not None, name
    entry = ToolEntry(name=name, settings=plugin.settings())
    request = ToolRequest(entries=(entry,), home=Path("/nowhere"), state=None, environ={})
    return ToolUse(plugin=plugin, entries=(entry,), plan=plugin.plan(request))
