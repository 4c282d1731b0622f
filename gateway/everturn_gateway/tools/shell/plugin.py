"""The plug-in `bash`."""

from __future__ import annotations

from typing import Final

from everturn_actors.ports import Tool
from everturn_gateway.plugins import ToolPlugin, ToolSetup
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.bash import BashTool
from everturn_gateway.tools.shell.confinement.sandbox import Confinement
from everturn_gateway.tools.shell.settings import (
    ConfinedConfig,
    ConfinedSettings,
    OutOfReach,
    plan_confined,
)
from everturn_gateway.yaml_files.fields import Seconds


class BashSettings(ConfinedSettings):
    """Runs commands in the agent's workspace."""

    timeout_seconds: Seconds = 120
    "Deadline of one command, unless the call asks for less."


class BashConfig(ConfinedConfig, frozen=True, kw_only=True):
    """`bash`."""

    timeout_s: float


def _config(section: BashSettings, confinement: Confinement) -> BashConfig:
    return BashConfig(confinement=confinement, timeout_s=section.timeout_seconds)


def _make(setup: ToolSetup[BashConfig]) -> tuple[Tool, ...]:
    confinement = setup.part(OutOfReach).confined(setup.settings.confinement)
    environment = setup.part(ToolEnvironment)
    return (BashTool(environment, confinement, timeout_s=setup.settings.timeout_s),)


BASH: Final = ToolPlugin(
    name="bash",
    interface=1,
    summary="runs commands in the agent's workspace",
    docs="docs/shell-and-processes.md",
    settings=BashSettings,
    plan=lambda request: plan_confined(request, BashSettings, _config),
    make=_make,
)
