"""The plug-ins `files` and `send_file`."""

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
from everturn_gateway.tools.files.sending import send_file_tool
from everturn_gateway.tools.files.tools import file_tools
from everturn_gateway.tools.policy.judged_writes import JudgedWrites


class FilesSettings(PluginToolSettings):
    """read_file, write_file, edit_file, list_files and search_files in the agent's workspace."""

    read_only: bool = False
    "Whether write_file and edit_file are left out."


def _plan(request: ToolRequest) -> ToolPlan:
    section = request.settings(FilesSettings)
    return ToolPlan(
        settings=section,
        reads_workspace=True,
        writes_workspace=not section.read_only,
        reaches_out=False,
    )


def _make(setup: ToolSetup[FilesSettings]) -> tuple[Tool, ...]:
    environment, judged = setup.part(ToolEnvironment), setup.part(JudgedWrites)
    return file_tools(environment, read_only=setup.settings.read_only, judged=judged)


FILES: Final = ToolPlugin(
    name="files",
    interface=1,
    summary="reads, writes, lists and searches files of the agent's workspace",
    docs="docs/builtin-tools.md",
    settings=FilesSettings,
    plan=_plan,
    make=_make,
)
SEND_FILE: Final = ToolPlugin(
    name="send_file",
    interface=1,
    summary="sends a file of the agent's workspace to the people of the conversation",
    docs="docs/builtin-tools.md",
    plan=lambda request: ToolPlan(settings=request.entries[-1].settings, reaches_out=False),
    make=lambda setup: (send_file_tool(setup.part(ToolEnvironment)),),
)
