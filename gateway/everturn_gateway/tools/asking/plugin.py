"""The plug-in `ask_user`."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from everturn_actors.ports import Tool
from everturn_gateway.plugins import PluginToolSettings, ToolPlan, ToolPlugin, ToolSetup
from everturn_gateway.tools.asking.ask_user import AskUserTool

_MONTH_S: Final = 30 * 24 * 3600


class AskUserSettings(PluginToolSettings):
    """Asks the people of the conversation something, with choices."""

    timeout_seconds: Annotated[int, Field(ge=1, le=_MONTH_S)] = 3600
    "How long there is to answer; then the agent goes on without."
    approvers: tuple[str, ...] = ()
    "Who may answer, by sender id, a trailing * matches the rest; by default who asked the agent."


def _make(setup: ToolSetup[AskUserSettings]) -> tuple[Tool, ...]:
    section = setup.settings
    return (AskUserTool(timeout_s=section.timeout_seconds, approvers=section.approvers),)


ASK_USER: Final = ToolPlugin(
    name="ask_user",
    interface=1,
    summary="asks the people of the conversation something, with choices",
    docs="docs/builtin-tools.md",
    settings=AskUserSettings,
    plan=lambda request: ToolPlan(settings=request.entries[-1].settings, reaches_out=False),
    make=_make,
)
