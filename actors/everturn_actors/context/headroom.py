"""How far the window is from full: nobody has to look, or the estimate is not enough. Pure."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec.structs import replace

from everturn_actors.context.catalog import policy_of
from everturn_actors.context.estimation.calibration import (
    ModelStatistics,
    prior_statistics,
    session_scale,
)
from everturn_actors.context.estimation.classes import message_counts, priced
from everturn_actors.context.estimation.estimates import (
    UNITS_PER_TOKEN,
    message_units,
    turn_units,
)
from everturn_actors.context.estimation.forecast import own_rate, surely_far
from everturn_actors.context.policy import Headroom
from everturn_actors.context.projection.projection import Projection, projection_units
from everturn_actors.context.projection.reductions import shown_blocks
from everturn_actors.context.rendered import Prepared, can_recall, hidden_by
from everturn_actors.events import ContextReduced
from everturn_actors.model import Conversation, ToolDefinition
from everturn_actors.spec import AgentSpec, ContextSpec

Asked: TypeAlias = tuple[
    Conversation, AgentSpec, tuple[ToolDefinition, ...], ModelStatistics | None
]
"What a request is made of."
Hidden: TypeAlias = tuple[Projection, tuple[ContextReduced, ...]]
"What is left of a projection, and the events that hide the rest."

HIDINGS_MOST: Final = 3
"How often it is asked before one request what has to be hidden: what is left is estimated anew."

_FAR = 4  # a prompt of less than a quarter of the window
_DOUBTS = 2.0  # standard deviations by which an estimate is taken to be wrong at most
_ROUNDED_TOKENS = 256  # for what is rounded, and for a notice, which is priced anew


def is_far(
    last: tuple[Asked, Prepared] | None,
    headroom: Headroom,
    now: tuple[Conversation, AgentSpec, ModelStatistics | None],
) -> bool:
    """Whether a turn cannot have filled the room that its last request had.

    Args:
        last: The last request, and what it was made of; None = there was none.
        headroom: What the policy said of it; see `Policy.headroom`.
        now: What a request would be made of, between two turns, with the same tools.
    """
    conversation, spec, statistics = now
    if last is None or headroom.older <= 1 or not conversation.turns:
        return False
    (before, its_spec, _, known), prepared = last
    newest, statistics = conversation.turns[-1], statistics or prior_statistics(spec.model.name)
    is_next = (
        conversation.current is None
        and before.current is not None
        and before.current.number == newest.number
        and before.reductions is conversation.reductions
        and before.pins is conversation.pins
        and before.notes is conversation.notes
        and its_spec is spec
        and known is not None
        and known.limit == statistics.limit
        and known.window_tokens == statistics.window_tokens
    )
    return is_next and _has_room(conversation, prepared, headroom, statistics)


def is_doubtful(prepared: Prepared, statistics: ModelStatistics) -> bool:
    """Whether the estimate of a request decides something, and may be wrong about that.

    It decides whether turns leave, where it is near the end of the room for messages, and whether
    the provider refuses the request, where it is near the end of the window.
    """
    if prepared.policy.shrink is None or prepared.pictures.shown:
        return False  # it counts as its system does; what images cost, nobody is asked
    doubt = _DOUBTS * prepared.forecast.doubt_tokens(statistics.prices.doubts)
    budget, tokens = prepared.budget, prepared.forecast.tokens
    most = budget.window_tokens - budget.reserve_tokens
    room = most - budget.margin_tokens
    return tokens + doubt > most if tokens <= room else tokens - doubt <= room


def _has_room(
    conversation: Conversation, prepared: Prepared, headroom: Headroom, statistics: ModelStatistics
) -> bool:
    """Whether what the newest turn added, and what its model reported, leaves room for more."""
    turn, window = conversation.turns[-1], prepared.budget.window_tokens
    sent, reported_tokens = conversation.fingerprint.units, conversation.reported.input_tokens
    added = turn_units(turn)
    if surely_far(sent + added, window * UNITS_PER_TOKEN) and reported_tokens * _FAR < window:
        return True  # as long as a conversation is far from filling its window
    # Which images are shown is decided anew.
    if prepared.pictures.counts or not reported_tokens:
        return False
    reply = turn.steps[-1].reply if turn.steps else None
    tokens, own = float(reported_tokens), 0
    if reply is not None:
        own, rate = message_units(reply), own_rate(conversation.fingerprint, reported_tokens)
        expected = priced(message_counts((reply,)), statistics.prices.each) * rate
        tokens += max(expected, conversation.reported.output_tokens)
    shown = projection_units(prepared.projection)
    scaled = session_scale(tokens, sent + own) / prepared.estimates.scale
    count = prepared.estimates
    # Prompt and tools are priced anew, too.
    less = max(count.tokens(prepared.fingerprint.units - shown) * (scaled - 1), 0)
    room = headroom.older * max(count.tokens(shown), 1) - less - _ROUNDED_TOKENS
    return count.tokens(shown + added) * scaled < room


def fits(prepared: Prepared, projection: Projection) -> bool:
    """Whether what the policy's ladder leaves of a projection fits, by the default estimate."""
    policy = prepared.policy
    for stage in policy.ladder(policy.numbers, prepared.limits):
        projection, _ = stage(projection, prepared.budget)
    count, budget = prepared.estimates, prepared.budget
    preamble = policy.preamble(
        prepared.system, projection.whole_summary, projection.omitted_messages
    )
    texts = (preamble.system, preamble.notice, preamble.preface)
    fixed = sum(map(count.text, texts)) + count.tools(prepared.request.tools)
    needed = fixed + count.tokens(projection_units(projection)) + budget.reserve_tokens
    return budget.window_tokens <= 0 or needed <= budget.window_tokens


def lastingly_hidden(prepared: Prepared, tools: tuple[ToolDefinition, ...]) -> Hidden:
    """Return what has to be hidden for good, with one event for each stage that hides something.

    Raises:
        ContextDoesNotFitError: What cannot be hidden is larger than the window.
    """
    policy = prepared.policy
    stages = policy.lasting(policy.numbers, prepared.limits)
    projection, bodies = hidden_by(prepared, prepared.projection, stages)
    if policy.promises_fit or fits(prepared, projection):
        return projection, bodies
    # Its system leaves it to the provider to refuse a request; here none is sent that large.
    default = policy_of(ContextSpec(), recalls=can_recall(tools))
    count = prepared.estimates
    fixed = count.text(prepared.system), count.tools(tools)
    prepared = replace(prepared, budget=default.divide(default.numbers, prepared.limits, *fixed))
    stages = default.lasting(default.numbers, prepared.limits)
    projection, more = hidden_by(prepared, projection, stages)
    return projection, (*bodies, *more)


def older_of(prepared: Prepared, conversation: Conversation, *, is_cold: bool) -> int:
    """Return how many of the oldest turns a summary should stand for; see `older_turns`."""
    policy, projection = prepared.policy, prepared.projection
    if is_cold:
        projection = replace(projection, is_cold=True)
    leaving = policy.older(policy.numbers, prepared.limits, projection, prepared.budget)
    reductions = conversation.reductions
    if leaving <= 0:
        # What had to leave to make such a policy's request fit is told of all the same.
        if policy.promises_fit or prepared.projection.unsummarised <= len(reductions.dropped):
            return 0
        return sum(1 for turn in conversation.turns if turn.number < reductions.cut_turn)
    last = 0
    for turn in prepared.turns:
        leaving -= len(shown_blocks(turn, reductions, policy.gap))
        # Whole turns alone: half of one would leave calls without their results.
        if leaving < 0:
            break
        last = turn.number
    return sum(1 for turn in conversation.turns if turn.number <= last)
