"""cli tools: programs of an agent's owner, declared in `agent.yaml` or found in `tools` folders."""

from __future__ import annotations

from everturn_gateway.tools.cli.programs import (
    CliProgram,
    CliToolError,
    Discovery,
    declared,
    discover,
)
from everturn_gateway.tools.cli.tool import CliTool

__all__ = ["CliProgram", "CliTool", "CliToolError", "Discovery", "declared", "discover"]
