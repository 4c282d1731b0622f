"""Whether the window is so far from full that nobody has to look what is to be done. Pure."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import structs

from everturn_actors.context.estimation.calibration import (
    ModelStatistics,
    correction_tokens,
    prior_statistics,
    session_scale,
)
from everturn_actors.context.estimation.estimates import turn_units
from everturn_actors.context.policy import Spare
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
_ROUNDED_TOKENS = 256  # for what is rounded, and for a notice, which is priced anew


def is_far(last: tuple[Asked, Prepared] | None, spare: Spare, now: Asked) -> bool:
    """Whether a turn cannot have filled the room that its last request had.

    Args:
        last: The last request, and what it was made of; None = there was none.
        spare: What the policy said of it; see `Policy.spare`.
        now: What a request would be made of, between two turns.
    """
    conversation, spec, tools, statistics = now
    if last is None or spare.older <= 1 or not conversation.turns:
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
    return is_next and _has_room(conversation, prepared, spare, statistics)


def _has_room(
    conversation: Conversation, prepared: Prepared, spare: Spare, statistics: ModelStatistics
) -> bool:
    """Whether what the newest turn added, and what its model reported, leaves room for more."""
    sent_units, reported_tokens = conversation.fingerprint.units, conversation.reported.input_tokens
    scale = session_scale(statistics, sent_units=sent_units, reported_tokens=reported_tokens)
    shown, added = projection_units(prepared.projection), turn_units(conversation.turns[-1])
    scaled = scale / prepared.estimates.scale
    if spare.older > _CORRECTION * (1 + added / max(shown, 1)) * scaled:
        return True  # at the worst: as long as a conversation is far from filling its window
    if prepared.pictures.counts:  # which are shown is decided anew: the worst is assumed
        return False
    # What was reported corrects the estimate from now on. It grows or shrinks evenly with what is
    # sent, which lies between the last request and that with all of the turn once more.
    sent = prepared.fingerprint.units
    model = structs.replace(statistics, scale=scale)
    correction = max(
        correction_tokens(
            model, sent_units=sent_units, reported_tokens=reported_tokens, now_units=units
        )
        for units in (sent, sent + added)
    )
    count = prepared.estimates
    less: float = max(correction, 0) - prepared.limits.correction_tokens
    less += count.tokens(sent - shown) * (scaled - 1)  # prompt and tools are priced anew, too
    room = spare.older * max(count.tokens(shown), 1) - max(less, 0) - _ROUNDED_TOKENS
    return count.tokens(shown + added) * scaled < room
