"""The `duragent` policy: which blocks a request keeps, and how large they may be. Pure.

Three layers: a message-count window; a budget filled from the newest block to the oldest, with a
notice that tells how many messages are left out; and, inside the running turn, results that are cut
(before anything else), masked, and left out by whole iterations. `choose` is the second layer
alone, as live sessions are rendered; `POLICY` is all of them. Its third layer takes neither system
prompt nor tools off its budget, and counts neither, as the seed says: the margin has to cover them.
It counts the history, so a smaller window, which shows less of that, may show more of the turn.

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
- At the end, a request that would not fit the window even so is shortened like the current turn
  above, and its older messages leave; where that is not enough it is refused, with the parts named.

Source: the seed design "Context Window Management".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from everturn_actors.context.budget import DEFAULT_RESERVE_TOKENS, Budget
from everturn_actors.context.policy import Limits, Policy
from everturn_actors.context.results import Shape, shorten, truncate
from everturn_actors.context.stages.clearing import mask_results
from everturn_actors.context.stages.cutting import (
    count_messages,
    drop_iterations,
    keep_messages,
    keep_newest,
    newest_blocks,
)
from everturn_actors.context.stages.texts import cap_results
from everturn_actors.context.tokens import estimate_message, estimate_text, estimate_tools
from everturn_actors.context.turns import Block, blocks, flatten, size_tokens, whole
from everturn_actors.context.view import Outcome, Place, Reduction, Stage, View, edit, remove
from everturn_actors.context.window import window_messages
from everturn_actors.context.windows import DEFAULT_WINDOW_TOKENS
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import (
    AnyMessage,
    Conversation,
    Notice,
    Step,
    ToolDefinition,
    ToolResult,
    Turn,
    UserMessage,
)

_Text = TypeVar("_Text", UserMessage, ToolResult)

_RESULT_FLOOR_TOKENS = 32  # of a shortened result: enough to tell what it was
_USER_FLOOR_TOKENS = 128  # of a shortened user message: the question usually stands at its head
_NOTICE_TOKENS = estimate_message(
    Notice(text="[conversation truncated — 1000000000 older messages omitted]")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a request shows of a conversation."""

    messages: tuple[AnyMessage, ...]
    "Whole blocks, oldest first; the last ones are the current turn."
    left_messages: int
    "Messages since the session began that are not shown."


def choose(conversation: Conversation, budget: Budget) -> Chosen:
    """Return the newest blocks that fit `budget`, the current turn always among them.

    The current turn is the running one, or the newest finished one where none runs. Its open step
    is no block and is neither shown nor counted.

    Raises:
        ContextDoesNotFitError: The current turn is too large even when it is shortened.
    """
    turns, current = conversation.turns, conversation.current
    if current is not None:
        kept = blocks(current)
    elif turns:
        turns, kept = turns[:-1], blocks(turns[-1])
    else:
        return Chosen(messages=(), left_messages=conversation.left_messages)
    limit = _limit(budget)
    asked, answered = _size_users(kept), _size_steps(kept)
    older, cut = _newest(turns, min(budget.history_tokens - asked, limit - asked - answered))
    if asked + answered > limit:
        kept = _shorten(kept, asked + answered - limit, budget)
    return Chosen(messages=(*older, *flatten(kept)), left_messages=conversation.left_messages + cut)


def notice(left_messages: int) -> Notice:
    """Return what tells the model how much of the conversation it does not see."""
    return Notice(text=f"[conversation truncated — {left_messages} older messages omitted]")


def _limit(budget: Budget) -> int:
    """Return what the blocks may take, in tokens."""
    return max(budget.available_tokens - max(_NOTICE_TOKENS - budget.margin_tokens, 0), 0)


def _size_users(chosen: Sequence[Block]) -> int:
    return sum(size_tokens(block) for block in chosen if isinstance(block, UserMessage))


def _size_steps(chosen: Sequence[Block]) -> int:
    return sum(size_tokens(block) for block in chosen if isinstance(block, Step))


def _newest(turns: Sequence[Turn], room_tokens: int) -> tuple[tuple[AnyMessage, ...], int]:
    """Return the newest blocks of `turns` that fit, up to the first that does not.

    A turn that fits is taken whole, by what is kept with it, so that a long history costs little
    more than counting its turns.

    Returns:
        Their messages, oldest first, and how many messages of `turns` are not among them.
    """
    parts: list[tuple[AnyMessage, ...]] = []
    for index in range(len(turns) - 1, -1, -1):
        cost, messages = whole(turns[index])
        if cost > room_tokens:
            part = _newest_blocks(turns[index], room_tokens)
            left = sum(turn.size_messages for turn in turns[: index + 1]) - len(part)
            return (*part, *chain.from_iterable(reversed(parts))), left
        room_tokens -= cost
        parts.append(messages)
    return tuple(chain.from_iterable(reversed(parts))), 0


def _newest_blocks(turn: Turn, room_tokens: int) -> tuple[AnyMessage, ...]:
    """Return the messages of the newest blocks of one turn that fit, oldest first."""
    held = blocks(turn)
    return tuple(flatten(held[newest_blocks(held, room_tokens) :]))


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

    def message(self, message: AnyMessage, media: int) -> int:  # noqa: ARG002 - see above
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


def _ladder(numbers: Numbers, _limits: Limits) -> tuple[Stage, ...]:
    def cut(text: str) -> str:
        return truncate(text, numbers.max_tool_result_tokens, numbers.tool_result_truncation)

    first, last = numbers.tool_result_keep_first, numbers.tool_result_keep_last
    return (
        cap_results(cut, _ESTIMATES),
        keep_messages(left=_leaving, estimator=_ESTIMATES),
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


def _fit(view: View, budget: Budget) -> Outcome:
    """Make a request fit that is larger than the window all the same."""
    limit = budget.free_tokens + budget.margin_tokens
    if sum(map(size_tokens, view.blocks)) <= limit - (_NOTICE_TOKENS if _omits(view) else 0):
        return view, ()
    limit -= _NOTICE_TOKENS
    start = view.protected
    current = view.blocks[start:]
    asked = sum(map(size_tokens, current))
    cut = newest_blocks(view.blocks[:start], limit - asked)
    omitted = view.omitted_messages + count_messages(view.blocks[:cut])
    view, reductions = remove(
        replace(view, omitted_messages=omitted),
        range(cut),
        fate="dropped",
        stage="fit",
        estimator=_ESTIMATES,
    )
    if asked > limit:
        short = _shorten(current, asked - limit, budget)
        view, more = _put(view, start - cut, current, short)
        reductions += more
    return view, reductions


def _omits(view: View) -> bool:
    return view.omitted_messages > 0


def _put(
    view: View, start: int, old: Sequence[Block], new: Sequence[Block]
) -> tuple[View, tuple[Reduction, ...]]:
    """Put the shortened messages of `new` in the places of `old`, which begin at `start`."""
    changes: dict[Place, AnyMessage] = {}
    for index, (before, after) in enumerate(zip(old, new, strict=True), start):
        for number, (was, is_now) in enumerate(
            zip(flatten([before]), flatten([after]), strict=True)
        ):
            if was != is_now:
                changes[index, number] = is_now
    return edit(view, changes, fate="shortened", stage="fit", estimator=_ESTIMATES)


POLICY = Policy(
    name="duragent",
    numbers=Numbers(),
    estimator=_ESTIMATES,
    divide=_divide,
    ladder=_ladder,
    notice=lambda omitted: notice(omitted).text,
)
