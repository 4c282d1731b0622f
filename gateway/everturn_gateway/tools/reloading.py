"""The tool `reload_tools`: makes what was written into the agent's folder usable at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final

from msgspec import Struct

from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext
from everturn_gateway.plugins import ToolPlan, ToolPlugin
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments

NAME: Final = "reload_tools"
_DEADLINE_S: Final = 60.0  # a few folders are read; a disk that hangs is not waited for


class Reloading(Struct, frozen=True, kw_only=True):
    """How the tools of one agent are looked for again."""

    reload: Callable[[], Awaitable[str]]
    "Says in words what came and went, and what is wrong."


class _Arguments(Arguments):
    """It takes none."""


_CAPABILITIES: Final = ToolCapabilities(repeatable=True, safe=True, timeout_s=_DEADLINE_S)


@cache
def _definition() -> ToolDefinition:
    # With the first agent that has the tool: its schema takes a hundredth of a start.
    return ToolDefinition(
        name=NAME,
        description="Look for new and changed tools and skills, and use them from your next step"
        " on.",
        parameters=parameters(_Arguments),
    )


class ReloadTools:
    """Has the agent's tools and skills looked for again; implements `Tool`."""

    capabilities = _CAPABILITIES
    "It runs nothing of what it finds."

    def __init__(self, reload: Callable[[], Awaitable[str]]) -> None:
        """Call `reload`, which says in words what came and went, and what is wrong."""
        self.definition = _definition()
        self._reload = reload

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Look again, and return what changed.

        Raises:
            ToolFailedError: There are arguments, or it could not be looked for.
        """
        read_arguments(call, _Arguments)
        return await self._reload()


RELOAD_TOOLS: Final = ToolPlugin(
    name=NAME,
    interface=1,
    summary="makes what was written into the agent's folder usable at once",
    docs="docs/builtin-tools.md",
    plan=lambda request: ToolPlan(settings=request.entries[-1].settings, reaches_out=False),
    make=lambda setup: (ReloadTools(setup.part(Reloading).reload),),
)
