"""The plug-in `background_process`."""

from __future__ import annotations

from typing import Final

from everturn_actors.ports import Tool
from everturn_gateway.plugins import ToolPlugin, ToolSetup
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.processes.table import ProcessTable
from everturn_gateway.tools.processes.tool import BackgroundProcess
from everturn_gateway.tools.shell.confinement.sandbox import Confinement
from everturn_gateway.tools.shell.settings import (
    ConfinedConfig,
    ConfinedSettings,
    OutOfReach,
    plan_confined,
)
from everturn_gateway.yaml_files.fields import Count


class ProcessSettings(ConfinedSettings):
    """Runs commands that go on while the conversation does."""

    max_processes: Count = 8
    "Running at the same time, for this agent."


class ProcessConfig(ConfinedConfig, frozen=True, kw_only=True):
    """`background_process`."""

    max_processes: int


def _config(section: ProcessSettings, confinement: Confinement) -> ProcessConfig:
    return ProcessConfig(confinement=confinement, max_processes=section.max_processes)


def _make(setup: ToolSetup[ProcessConfig]) -> tuple[Tool, ...]:
    confinement = setup.part(OutOfReach).confined(setup.settings.confinement)
    environment, table = setup.part(ToolEnvironment), setup.part(ProcessTable)
    return (BackgroundProcess(environment, table, confinement, setup.settings.max_processes),)


BACKGROUND_PROCESS: Final = ToolPlugin(
    name="background_process",
    interface=1,
    summary="runs commands that go on while the conversation does",
    docs="docs/shell-and-processes.md",
    settings=ProcessSettings,
    plan=lambda request: plan_confined(request, ProcessSettings, _config),
    make=_make,
)
