"""The `jutul` policy: evict one large result, clear old ones, summarise: cheapest first. Pure.

Results above 20,000 x 4 characters go to files, with a preview in their place. Above 60 % of the
window old results become `[cleared]`, but for the newest 3 (6 from a window of 100,000 on) and
those of `record_attempt`; system prompt and tools are not counted there. From 85 % on, with both
counted, long arguments of file edits older than the newest tenth are shortened, and older turns
would be summarised: without a model they stay, and a note says which. Where the window is not known
the thresholds are 60,000 and 170,000 tokens, and 6 messages stay.

Differences: a call id that comes back has a file of its own, the seed's writes over the first one;
a preview has no line numbers. Characters per token are 4 for every provider, and the count
is not scaled by reported usage, since a transcript reports none. Nothing here makes a request fit:
one that does not is reported, not refused.

Source: the seed document "Context handling" of jutul-agent, and the libraries that it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everturn_actors.context.budget import Budget
from everturn_actors.context.policy import Limits, Policy
from everturn_actors.context.stages.clearing import clear_results
from everturn_actors.context.stages.cutting import block_at, count_messages
from everturn_actors.context.stages.texts import evict_results, evict_user, shrink_arguments
from everturn_actors.context.tokens import BYTES_PER_TOKEN, calls_json, tools_json
from everturn_actors.context.view import Outcome, Stage, View, size_tokens
from everturn_actors.model import AnyMessage, Reply, ToolDefinition, ToolResult

MARKER = "[cleared]"
RESULTS_FOLDER = "large_tool_results"
NEVER_EVICTED = ("ls", "glob", "grep", "read_file", "edit_file", "write_file", "delete")
FILE_EDITS = ("write_file", "edit_file")
_UNKNOWN_CLEAR_WINDOW = 100_000  # 60 % of it: the seed's 60,000
_UNKNOWN_SUMMARY_WINDOW = 200_000  # 85 % of it: the seed's 170,000
_UNKNOWN_KEEP_MESSAGES = 6
_SMALL_WINDOW = 100_000
_SMALL_KEEP_RESULTS, _KEEP_RESULTS = 3, 6
_MESSAGE_TOKENS = 3
_IMAGE_TOKENS = 85


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the policy, as the agent format names them."""

    evict_result_tokens: int = 20_000
    evict_user_tokens: int = 50_000
    clear_trigger: float = 0.6
    clear_keep_results: int | None = None
    "None = 3 below a window of 100,000, else 6."
    clear_protect_tokens: int | None = None
    clear_minimum_tokens: int | None = None
    clear_exclude_tools: tuple[str, ...] = ("record_attempt",)
    summarize_trigger: float = 0.85
    summarize_keep: float = 0.1
    argument_limit_characters: int = 2_000
    compact_keep_messages: int = 8
    "Of a summary on demand; a request that is rendered has no use for it."


class Estimates:
    """Characters / 4 rounded up, 3 for each message, 85 for each image."""

    def text(self, text: str) -> int:
        """Return the tokens of a system message."""
        return _up(len(text)) + _MESSAGE_TOKENS if text else 0

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
        return _up(characters) + _MESSAGE_TOKENS + media * _IMAGE_TOKENS

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return the tokens of tool definitions."""
        return _up(len(tools_json(tools))) if tools else 0


def _up(characters: int) -> int:
    return -(-characters // BYTES_PER_TOKEN)


_ESTIMATES = Estimates()


def _divide(_numbers: Numbers, limits: Limits, system_tokens: int, tools_tokens: int) -> Budget:
    return Budget(
        window_tokens=limits.window_tokens or 0,
        system_tokens=system_tokens,
        tools_tokens=tools_tokens,
        reserve_tokens=limits.output_tokens or 0,
        margin_tokens=0,
        history_cap_tokens=0,
    )


def _ladder(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    window = limits.window_tokens
    small = window is not None and window < _SMALL_WINDOW
    keep = _SMALL_KEEP_RESULTS if small else _KEEP_RESULTS
    minimum = numbers.clear_minimum_tokens
    clear_above = int((window or _UNKNOWN_CLEAR_WINDOW) * numbers.clear_trigger)

    def is_large(view: View, _budget: Budget) -> bool:
        return size_tokens(view, view.messages, _ESTIMATES) > clear_above

    def older(view: View, budget: Budget) -> int:
        return _older(view, budget, numbers, window)

    def summarise(view: View, budget: Budget) -> Outcome:
        count = count_messages(view.blocks[: older(view, budget)])
        note = f"would summarise the oldest {count} messages"
        if not count or note in view.notes:
            return view, ()
        return replace(view, notes=(*view.notes, note)), ()

    return (
        evict_results(
            limit_characters=numbers.evict_result_tokens * BYTES_PER_TOKEN,
            exempt=NEVER_EVICTED,
            folder=RESULTS_FOLDER,
            estimator=_ESTIMATES,
        ),
        evict_user(
            limit_characters=numbers.evict_user_tokens * BYTES_PER_TOKEN,
            folder=RESULTS_FOLDER,
            estimator=_ESTIMATES,
        ),
        clear_results(
            when=is_large,
            size=lambda result: _up(len(result.text)),
            marker=MARKER,
            estimator=_ESTIMATES,
            keep_results=keep if numbers.clear_keep_results is None else numbers.clear_keep_results,
            protect_tokens=numbers.clear_protect_tokens,
            minimum_tokens=None if minimum is None else minimum - 1,  # so many are enough
            exclude=numbers.clear_exclude_tools,
        ),
        shrink_arguments(
            limit_characters=numbers.argument_limit_characters,
            tools=FILE_EDITS,
            before=older,
            estimator=_ESTIMATES,
        ),
        summarise,
    )


def _older(view: View, budget: Budget, numbers: Numbers, window: int | None) -> int:
    """Return the first block that a summary would leave; 0 where there is no need for one."""
    messages = view.messages
    used = budget.system_tokens + budget.tools_tokens + size_tokens(view, messages, _ESTIMATES)
    if used < int((window or _UNKNOWN_SUMMARY_WINDOW) * numbers.summarize_trigger):
        return 0
    if window is None:
        return block_at(view.blocks, max(len(messages) - _UNKNOWN_KEEP_MESSAGES, 0))
    room, start = int(window * numbers.summarize_keep), len(messages)
    while start > 0:
        room -= size_tokens(view, messages[start - 1 : start], _ESTIMATES)
        if room < 0:
            break
        start -= 1
    return block_at(view.blocks, min(start, len(messages) - 1))


POLICY = Policy(
    name="jutul", numbers=Numbers(), estimator=_ESTIMATES, divide=_divide, ladder=_ladder
)
