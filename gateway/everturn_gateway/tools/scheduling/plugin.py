"""The plug-in `schedule`."""

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
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.processes.table import ProcessTable
from everturn_gateway.tools.scheduling.tool import ScheduleTool
from everturn_gateway.yaml_files.fields import Count


class ScheduleSettings(PluginToolSettings):
    """Sends messages and does tasks at their time, in the conversation that asked for them."""

    max_jobs: Count = 20
    "That are to come at the same time, all conversations of this agent together."
    min_interval_seconds: Count = 60
    "The shortest time between two runs of a job."


def _plan(request: ToolRequest) -> ToolPlan:
    """Return the one tool; of several names for it, each number counts as it is written last."""
    written: dict[str, int] = {}
    for entry in request.entries:
        written |= entry.settings.model_dump(exclude_unset=True)
    return ToolPlan(settings=ScheduleSettings(**written))


def _make(setup: ToolSetup[ScheduleSettings]) -> tuple[Tool, ...]:
    return (
        ScheduleTool(
            setup.part(ToolEnvironment),
            setup.clock,
            setup.part(ProcessTable),
            max_jobs=setup.settings.max_jobs,
            min_interval_s=setup.settings.min_interval_seconds,
        ),
    )


SCHEDULE: Final = ToolPlugin(
    name="schedule",
    also=("cancel_schedule", "list_schedules", "schedule_task"),  # as older agents call it
    interface=1,
    summary="sends messages and does tasks at their time",
    docs="docs/schedules.md",
    settings=ScheduleSettings,
    plan=_plan,
    make=_make,
)
