"""Whether the window is so far from full that nobody has to look what is to be done. Pure."""

from __future__ import annotations

from typing import TypeAlias

from everturn_actors.context.estimation.calibration import (
    ModelStatistics,
    prior_statistics,
    session_scale,
)
from everturn_actors.context.estimation.estimates import turn_units
from everturn_actors.context.projection.projection import projection_units
from everturn_actors.context.rendered import Prepared
from everturn_actors.model import Conversation, ToolDefinition
from everturn_actors.spec import AgentSpec

Asked: TypeAlias = tuple[
    Conversation, AgentSpec, tuple[ToolDefinition, ...], ModelStatistics | None
]
"What a request is made of."

_CORRECTION = 2.0
"The correction is at most half of an estimate, up or down: before the turn, and after it."


def is_far(last: tuple[Asked, Prepared] | None, spare: float, now: Asked) -> bool:
    """Whether a turn cannot have filled the room that its last request had.

    What the provider reported may change the scale, which is known by now, and the correction.

    Args:
        last: The last request, and what it was made of; None = there was none.
        spare: What the policy said of it; see `Policy.spare`.
        now: What a request would be made of, between two turns.
    """
    conversation, spec, tools, statistics = now
    if last is None or spare <= _CORRECTION or not conversation.turns:
        return False
    (before, its_spec, its_tools, known), prepared = last
    newest, statistics = conversation.turns[-1], statistics or prior_statistics(spec.model.name)
    is_next = (
        conversation.current is None
        and before.current is not None
        and before.current.number == newest.number
        and before.reductions is conversation.reductions
        and its_spec is spec
        and its_tools == tools
        and known is not None
        and known.limit == statistics.limit
        and known.window_tokens == statistics.window_tokens
    )
    if not is_next:
        return False
    scale = session_scale(
        statistics,
        sent_units=conversation.fingerprint.units,
        reported_tokens=conversation.reported.input_tokens,
    )
    shown = max(projection_units(prepared.projection), 1)
    grown = (1 + turn_units(newest) / shown) * scale / prepared.estimates.scale
    return spare > _CORRECTION * grown
