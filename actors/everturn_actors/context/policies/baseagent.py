"""The `baseagent` policy: cut each result in its middle, prune old ones, summarise. Pure.

Above 85 % of window - reserve, results older than the newest 40,000 tokens of them are cleared, if
more than 20,000 come free and two user messages have gone by; the result that goes beyond the
40,000 is cleared too. With one user message nothing is ever cleared, as in the seed's algorithm;
the picture there (150,000 to 60,000) needs `protect_last_turns: 0`. What is still above after that
is replaced by a summary, which becomes the first user message; on a transcript, without a model, it
stays as it is, as the seed does where its model fails, and a note says so.

Differences: the running turn is no part of the summary, since a request needs its question. The
walk ends at a result that was cleared before; the seed's sketch does not say. Nothing here makes a
request fit: one that does not is reported, not refused. The seed knows no error of a provider that
found a request too long; half of the turns leave then.

Source: the seed design "Context Management" of BaseAgent. Where its code cuts results by bytes, the
seed's characters count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.tokens import BYTES_PER_TOKEN, tools_json
from everturn_actors.context.policy import ContextUsage, Limits, Policy, due_from
from everturn_actors.context.projection.projection import (
    Outcome,
    Projection,
    Stage,
    in_order,
    size_tokens,
)
from everturn_actors.context.projection.results import middle_out
from everturn_actors.context.projection.turns import count_messages
from everturn_actors.context.stages.clearing import Protection, clear_results
from everturn_actors.context.stages.truncation import halve
from everturn_actors.model import AnyMessage, Reply, ToolDefinition, ToolResult, UserMessage

MARKER = "[Old tool result content cleared]"
PREFIX = """\
Another language model started to solve this problem and produced
a summary of its thinking process. You also have access to the state
of the tools that were used. Use this to build on the work that has
already been done and avoid duplicating work.

Here is the summary from the previous context:

"""
_WINDOW_TOKENS = 200_000
_RESERVE_TOKENS = 32_000
_MESSAGE_TOKENS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the policy, as the agent format names them."""

    model_context_limit: int | None = None
    "None = the model's window; where that is not known, 200,000."
    output_token_max: int | None = None
    "None = the model's; where that is not known, 32,000."
    auto_compact_threshold: float = 0.85
    prune_protect: int = 40_000
    prune_minimum: int = 20_000
    protect_last_turns: int = 2
    max_output_tokens: int = 2_500
    "Of one tool result."
    image_tokens: int = 1_000
    max_iterations: int | None = None
    "Steps of one turn; None = as the agent's `max_tool_iterations` says."


class Estimates(Struct, frozen=True):
    """Characters // 4 of each part, 4 for each message, and a price for each image."""

    image_tokens: int

    def text(self, text: str) -> int:
        """Return the tokens of a system message."""
        return len(text) // BYTES_PER_TOKEN + _MESSAGE_TOKENS if text else 0

    def message(self, message: AnyMessage, media: int) -> int:
        """Return the tokens of a message."""
        tokens = len(message.text) // BYTES_PER_TOKEN + _MESSAGE_TOKENS + media * self.image_tokens
        if isinstance(message, Reply):
            for call in message.calls:
                tokens += len(call.name) // BYTES_PER_TOKEN + len(call.arguments) // BYTES_PER_TOKEN
        return tokens

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return the tokens of tool definitions. The seed counts none; this is for the report."""
        return len(tools_json(tools)) // BYTES_PER_TOKEN if tools else 0


def _estimates(numbers: Numbers, _limits: Limits) -> Estimates:
    return Estimates(numbers.image_tokens)


def _divide(numbers: Numbers, limits: Limits, system_tokens: int, tools_tokens: int) -> Budget:
    return Budget(
        window_tokens=numbers.model_context_limit or limits.window_tokens or _WINDOW_TOKENS,
        system_tokens=system_tokens,
        tools_tokens=tools_tokens,
        reserve_tokens=_first(numbers.output_token_max, limits.output_tokens, _RESERVE_TOKENS),
        margin_tokens=0,
        history_cap_tokens=0,
    )


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _shorten_result(numbers: Numbers, _limits: Limits, result: ToolResult, _path: str) -> str:
    return middle_out(result.text, numbers.max_output_tokens)


def _preface(summary: str) -> str:
    return PREFIX + summary


def _is_above(numbers: Numbers, projection: Projection, budget: Budget) -> bool:
    count = Estimates(numbers.image_tokens)
    used = budget.system_tokens + size_tokens(projection, projection.messages, count)
    if projection.whole_summary:
        used += count.message(UserMessage(text=_preface(projection.whole_summary)), 0)
    usable = budget.window_tokens - budget.reserve_tokens
    return used > numbers.auto_compact_threshold * usable


def _lasting(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    return (
        clear_results(
            when=lambda projection, budget: _is_above(numbers, projection, budget),
            size=lambda result: len(result.text) // BYTES_PER_TOKEN,
            marker=MARKER,
            estimator=_estimates(numbers, limits),
            protection=Protection(
                turns=numbers.protect_last_turns, tokens=numbers.prune_protect, behind_cleared=True
            ),
            minimum_tokens=numbers.prune_minimum,
        ),
    )


def _is_above_pruned(
    numbers: Numbers, limits: Limits, projection: Projection, budget: Budget
) -> bool:
    pruned, _ = in_order(*_lasting(numbers, limits))(projection, budget)
    return _is_above(numbers, pruned, budget)


def _older(numbers: Numbers, limits: Limits, projection: Projection, budget: Budget) -> int:
    return projection.current if _is_above_pruned(numbers, limits, projection, budget) else 0


def _between(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    def compact(projection: Projection, budget: Budget) -> Outcome:
        note = f"would summarise all {count_messages(projection.blocks)} messages"
        if note in projection.notes or not _is_above_pruned(numbers, limits, projection, budget):
            return projection, ()
        return replace(projection, notes=(*projection.notes, note)), ()

    return (compact,)


def _outlook(numbers: Numbers, now: ContextUsage) -> Iterator[str]:
    budget = now.budget
    usable = budget.window_tokens - budget.reserve_tokens
    trigger = int(numbers.auto_compact_threshold * usable)
    used = now.fixed - budget.tools_tokens + now.messages
    yield due_from("old tool results are cleared", trigger, used)
    if now.summarises:
        yield "where that is not enough, all older turns are summarised after a turn"


POLICY = Policy(
    name="baseagent",
    promises_fit=False,
    numbers=Numbers(),
    estimator=_estimates,
    divide=_divide,
    overflow=lambda numbers, limits: halve(_estimates(numbers, limits)),
    shorten_result=_shorten_result,
    between=_between,
    lasting=_lasting,
    older=_older,
    prompt=lambda system, _summary: system,
    preface=_preface,
    step_limit=lambda numbers: numbers.max_iterations,
    whole_characters=lambda numbers, _limits: numbers.max_output_tokens * BYTES_PER_TOKEN,
    outlook=_outlook,
)
