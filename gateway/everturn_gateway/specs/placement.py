"""Whether an agent can work on any node, or has a home: its tools have a folder on one machine."""

from __future__ import annotations

from typing import Final

from everturn_gateway.specs.loading import AgentFile
from everturn_gateway.tools.config import ToolConfig, confinements

_KEEPING: Final = frozenset(("background_process", "memory"))
"Tools that keep something on the machine beside the agent's files."


def has_home(file: AgentFile, *, is_one_machine: bool = False) -> bool:
    """Say whether one node works on all sessions of an agent.

    Args:
        file: The agent; what its `spec.placement` says holds.
        is_one_machine: Whether all nodes have the same folders: then none needs a home.
    """
    if file.placement is not None:
        return file.placement == "home"
    return not is_one_machine and works_with_files(file.tool_config)


def works_with_files(config: ToolConfig) -> bool:
    """Say whether tools of an agent touch files, run commands, or keep notes."""
    return (
        any(
            use.plan.reads_workspace or use.plan.writes_workspace or use.plugin.name in _KEEPING
            for use in config.uses
        )
        or bool(confinements(config) or config.found)
        or any(server.command for server in config.mcp)
    )
