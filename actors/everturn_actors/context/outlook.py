"""What will happen to a session's context next, and when, in sentences for people. Pure.

Thresholds and counts are the policy's own, read from its numbers and counted as it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from everturn_actors.context.policy import ContextUsage
from everturn_actors.context.projection.projection import block_tokens
from everturn_actors.context.projection.turns import flatten
from everturn_actors.context.rendered import Rendered
from everturn_actors.model import Conversation, UserMessage


def outlook(
    rendered: Rendered,
    conversation: Conversation,
    *,
    retry_at: datetime | None,
    has_summariser: bool,
) -> tuple[str, ...]:
    """Return what will happen next, the nearest kind of thing first.

    Args:
        rendered: The request that would be sent now.
        conversation: What it was made of.
        retry_at: No model is asked for a summary before this instant; None = it may be now.
        has_summariser: Whether a model writes the agent's summaries.
    """
    policy = rendered.policy
    sentences = list(policy.outlook(policy.numbers, _usage(rendered, summarises=has_summariser)))
    failures = conversation.reductions.failures
    if not policy.summarises:
        sentences.append("this policy makes no summary by itself; `compact` makes one")
    elif not has_summariser:
        sentences.append(
            "no model writes summaries for this agent, so that older turns are not summarised by"
            " themselves; `compact` puts down how their messages begin"
        )
    elif retry_at is not None:
        times = "once" if failures == 1 else f"{failures:,} times in a row"
        sentences.append(
            f"no summary before {retry_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC:"
            f" the model failed {times}"
        )
    return (*sentences, *_window(conversation))


def _usage(rendered: Rendered, *, summarises: bool) -> ContextUsage:
    projection, budget = rendered.projection, rendered.budget
    counts = rendered.policy.estimates(rendered.limits)
    costs = [block_tokens(projection, block, counts) for block in projection.blocks]
    history = projection.blocks[: projection.current]
    asked = [
        cost
        for cost, block in zip(
            costs[projection.current :], projection.blocks[projection.current :], strict=True
        )
        if isinstance(block, UserMessage)
    ]
    return ContextUsage(
        projection=projection,
        budget=budget,
        limits=rendered.limits,
        total=rendered.tokens,
        messages=sum(costs),
        history=sum(costs[: projection.current]),
        asked=sum(asked),
        fixed=max(counts.text(rendered.preamble.system), budget.system_tokens)
        + budget.tools_tokens,
        history_messages=sum(1 for _ in flatten(history)),
        summarises=summarises,
    )


def _window(conversation: Conversation) -> Iterator[str]:
    limit = conversation.window_messages
    if limit:
        yield (
            f"the session holds up to {limit:,} messages ({conversation.held_messages:,} now); then"
            " its oldest turns leave it, and the log keeps them"
        )
