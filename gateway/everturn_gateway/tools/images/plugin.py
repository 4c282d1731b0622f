"""The plug-in `view_image`."""

from __future__ import annotations

from typing import Final

from everturn_gateway.plugins import ToolPlan, ToolPlugin
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.images.viewing import view_image_tool

VIEW_IMAGE: Final = ToolPlugin(
    name="view_image",
    interface=1,
    summary="shows the model images of the agent's workspace",
    docs="docs/builtin-tools.md",
    plan=lambda request: ToolPlan(
        settings=request.entries[-1].settings, reads_workspace=True, reaches_out=False
    ),
    make=lambda setup: (view_image_tool(setup.part(ToolEnvironment)),),
)
