"""The plug-in `recall_context`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from everturn_actors.ports import Tool
from everturn_gateway.plugins import ToolPlan, ToolPlugin, ToolSetup
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.recall.pages import PageSize
from everturn_gateway.tools.recall.tool import RecallContext


class RecallConfig(Struct, frozen=True, kw_only=True):
    """`recall_context`."""

    page: PageSize
    "How much it answers at once."
    read_from: tuple[str, ...] = ()
    "Conversations that the owner opened to all of the agent's."


def _make(setup: ToolSetup[RecallConfig]) -> tuple[Tool, ...]:
    environment = setup.part(ToolEnvironment)
    return (
        RecallContext(
            page=setup.settings.page,
            link=environment.link,
            links=environment.links,
            read_from=setup.settings.read_from,
        ),
    )


def plan_recall(page: PageSize, read_from: tuple[str, ...] = ()) -> ToolPlan:
    """Return the plan for an agent.

    Args:
        page: How much it answers at once.
        read_from: Conversations that it may read, as its tool `session` is set.
    """
    config = RecallConfig(page=page, read_from=read_from)
    return ToolPlan(settings=config, reaches_out=False)


RECALL_CONTEXT: Final = ToolPlugin(
    name="recall_context",
    interface=1,
    summary="reads back what is hidden from the model",
    docs="docs/context.md",
    given_by="spec.session.context.recall",
    make=_make,
)
