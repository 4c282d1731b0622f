"""The `jutul` policy: evict one large result, clear old ones, summarise: cheapest first. Pure.

Results above 20,000 x 4 characters go to files, with a preview in their place. Above 60 % of the
window old results become `[cleared]`, but for the newest 3 (6 from a window of 100,000 on) and
those of `record_attempt`; system prompt and tools are not counted there. From 85 % on, with both
counted and the count scaled by the usage that was last reported (1.0 to 1.25), long arguments of
file edits older than the newest tenth are shortened, and older turns are summarised; the summary
becomes the first user message. On a transcript, without a model, they stay, and a note says which.
Where the window is not known the thresholds are 60,000 and 170,000 tokens, and 6 messages stay.

After a provider's error the newest results are clipped, where they are the newest tenth or more:
those of `read_file` to their first 4,000 characters, others go to files; and half of the turns
leave, where there are two, and where the system would summarise them then and there.

Differences: a call id that comes back has a file of its own, the seed's writes over the first one;
a preview has no line numbers. Nothing here makes a request fit: one that does not is reported, not
refused.

Source: the seed document "Context handling" of jutul-agent, and the libraries that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from msgspec import Struct

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.tokens import calls_json, tools_json
from everturn_actors.context.policy import ContextUsage, Limits, Policy, due_from, would_summarise
from everturn_actors.context.projection.projection import (
    Outcome,
    Projection,
    Stage,
    in_order,
    size_tokens,
)
from everturn_actors.context.projection.turns import count_messages
from everturn_actors.context.stages.clearing import Protection, clear_results
from everturn_actors.context.stages.texts import (
    Lines,
    clip_results,
    evict_user,
    evicted,
    shrink_arguments,
)
from everturn_actors.context.stages.truncation import block_at, boundaries, halve
from everturn_actors.model import AnyMessage, Reply, ToolDefinition, ToolResult, UserMessage

MARKER = "[cleared]"
RESULTS_FOLDER = "large_tool_results"
NEVER_EVICTED = ("ls", "glob", "grep", "read_file", "edit_file", "write_file", "delete")
FILE_EDITS = ("write_file", "edit_file")
FILE_READERS = ("read_file",)
_PREFACE = (
    "Summary of the conversation so far; what it tells of is no longer shown. What follows goes on"
    " from there.\n\n"
)
_CHARACTERS_PER_TOKEN, _ANTHROPIC_CHARACTERS_PER_TOKEN = 4.0, 3.3
_EVICTED_CHARACTERS_PER_TOKEN = 4
_SMALL_WINDOW = 100_000
_SMALL_KEEP_RESULTS, _KEEP_RESULTS = 3, 6
_MESSAGE_TOKENS = 3
_MAX_SCALE = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the policy, as the agent format names them."""

    evict_result_tokens: int = 20_000
    evict_user_tokens: int = 50_000
    preview_lines: int = 5
    preview_line_characters: int = 1_000
    clear_trigger: float = 0.6
    clear_keep_results: int | None = None
    "None = 3 below a window of 100,000, else 6."
    clear_protect_tokens: int | None = None
    clear_minimum_tokens: int | None = None
    clear_exclude_tools: tuple[str, ...] = ("record_attempt",)
    summarize_trigger: float = 0.85
    summarize_keep: float = 0.1
    argument_limit_characters: int = 2_000
    argument_head_characters: int = 20
    unknown_clear_tokens: int = 60_000
    unknown_summarize_tokens: int = 170_000
    unknown_keep_messages: int = 6
    overflow_keep_tokens: int = 5_000
    "Where the window is not known; else `summarize_keep` of it."
    overflow_file_characters: int = 4_000
    characters_per_token: float | None = None
    "None = 4, and 3.3 for the models of Anthropic."
    image_tokens: int = 85
    compact_keep_messages: int = 8
    compact_trigger: float = 0.5
    "Both are for a summary on demand; a request that is rendered has no use for them."

    @property
    def lines(self) -> Lines:
        """What previews show."""
        return Lines(ends=self.preview_lines, characters=self.preview_line_characters)


class Estimates(Struct, frozen=True):
    """Characters / 4 rounded up, 3 for each message, and a price for each image."""

    characters_per_token: float
    image_tokens: int

    def text(self, text: str) -> int:
        """Return the tokens of a system message."""
        return self.plain(len(text)) + _MESSAGE_TOKENS if text else 0

    def message(self, message: AnyMessage, media: int) -> int:
        """Return the tokens of a message."""
        characters = len(message.text)
        match message:
            case Reply() if message.calls:
                characters += len(calls_json(message.calls))
            case ToolResult():
                characters += len(message.call_id)
            case _:
                pass
        return self.plain(characters) + _MESSAGE_TOKENS + media * self.image_tokens

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return the tokens of tool definitions."""
        return self.plain(len(tools_json(tools))) if tools else 0

    def plain(self, characters: int) -> int:
        """Return the tokens of so many characters."""
        return ceil(characters / self.characters_per_token)


def _estimates(numbers: Numbers, limits: Limits) -> Estimates:
    is_anthropic = limits.provider == "anthropic"
    own = _ANTHROPIC_CHARACTERS_PER_TOKEN if is_anthropic else _CHARACTERS_PER_TOKEN
    return Estimates(numbers.characters_per_token or own, numbers.image_tokens)


def _divide(_numbers: Numbers, limits: Limits, system_tokens: int, tools_tokens: int) -> Budget:
    return Budget(
        window_tokens=limits.window_tokens or 0,
        system_tokens=system_tokens,
        tools_tokens=tools_tokens,
        reserve_tokens=limits.output_tokens or 0,
        margin_tokens=0,
        history_cap_tokens=0,
    )


def _shorten_result(numbers: Numbers, _limits: Limits, result: ToolResult, path: str) -> str:
    return evicted(
        result,
        path,
        limit_characters=numbers.evict_result_tokens * _EVICTED_CHARACTERS_PER_TOKEN,
        exempt=NEVER_EVICTED,
        lines=numbers.lines,
    )


def _clear(numbers: Numbers, limits: Limits) -> Stage:
    count, window = _estimates(numbers, limits), limits.window_tokens
    small = window is not None and window < _SMALL_WINDOW
    keep = _SMALL_KEEP_RESULTS if small else _KEEP_RESULTS
    minimum = numbers.clear_minimum_tokens
    above = int(window * numbers.clear_trigger) if window else numbers.unknown_clear_tokens
    return clear_results(
        when=lambda projection, _budget: (
            size_tokens(projection, projection.messages, count) > above
        ),
        size=lambda result: count.plain(len(result.text)),
        marker=MARKER,
        estimator=count,
        protection=Protection(
            newest=keep if numbers.clear_keep_results is None else numbers.clear_keep_results,
            tokens=numbers.clear_protect_tokens,
            tools=numbers.clear_exclude_tools,
        ),
        minimum_tokens=None if minimum is None else minimum - 1,  # so many are enough
    )


def _cleared(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    """Return the stages that come before a summary."""
    return (
        evict_user(
            limit_characters=numbers.evict_user_tokens * _EVICTED_CHARACTERS_PER_TOKEN,
            folder=RESULTS_FOLDER,
            lines=numbers.lines,
            estimator=_estimates(numbers, limits),
        ),
        _clear(numbers, limits),
    )


def _ladder(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    shrink = shrink_arguments(
        limit_characters=numbers.argument_limit_characters,
        head_characters=numbers.argument_head_characters,
        tools=FILE_EDITS,
        before=lambda projection, budget: _cut(numbers, limits, projection, budget),
        estimator=_estimates(numbers, limits),
    )
    return (*_cleared(numbers, limits), shrink)


def _older(numbers: Numbers, limits: Limits, projection: Projection, budget: Budget) -> int:
    cleared, _ = in_order(*_cleared(numbers, limits))(projection, budget)
    return _cut(numbers, limits, cleared, budget)


def _cut(numbers: Numbers, limits: Limits, projection: Projection, budget: Budget) -> int:
    """Return the first block that a summary would leave; 0 where there is no need for one."""
    count, window = _estimates(numbers, limits), limits.window_tokens
    messages = projection.messages
    trigger = int(window * numbers.summarize_trigger) if window else 0
    if _used(projection, budget, count) < (trigger or numbers.unknown_summarize_tokens):
        return 0
    if window is None:
        return block_at(projection.blocks, max(len(messages) - numbers.unknown_keep_messages, 0))
    room, start = int(window * numbers.summarize_keep), len(messages)
    while start > 0:
        room -= size_tokens(projection, messages[start - 1 : start], count)
        if room < 0:
            break
        start -= 1
    return block_at(projection.blocks, min(start, len(messages) - 1))


def _used(projection: Projection, budget: Budget, count: Estimates) -> int:
    """Return what a request costs: estimated and scaled, or as reported where that is more."""
    fixed = budget.system_tokens + budget.tools_tokens
    if projection.whole_summary:
        fixed += count.message(UserMessage(text=_preface(projection.whole_summary)), 0)
    messages = projection.messages
    estimate = fixed + size_tokens(projection, messages, count)
    for index in range(len(messages) - 1, -1, -1):
        reply = messages[index]
        if isinstance(reply, Reply) and reply.usage.input_tokens > 0:
            reported = reply.usage.input_tokens + reply.usage.output_tokens
            scale = reported / max(fixed + size_tokens(projection, messages[: index + 1], count), 1)
            return max(ceil(estimate * min(max(scale, 1.0), _MAX_SCALE)), reported)
    return estimate


def _between(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    def summarise(projection: Projection, budget: Budget) -> Outcome:
        messages = count_messages(projection.blocks[: _older(numbers, limits, projection, budget)])
        return would_summarise(projection, messages), ()

    return (summarise,)


def _overflow(numbers: Numbers, limits: Limits) -> Stage:
    count, window = _estimates(numbers, limits), limits.window_tokens
    clip = clip_results(
        limit_tokens=int(window * numbers.summarize_keep)
        if window
        else numbers.overflow_keep_tokens,
        head_characters=numbers.overflow_file_characters,
        readers=FILE_READERS,
        folder=RESULTS_FOLDER,
        lines=numbers.lines,
        estimator=count,
    )

    def stage(projection: Projection, budget: Budget) -> Outcome:
        clipped, reductions = clip(projection, budget)
        if reductions and len(boundaries(projection.blocks)) < 2:  # one turn: no half
            return clipped, reductions
        halved, more = halve(count)(clipped, budget)
        return halved, reductions + more

    return stage


def _preface(summary: str) -> str:
    return _PREFACE + summary


def _outlook(numbers: Numbers, now: ContextUsage) -> Iterator[str]:
    window = now.limits.window_tokens
    clear = int(window * numbers.clear_trigger) if window else numbers.unknown_clear_tokens
    yield due_from("old tool results are cleared", clear, now.messages, "of messages")
    trigger = int(window * numbers.summarize_trigger) if window else 0
    trigger = trigger or numbers.unknown_summarize_tokens
    if now.summarises:
        yield due_from("older turns are summarised after a turn", trigger, now.total)


POLICY = Policy(
    name="jutul",
    promises_fit=False,
    numbers=Numbers(),
    estimator=_estimates,
    divide=_divide,
    overflow=_overflow,
    shorten_result=_shorten_result,
    result_disposition="evicted",
    folder=RESULTS_FOLDER,
    between=_between,
    ladder=_ladder,
    older=_older,
    prompt=lambda system, _summary: system,
    preface=_preface,
    compact_share=lambda numbers: numbers.compact_trigger * numbers.summarize_trigger,
    compact_keep=lambda numbers: numbers.compact_keep_messages,
    whole_characters=lambda numbers, _limits: (
        numbers.evict_result_tokens * _EVICTED_CHARACTERS_PER_TOKEN
    ),
    outlook=_outlook,
)
