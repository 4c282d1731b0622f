"""The plug-in `bash`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from everturn_actors.ports import Tool
from everturn_gateway.plugins import ToolPlan, ToolPlugin, ToolRequest, ToolSetup
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.bash import BashTool
from everturn_gateway.tools.shell.settings import (
    ConfinedConfig,
    ConfinedSection,
    OutOfReach,
    read_confinement,
)
from everturn_gateway.yaml_files.fields import Seconds


class BashSection(ConfinedSection):
    """Runs commands in the agent's workspace."""

    timeout_seconds: Seconds = 120
    "Deadline of one command, unless the call asks for less."


@dataclass(frozen=True, slots=True, kw_only=True)
class BashConfig(ConfinedConfig):
    """`bash`."""

    timeout_s: float


def _plan(request: ToolRequest) -> ToolPlan:
    section = request.settings(BashSection)
    read = read_confinement(section, folder=request.home, state=request.state)
    return ToolPlan(
        settings=BashConfig(confinement=read.confinement, timeout_s=section.timeout_seconds),
        reads_workspace=True,
        writes_workspace=True,
        faults=read.faults,
        warnings=read.warnings,
    )


def _make(setup: ToolSetup[BashConfig]) -> tuple[Tool, ...]:
    confinement = setup.part(OutOfReach).confined(setup.settings.confinement)
    environment = setup.part(ToolEnvironment)
    return (BashTool(environment, confinement, timeout_s=setup.settings.timeout_s),)


BASH: Final = ToolPlugin(
    name="bash",
    interface=1,
    summary="runs commands in the agent's workspace",
    docs="docs/shell-and-processes.md",
    settings=BashSection,
    plan=_plan,
    make=_make,
)
