"""The `everturn` policy, which is the default. Pure.

One budget: what the window leaves beside system prompt, summary, tools, reply and margin is for
messages. Everything below looks at all messages together.

- A message of a person that is larger than a quarter, where there is no room for all, keeps its two
  ends; the whole stands in a file, and what was said before stays.
- A new result above 8,000 tokens, or a sixteenth of the window, keeps its two ends; the whole
  stands in a file.
- Above 60 % old results become a line, and long arguments of old calls are shortened, all in one
  go: if 20,000 tokens come free, and never the newest 40,000, the newest five, those of the newest
  step, or the first two of the newest turn. In a small window a quarter and a fifth of it count.
- From 85 % on a model summarises older turns after a turn, and whatever left before that; from a
  half on where the conversation is idle until the provider's cache is about to go.
- Above 100 % the oldest whole turns leave, down to 30 %, unless clearing old results brings it to
  75 %: each cut breaks the provider's cache, so it makes room for long. So do they above 7/8 of
  the messages that the session holds, down to 5/8, so that the session itself never takes away
  what is shown.
- Where the newest turn is all that is left it is shrunk, down to 75 %: the results of its middle
  steps, then these steps, then what is left of results and arguments, then its questions. It never
  leaves.

All of this stays once it is done, so that between two cuts every request begins with the one
before. What is hidden can be asked for, and every marker says how. Only what exceeds the window
even without the margin is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

from everturn_actors.context.estimation.budget import DEFAULT_RESERVE_TOKENS, Budget
from everturn_actors.context.estimation.estimates import (
    UNITS_PER_TOKEN,
    Estimates,
    message_units,
    text_units,
)
from everturn_actors.context.estimation.windows import DEFAULT_WINDOW_TOKENS
from everturn_actors.context.policy import (
    NO_HEADROOM,
    ContextUsage,
    Headroom,
    Limits,
    Policy,
    due_from,
    quoted_summary,
    would_summarise,
)
from everturn_actors.context.projection.markers import RECALL_TOOL, Markers, gap_of
from everturn_actors.context.projection.projection import (
    Outcome,
    Projection,
    Stage,
    projection_messages,
    projection_units,
    size_tokens,
    size_units,
)
from everturn_actors.context.projection.results import Shape, keep_ends
from everturn_actors.context.projection.turns import count_messages, flatten
from everturn_actors.context.stages.cutting_ahead import (
    Mark,
    jump_turns,
    newest_turn,
    turn_starts,
    units_of,
)
from everturn_actors.context.stages.emergency import come_down
from everturn_actors.context.stages.masking import Old, clear_old, items
from everturn_actors.context.stages.pasting import take_in_pastes
from everturn_actors.context.stages.shrinking import Room, shrink_current
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import Step, ToolResult

_MANY = 10**9  # messages: the longest notice
_PROTECT_SHARE, _MINIMUM_SHARE = 5, 4  # at most a fifth and a quarter of the window
_RESERVE_SHARE = 4  # of the window, for the reply, at most, where the agent does not say
_CLEAR_TO = 0.75  # of the room for messages: where clearing alone does less, turns leave
_RECALL_SHARE = 8  # of the window, for what the model asked to read back, page by page
_RESULT_FLOOR_TOKENS = 128  # of a result, however small the window is


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the policy, as the agent format names them."""

    max_history_tokens: int = 0
    "0 = no cap but the window."
    max_tool_result_tokens: int = 8_000
    max_result_share: float = 0.0625
    "Of the window; whichever of the two is less."
    max_message_share: float = 0.25
    "Of what all messages may take, for the newest turn's questions where there is no room for all."
    tool_result_truncation: Shape = "both"
    margin_share: float = 0.05
    clear_trigger: float = 0.6
    clear_keep_first: int = 2
    clear_keep_results: int = 5
    clear_protect_tokens: int = 40_000
    clear_minimum_tokens: int = 20_000
    clear_exclude_tools: tuple[str, ...] = ()
    argument_limit_characters: int = 2_000
    argument_head_characters: int = 100
    summarize_trigger: float = 0.85
    summarize_cold_trigger: float = 0.5
    "Where the provider's cache is about to go, or gone: the next request is paid for whole anyway."
    summarize_keep: float = 0.1
    cut_to: float = 0.3
    shrink_to: float = 0.75
    "The same of the running turn, where it is all that is left."
    window_trigger: float = 0.875
    window_cut_to: float = 0.625
    window_turns: int = 0
    "0 = no limit but the window."
    recall: bool = True
    "Whether the model has the tool that the markers name."

    @property
    def markers(self) -> Markers:
        """What stands for what is hidden."""
        return Markers(recall=self.recall)

    @property
    def old(self) -> Old:
        """What may be taken away once it is old."""
        return Old(
            markers=self.markers,
            keep_first=self.clear_keep_first,
            keep_results=self.clear_keep_results,
            exclude=frozenset(self.clear_exclude_tools),
            argument_limit_characters=self.argument_limit_characters,
            argument_head_characters=self.argument_head_characters,
        )


def _estimates(_numbers: Numbers, limits: Limits) -> Estimates:
    return Estimates(limits.scale)


def _window(limits: Limits) -> int:
    return DEFAULT_WINDOW_TOKENS if limits.window_tokens is None else limits.window_tokens


def _divide(numbers: Numbers, limits: Limits, system_tokens: int, tools_tokens: int) -> Budget:
    window, reserve = _window(limits), limits.output_tokens
    if reserve is None:  # nobody asked for so much: a small window need not pay for it
        reserve = min(DEFAULT_RESERVE_TOKENS, window // _RESERVE_SHARE)
    return Budget(
        window_tokens=window,
        system_tokens=system_tokens,
        tools_tokens=tools_tokens,
        reserve_tokens=reserve,
        margin_tokens=int(window * numbers.margin_share),
        history_cap_tokens=numbers.max_history_tokens,
        correction_tokens=limits.correction_tokens,
    )


def _result_tokens(numbers: Numbers, limits: Limits) -> int:
    share = max(int(_window(limits) * numbers.max_result_share), _RESULT_FLOOR_TOKENS)
    return min(numbers.max_tool_result_tokens, share)


def _recalled_tokens(numbers: Numbers, limits: Limits) -> int:
    share = max(_window(limits) // _RECALL_SHARE, _result_tokens(numbers, limits))
    return min(numbers.max_tool_result_tokens, share)


def _shorten_result(numbers: Numbers, limits: Limits, result: ToolResult, path: str) -> str:
    def marker(shown: int, whole: int) -> str:
        return numbers.markers.truncated(shown, whole, path)

    is_recalled = result.name == RECALL_TOOL
    tokens = (_recalled_tokens if is_recalled else _result_tokens)(numbers, limits)
    most = tokens * UNITS_PER_TOKEN
    if message_units(result) <= most:  # counted already
        return result.text
    return keep_ends(result.text, most, numbers.tool_result_truncation, marker)


def _room(numbers: Numbers, projection: Projection, budget: Budget, count: Estimates) -> int:
    """Return what all messages may cost, in tokens; may be below 0."""
    notice = count.tokens(_notice_units(numbers.markers))
    summary = projection.whole_summary
    told = count.text(quoted_summary("", summary)) if summary else 0
    return budget.free_tokens - notice - told


@cache
def _notice_units(markers: Markers) -> int:
    """Return what the longest notice costs; there are two."""
    return text_units(markers.notice(_MANY))


def _limit(numbers: Numbers, count: Estimates) -> Callable[[Projection, Budget], int]:
    return lambda projection, budget: max(_room(numbers, projection, budget, count), 0)


def _lasting(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    count = _estimates(numbers, limits)
    room = Room(limit=_limit(numbers, count), cut_to=numbers.shrink_to, count=count)
    return (
        take_in_pastes(
            limit=_limit(numbers, count),
            share=numbers.max_message_share,
            markers=numbers.markers,
            count=count,
        ),
        _jump(numbers, limits),
        _clear(numbers, limits),
        *shrink_current(room, numbers.old),
    )


def _check(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    return (_refuse(numbers, _estimates(numbers, limits)),)


def _protected_tokens(numbers: Numbers, limits: Limits) -> int:
    return min(numbers.clear_protect_tokens, _window(limits) // _PROTECT_SHARE)


def _jump(numbers: Numbers, limits: Limits) -> Stage:
    count, held, turns = _estimates(numbers, limits), limits.window_messages, numbers.window_turns
    limit = _limit(numbers, count)

    def mark(
        projection: Projection, budget: Budget, *, share: float, window: float, last: float
    ) -> Mark:
        cap = budget.history_cap_tokens
        return Mark(
            tokens=int(limit(projection, budget) * share),
            history_tokens=int(cap * share) if cap else None,
            messages=None if held is None else int(held * window),
            turns=int(turns * last) if turns else None,
        )

    down_to = numbers.window_cut_to
    return jump_turns(
        limit=partial(mark, share=1, window=numbers.window_trigger, last=1),
        down_to=partial(mark, share=numbers.cut_to, window=down_to, last=down_to),
        gains=lambda projection: (
            (item.place, item.gain_units) for item in items(projection, numbers.old)
        ),
        protect_tokens=_protected_tokens(numbers, limits),
        count=count,
        clear_to=_CLEAR_TO,
    )


def _clear(numbers: Numbers, limits: Limits) -> Stage:
    count = _estimates(numbers, limits)
    return clear_old(
        numbers.old,
        limit=_limit(numbers, count),
        trigger=numbers.clear_trigger,
        protect_tokens=_protected_tokens(numbers, limits),
        minimum_tokens=min(numbers.clear_minimum_tokens, _window(limits) // _MINIMUM_SHARE),
        count=count,
    )


def _refuse(numbers: Numbers, count: Estimates) -> Stage:
    def stage(projection: Projection, budget: Budget) -> Outcome:
        room = _room(numbers, projection, budget, count) + budget.margin_tokens
        if count.tokens(projection_units(projection)) <= room:
            return projection, ()
        raise _does_not_fit(projection, budget, count)

    return stage


def _does_not_fit(
    projection: Projection, budget: Budget, count: Estimates
) -> ContextDoesNotFitError:
    turn = projection.blocks[newest_turn(projection) :]
    users = [block for block in turn if not isinstance(block, Step)]
    steps = [block for block in turn if isinstance(block, Step)]
    summary = count.text(quoted_summary("", projection.whole_summary))
    msg = (
        "the current turn does not fit even when it is shortened: its user messages still need"
        f" {size_tokens(projection, flatten(users), count):,} tokens and its steps"
        f" {size_tokens(projection, flatten(steps), count):,}"
        + (f", beside a summary of {summary:,}" if summary else "")
        + f"; {budget.explain()}; send less at once, shorten the prompt, lower max_output_tokens or"
        " choose a model with a larger window"
    )
    return ContextDoesNotFitError(msg)


def _older(numbers: Numbers, limits: Limits, projection: Projection, budget: Budget) -> int:
    count = _estimates(numbers, limits)
    limit = _limit(numbers, count)(projection, budget)
    trigger = numbers.summarize_trigger
    if projection.is_cold:
        trigger = min(trigger, numbers.summarize_cold_trigger)
    is_full = count.tokens(projection_units(projection)) >= trigger * limit
    told = sum(map(gap_of, projection.blocks)) if projection.unsummarised else 0
    # A summary can wait for what left turns that are still shown: markers tell of it.
    if not is_full and projection.unsummarised <= told:
        return 0
    newest = newest_turn(projection)
    keep, cut = units_of(numbers.summarize_keep * limit, count), newest
    keep -= size_units(projection, flatten(projection.blocks[newest:]))
    starts = [start for start in turn_starts(projection.blocks[:newest]) if start > 0]
    for start in reversed(starts):
        keep -= size_units(projection, flatten(projection.blocks[start:cut]))
        if keep < 0:
            break
        cut = start
    return cut


def _headroom(numbers: Numbers, limits: Limits, projection: Projection, budget: Budget) -> Headroom:
    """Return what is known at once; what else is limited has to be looked at."""
    if budget.history_cap_tokens or numbers.window_turns or projection.unsummarised:
        return NO_HEADROOM
    count = _estimates(numbers, limits)
    tokens = max(count.tokens(projection_units(projection)), 1)
    times = _room(numbers, projection, budget, count) / tokens
    lasting = min(numbers.clear_trigger, 1.0) * times
    if limits.window_messages is not None:
        most = limits.window_messages * min(numbers.window_trigger, 1.0)
        lasting = min(lasting, most / max(projection_messages(projection), 1))
    return Headroom(lasting=lasting, older=min(numbers.summarize_trigger, 1.0) * times)


def _between(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    def summarise(projection: Projection, budget: Budget) -> Outcome:
        cleared, _ = _clear(numbers, limits)(projection, budget)
        messages = count_messages(projection.blocks[: _older(numbers, limits, cleared, budget)])
        return would_summarise(projection, messages), ()

    return (summarise,)


def _overflow(numbers: Numbers, limits: Limits) -> Stage:
    """Return the stage that leaves out half of what messages cost."""

    def stage(projection: Projection, budget: Budget) -> Outcome:
        return _shrink(numbers, limits, projection_units(projection) // 2)(projection, budget)

    return stage


def _shrink(numbers: Numbers, limits: Limits, most_units: int) -> Stage:
    share = numbers.max_message_share
    return come_down(most_units, numbers.old, _estimates(numbers, limits), share=share)


def _outlook(numbers: Numbers, now: ContextUsage) -> Iterator[str]:
    counts = _estimates(numbers, now.limits)
    notice = counts.text(numbers.markers.notice(_MANY))
    summary = counts.text(quoted_summary("", now.projection.whole_summary))
    room = max(now.budget.free_tokens - notice - summary, 0)
    of = "of messages"
    yield due_from(
        "old tool results are cleared", int(room * numbers.clear_trigger), now.messages, of
    )
    if now.summarises:
        summary_from = int(room * numbers.summarize_trigger)
        yield due_from("older turns are summarised after a turn", summary_from, now.messages, of)
    then = f", down to {int(room * numbers.cut_to):,}"
    yield due_from("the oldest turns leave", room, now.messages, of, then)
    held = now.limits.window_messages
    if held is not None:
        most, least = int(held * numbers.window_trigger), int(held * numbers.window_cut_to)
        yield (
            f"so they do above {most:,} messages, down to {least:,}:"
            f" {len(now.projection.messages):,} are shown now"
        )


POLICY = Policy(
    name="everturn",
    numbers=Numbers(),
    prompt=quoted_summary,
    opens_summaries=True,
    estimator=_estimates,
    divide=_divide,
    overflow=_overflow,
    shrink=_shrink,
    check=_check,
    shorten_result=_shorten_result,
    between=_between,
    lasting=_lasting,
    older=_older,
    headroom=_headroom,
    notice_text=lambda numbers, omitted: numbers.markers.notice(omitted),
    notice_in_prompt=True,
    gap_text=lambda numbers, messages: numbers.markers.gap(messages),
    recalled_tokens=_recalled_tokens,
    unrecalled=lambda numbers: dataclasses.replace(numbers, recall=False),
    outlook=_outlook,
)
