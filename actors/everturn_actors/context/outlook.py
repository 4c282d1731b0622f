"""What will happen to a session's context next, and when, in sentences for people. Pure.

Thresholds and counts are the policy's own, read from its numbers and counted as it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from everturn_actors.context.policies import baseagent, duragent, everturn, jutul, picoclaw
from everturn_actors.context.projection.projection import block_tokens
from everturn_actors.context.projection.turns import flatten
from everturn_actors.context.rendered import Rendered
from everturn_actors.model import Conversation, UserMessage

_MANY = 10**9  # messages: the longest notice, for which the policy keeps room


@dataclass(frozen=True, slots=True, kw_only=True)
class _Now:
    """How things stand, as the policy counts them. Tokens, where nothing else is said."""

    rendered: Rendered
    messages: int
    "Of all messages that are shown, preamble and summary left out."
    history: int
    "Of those before the running turn."
    asked: int
    "Of the running turn's user messages."
    fixed: int
    "Of system prompt, summary and tools."
    history_messages: int
    held_messages: int
    summarises: bool
    "Whether a model writes summaries."


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
    now = _now(rendered, conversation, summarises=has_summariser)
    numbers: Any = rendered.policy.numbers
    steps: Iterator[str]
    summaries = True
    match numbers:
        case everturn.Numbers():
            steps = _everturn(numbers, now)
        case duragent.Numbers():
            steps, summaries = _duragent(numbers, now), False
        case picoclaw.Numbers():
            steps = _picoclaw(numbers, now)
        case jutul.Numbers():
            steps = _jutul(numbers, now)
        case baseagent.Numbers():
            steps = _baseagent(numbers, now)
        case _:
            steps = iter(())
    sentences = [*steps]
    failures = conversation.reductions.failures
    if not summaries:
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
    return (*sentences, *_window(conversation, now))


def _now(rendered: Rendered, conversation: Conversation, *, summarises: bool) -> _Now:
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
    return _Now(
        rendered=rendered,
        messages=sum(costs),
        history=sum(costs[: projection.current]),
        asked=sum(asked),
        fixed=max(counts.text(rendered.preamble.system), budget.system_tokens)
        + budget.tools_tokens,
        history_messages=sum(1 for _ in flatten(history)),
        held_messages=conversation.held_messages,
        summarises=summarises,
    )


def _everturn(numbers: everturn.Numbers, now: _Now) -> Iterator[str]:
    rendered = now.rendered
    policy, counts = rendered.policy, rendered.policy.estimates(rendered.limits)
    notice = counts.text(policy.notice(_MANY))
    summary = counts.text(policy.prompt("", rendered.projection.whole_summary))
    room = max(rendered.budget.free_tokens - notice - summary, 0)
    of = "of messages"
    yield _from("old tool results are cleared", int(room * numbers.clear_trigger), now.messages, of)
    if now.summarises:
        summary_from = int(room * numbers.summarize_trigger)
        yield _from("older turns are summarised after a turn", summary_from, now.messages, of)
    then = f", down to {int(room * numbers.cut_to):,}"
    yield _from("the oldest turns leave", room, now.messages, of, then)
    held = rendered.limits.window_messages
    if held is not None:
        most, least = int(held * numbers.window_trigger), int(held * numbers.window_cut_to)
        yield (
            f"so they do above {most:,} messages, down to {least:,}:"
            f" {len(rendered.projection.messages):,} are shown now"
        )


def _duragent(numbers: duragent.Numbers, now: _Now) -> Iterator[str]:
    limit = now.rendered.budget.history_tokens
    used = now.history + now.asked
    yield _from("older messages are left out of a request", limit, used, "of history")
    first, last = numbers.tool_result_keep_first, numbers.tool_result_keep_last
    if first or last:
        yield (
            f"in a running turn all tool results but the first {first:,} and the last {last:,}"
            " are masked"
        )


def _picoclaw(numbers: picoclaw.Numbers, now: _Now) -> Iterator[str]:
    budget, count = now.rendered.budget, numbers.summarize_message_threshold
    share = budget.window_tokens * numbers.summarize_token_percent // 100
    if now.summarises:
        yield (
            f"after a turn, all but the newest {numbers.summarize_keep_messages:,} messages are"
            f" summarised above {count:,} messages ({now.history_messages:,} now) or {share:,}"
            f" tokens of history ({now.history:,} now)"
        )
    used = now.fixed + budget.reserve_tokens + now.messages
    yield _from("whole oldest turns leave a request", budget.window_tokens, used)


def _jutul(numbers: jutul.Numbers, now: _Now) -> Iterator[str]:
    window = now.rendered.limits.window_tokens
    clear = int(window * numbers.clear_trigger) if window else numbers.unknown_clear_tokens
    yield _from("old tool results are cleared", clear, now.messages, "of messages")
    trigger = int(window * numbers.summarize_trigger) if window else 0
    trigger = trigger or numbers.unknown_summarize_tokens
    if now.summarises:
        yield _from("older turns are summarised after a turn", trigger, now.rendered.tokens)


def _baseagent(numbers: baseagent.Numbers, now: _Now) -> Iterator[str]:
    budget = now.rendered.budget
    usable = budget.window_tokens - budget.reserve_tokens
    trigger = int(numbers.auto_compact_threshold * usable)
    used = now.fixed - budget.tools_tokens + now.messages
    yield _from("old tool results are cleared", trigger, used)
    if now.summarises:
        yield "where that is not enough, all older turns are summarised after a turn"


def _window(conversation: Conversation, now: _Now) -> Iterator[str]:
    limit = conversation.window_messages
    if limit:
        yield (
            f"the session holds up to {limit:,} messages ({now.held_messages:,} now); then its"
            " oldest turns leave it, and the log keeps them"
        )


def _from(what: str, trigger: int, now: int, of: str = "", then: str = "") -> str:
    """Return at how many tokens something happens, and how far that is."""
    where = f"{what} from {trigger:,} tokens{f' {of}' if of else ''} on{then}"
    if now < trigger:
        return f"{where}: {trigger - now:,} to go"
    return f"{where}: there are {now:,}, so that it is due, as far as something can go"
