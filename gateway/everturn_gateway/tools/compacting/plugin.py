"""The plug-in `compact_context`."""

from __future__ import annotations

from typing import Annotated, Final

import anyio
from pydantic import Field

from everturn_actors.context.summaries import FOCUS_CHARACTERS
from everturn_actors.errors import CoreError, ToolFailedError
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext
from everturn_gateway.plugins import PluginToolSettings, ToolPlan, ToolPlugin, ToolSetup
from everturn_gateway.tools.arguments import Arguments
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment
from everturn_gateway.tools.function import FunctionTool

NAME: Final = "compact_context"
WAIT_S: Final = 60.0  # then the summary goes on beside the turn
_CAPABILITIES: Final = ToolCapabilities(repeatable=True, safe=True, timeout_s=WAIT_S + 30)
_NOT_PASSED_ON: Final = (
    " What to keep was not passed on: text from outside is shown in this turn, and whoever writes"
    " the summary would take it for a person's wish."
)


class CompactContext(Arguments):
    """What to keep."""

    keep: Annotated[str, Field(max_length=FOCUS_CHARACTERS)] = Field(
        default="", description="what the summary should keep above all"
    )


def compact_tool(link: ServiceLink, *, wait_s: float = WAIT_S) -> Tool:
    """Return the tool that has older turns of the session summarised.

    Args:
        link: Where the service is connected.
        wait_s: After so long the call ends, and the summary goes on.
    """

    async def answer(asked: CompactContext, context: ToolContext) -> str:
        # A summary is asked for in words that its writer trusts.
        is_tainted = bool(sources_behind(context))
        keep = "" if is_tainted else asked.keep.strip()
        note = _NOT_PASSED_ON if is_tainted and asked.keep.strip() else ""
        try:
            with anyio.move_on_after(wait_s):
                made = await link.service.compact(context.session_id, keep)
                if not made.done:
                    return f"{made.text}{note}"
                return (
                    f"Summarised: {made.messages:,} older messages; the next request has about"
                    f" {made.tokens_after:,} tokens, and would have had {made.tokens_before:,}."
                    f" This turn is not a part of it.{note}"
                )
        except CoreError as error:
            raise ToolFailedError(str(error)) from error
        return f"The summary is being written, and takes its place when it is ready.{note}"

    return FunctionTool(
        NAME,
        "Have the older turns of this conversation summarised now, to make room: before long work,"
        " or when something is finished. They stay readable.",
        arguments=CompactContext,
        capabilities=_CAPABILITIES,
        answer=answer,
    )


def _make(setup: ToolSetup[PluginToolSettings]) -> tuple[Tool, ...]:
    return (compact_tool(setup.part(ToolEnvironment).link),)


COMPACT_CONTEXT: Final = ToolPlugin(
    name=NAME,
    interface=1,
    summary="has older turns summarised when the model asks for it",
    docs="docs/builtin-tools.md",
    plan=lambda request: ToolPlan(settings=request.entries[-1].settings, reaches_out=False),
    make=_make,
)
