"""The plug-in `memory`."""

from __future__ import annotations

from typing import Final, Literal

from everturn_gateway.plugins import PluginToolSection, ToolPlan, ToolPlugin
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.memory.tools import memory_directive, memory_tools


class MemorySection(PluginToolSection):
    """What the agent remembers beyond a session."""

    backend: Literal["filesystem"] = "filesystem"


MEMORY: Final = ToolPlugin(
    name="memory",
    interface=1,
    summary="notes that outlast a conversation",
    docs="docs/builtin-tools.md",
    settings=MemorySection,
    directive=memory_directive,
    plan=lambda request: ToolPlan(settings=request.entries[-1].settings, reaches_out=False),
    make=lambda setup: memory_tools(setup.part(ToolEnvironment), clock=setup.clock),
)
