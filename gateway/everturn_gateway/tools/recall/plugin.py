"""The plug-in `recall_context`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from everturn_actors.ports import Tool
from everturn_gateway.plugins import ToolPlan, ToolPlugin, ToolSetup
from everturn_gateway.tools.recall.tool import RecallContext


class RecallConfig(Struct, frozen=True, kw_only=True):
    """`recall_context`."""

    page_characters: int
    "How much it answers at once."


def _make(setup: ToolSetup[RecallConfig]) -> tuple[Tool, ...]:
    return (RecallContext(page_characters=setup.settings.page_characters),)


def plan_recall(page_characters: int) -> ToolPlan:
    """Return the plan for an agent whose policy keeps so much of a result whole."""
    return ToolPlan(settings=RecallConfig(page_characters=page_characters), reaches_out=False)


RECALL_CONTEXT: Final = ToolPlugin(
    name="recall_context",
    interface=1,
    summary="reads back what is hidden from the model",
    docs="docs/context.md",
    given_by="spec.session.context.recall",
    make=_make,
)
