"""The `duragent` policy: which blocks a request keeps, and how large they may be. Pure.

Three layers: a message-count window, which is that of every session (a transcript, which comes from
none, is cut as one would have cut it); a budget filled from the newest block to the oldest, with a
notice that tells how many messages are left out; and, inside the running turn, results that are cut
(before anything else), masked, and left out by whole iterations. The third layer takes neither
system prompt nor tools off its budget, and counts neither, as the seed says: the margin has to
cover them. It counts the history, so a smaller window, which shows less of that, may show more of
the turn.

Where this differs from the seed, it is on purpose:

- The current turn is never left out. It may exceed the history cap, its steps do not count
  towards it (the cap exists to leave room for them), and where it is larger than the window it is
  shortened: its results, oldest first, then its user messages, oldest first.
- The notice counts every message since the session began that is not shown. The seed counts what
  the actor still holds, so what the message-count window let go was never reported.
- The notice is paid for by the margin; only where a tiny window makes the margin smaller than the
  notice is the difference charged.
- A result that is masked stays as it is, so the number in its mark stays that of the result.
- The newest user message never leaves with an iteration, though it steers it.
- The message-count window lets whole steps go; the seed may cut one in two.
- The system makes no summary and knows no error of a provider that found a request too long. One
  on demand stands after the system prompt; after such an error half of the turns leave.
- At the end, a request that would not fit the window even so is shortened like the current turn
  above, and its older messages leave; where that is not enough it is refused, with the parts named.

Source: the seed design "Context Window Management".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from everturn_actors.context.estimation.budget import DEFAULT_RESERVE_TOKENS, Budget
from everturn_actors.context.estimation.tokens import (
    estimate_message,
    estimate_text,
    estimate_tools,
)
from everturn_actors.context.estimation.window import window_messages
from everturn_actors.context.estimation.windows import DEFAULT_WINDOW_TOKENS
from everturn_actors.context.policy import ContextUsage, Limits, Policy, due_from, with_summary
from everturn_actors.context.projection.projection import (
    Outcome,
    Place,
    Projection,
    Reduction,
    Stage,
    edit,
    remove,
)
from everturn_actors.context.projection.results import Shape, shorten, truncate
from everturn_actors.context.projection.turns import Block, count_messages, flatten, size_tokens
from everturn_actors.context.stages.clearing import mask_results
from everturn_actors.context.stages.truncation import (
    drop_iterations,
    halve,
    keep_messages,
    keep_newest,
    newest_blocks,
)
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import (
    AnyMessage,
    Notice,
    Step,
    ToolDefinition,
    ToolResult,
    UserMessage,
)

_Text = TypeVar("_Text", UserMessage, ToolResult)

_RESULT_FLOOR_TOKENS = 32  # of a shortened result: enough to tell what it was
_USER_FLOOR_TOKENS = 128  # of a shortened user message: the question usually stands at its head
_NOTICE_TOKENS = estimate_message(
    Notice(text="[conversation truncated — 1000000000 older messages omitted]")
)


def notice(left_messages: int) -> Notice:
    """Return what tells the model how much of the conversation it does not see."""
    return Notice(text=f"[conversation truncated — {left_messages} older messages omitted]")


def _size_users(chosen: Sequence[Block]) -> int:
    return sum(size_tokens(block) for block in chosen if isinstance(block, UserMessage))


def _size_steps(chosen: Sequence[Block]) -> int:
    return sum(size_tokens(block) for block in chosen if isinstance(block, Step))


def _shorten(kept: Sequence[Block], excess_tokens: int, budget: Budget) -> tuple[Block, ...]:
    """Return the blocks of the current turn, cheaper by at least `excess_tokens`."""
    shortened: list[Block] = []
    for block in kept:
        if isinstance(block, Step):
            results: list[ToolResult] = []
            for result in block.results:
                results.append(_shorter(result, excess_tokens, _RESULT_FLOOR_TOKENS))
                excess_tokens -= estimate_message(result) - estimate_message(results[-1])
            shortened.append(replace(block, results=tuple(results)))
        else:
            shortened.append(block)
    for index, block in enumerate(shortened):
        if isinstance(block, UserMessage):
            user = _shorter(block, excess_tokens, _USER_FLOOR_TOKENS)
            excess_tokens -= estimate_message(block) - estimate_message(user)
            shortened[index] = user
    if excess_tokens > 0:
        raise _does_not_fit(shortened, budget)
    return tuple(shortened)


def _shorter(message: _Text, excess_tokens: int, floor_tokens: int) -> _Text:
    """Return `message` with a shorter text, or as it is where nothing has to, or can, be gained."""
    if excess_tokens <= 0:
        return message
    text = shorten(message.text, excess_tokens=excess_tokens, floor_tokens=floor_tokens)
    return message if text == message.text else replace(message, text=text)


def _does_not_fit(shortened: Sequence[Block], budget: Budget) -> ContextDoesNotFitError:
    msg = (
        f"the current turn does not fit even when it is shortened: its user messages still need"
        f" {_size_users(shortened):,} tokens and its steps {_size_steps(shortened):,};"
        f" {budget.explain()}; send less at once, shorten the prompt, lower"
        " max_output_tokens or choose a model with a larger window"
    )
    return ContextDoesNotFitError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the policy, as the agent format names them."""

    max_history_tokens: int = 20_000
    max_tool_result_tokens: int = 8_000
    tool_result_truncation: Shape = "head"
    tool_result_keep_first: int = 2
    tool_result_keep_last: int = 5


class Estimates:
    """Bytes // 4 of each part, and 4 for each message. Images and files cost nothing here."""

    def text(self, text: str) -> int:
        """Return the tokens of a text on its own."""
        return estimate_text(text)

    def message(self, message: AnyMessage, media: int) -> int:
        """Return the tokens of a message."""
        return estimate_message(message)

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return the tokens of tool definitions."""
        return estimate_tools(tools)


_ESTIMATES = Estimates()
_ROLL_MESSAGES = 50  # so many pending messages become checkpointed; only those can leave


def _divide(numbers: Numbers, limits: Limits, system_tokens: int, tools_tokens: int) -> Budget:
    window = DEFAULT_WINDOW_TOKENS if limits.window_tokens is None else limits.window_tokens
    reserve = DEFAULT_RESERVE_TOKENS if limits.output_tokens is None else limits.output_tokens
    return Budget(
        window_tokens=window,
        system_tokens=system_tokens,
        tools_tokens=tools_tokens,
        reserve_tokens=reserve,
        margin_tokens=window // 10,
        history_cap_tokens=numbers.max_history_tokens,
    )


def _shorten_result(numbers: Numbers, _limits: Limits, result: ToolResult, _path: str) -> str:
    return truncate(result.text, numbers.max_tool_result_tokens, numbers.tool_result_truncation)


def _between(_numbers: Numbers, _limits: Limits) -> tuple[Stage, ...]:
    return (keep_messages(left=_leaving, estimator=_ESTIMATES),)


def _ladder(numbers: Numbers, _limits: Limits) -> tuple[Stage, ...]:
    first, last = numbers.tool_result_keep_first, numbers.tool_result_keep_last
    return (
        keep_newest(_ESTIMATES),
        mask_results(keep_first=first, keep_last=last, estimator=_ESTIMATES),
        drop_iterations(limit=_turn_limit, estimator=_ESTIMATES),
        _fit,
    )


def _leaving(window_tokens: int, spoken: Sequence[bool]) -> int:
    """Return how many messages have left the old end after all of them came in one by one."""
    limit, gone = window_messages(window_tokens), 0
    checkpointed = pending = 0
    for by_user_or_model in spoken:
        pending += 1
        if pending >= _ROLL_MESSAGES:
            checkpointed, pending = checkpointed + pending, 0
        excess = min(checkpointed + pending - limit, checkpointed)
        if by_user_or_model and excess > 0:
            checkpointed -= excess
            gone += excess
    return gone


def _turn_limit(budget: Budget) -> int:
    return budget.window_tokens - budget.reserve_tokens - budget.margin_tokens


def _fit(projection: Projection, budget: Budget) -> Outcome:
    """Make a request fit that is larger than the window all the same."""
    summary = (
        estimate_text(with_summary("", projection.whole_summary)) + 1
    )  # 1: of two floored parts
    limit = budget.free_tokens + budget.margin_tokens - (summary if projection.whole_summary else 0)
    if sum(map(size_tokens, projection.blocks)) <= limit - (
        _NOTICE_TOKENS if _omits(projection) else 0
    ):
        return projection, ()
    limit -= _NOTICE_TOKENS
    start = projection.protected
    current = projection.blocks[start:]
    asked = sum(map(size_tokens, current))
    cut = newest_blocks(projection.blocks[:start], limit - asked)
    omitted = projection.omitted_messages + count_messages(projection.blocks[:cut])
    projection, reductions = remove(
        replace(projection, omitted_messages=omitted),
        range(cut),
        disposition="dropped",
        stage="fit",
        estimator=_ESTIMATES,
    )
    if asked > limit:
        short = _shorten(current, asked - limit, budget)
        projection, more = _put(projection, start - cut, current, short)
        reductions += more
    return projection, reductions


def _omits(projection: Projection) -> bool:
    return projection.omitted_messages > 0


def _put(
    projection: Projection, start: int, old: Sequence[Block], new: Sequence[Block]
) -> tuple[Projection, tuple[Reduction, ...]]:
    """Put the shortened messages of `new` in the places of `old`, which begin at `start`."""
    changes: dict[Place, AnyMessage] = {}
    for index, (before, after) in enumerate(zip(old, new, strict=True), start):
        for number, (was, is_now) in enumerate(
            zip(flatten([before]), flatten([after]), strict=True)
        ):
            if was != is_now:
                changes[index, number] = is_now
    return edit(projection, changes, disposition="shortened", stage="fit", estimator=_ESTIMATES)


def _outlook(numbers: Numbers, now: ContextUsage) -> Iterator[str]:
    limit = now.budget.history_tokens
    used = now.history + now.asked
    yield due_from("older messages are left out of a request", limit, used, "of history")
    first, last = numbers.tool_result_keep_first, numbers.tool_result_keep_last
    if first or last:
        yield (
            f"in a running turn all tool results but the first {first:,} and the last {last:,}"
            " are masked"
        )


POLICY = Policy(
    name="duragent",
    numbers=Numbers(),
    estimator=lambda _numbers, _limits: _ESTIMATES,
    divide=_divide,
    overflow=lambda _numbers, _limits: halve(_ESTIMATES),
    shorten_result=_shorten_result,
    between=_between,
    ladder=_ladder,
    notice_text=lambda _numbers, omitted: notice(omitted).text,
    whole_characters=lambda numbers, _limits: numbers.max_tool_result_tokens,
    outlook=_outlook,
    summarises=False,
)
