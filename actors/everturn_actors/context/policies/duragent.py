"""The `duragent` policy: which blocks a request keeps, and how large they may be. Pure.

Layer 2 of the seed design: walk from the newest block to the oldest, stop at the first that would
exceed the budget, and tell the model how many messages are left out. Where this differs from the
seed, it is on purpose:

- The current turn is never left out. It may exceed the history cap, its steps do not count
  towards it (the cap exists to leave room for them), and where it is larger than the window it is
  shortened: its results, oldest first, then its user messages, oldest first.
- The notice counts every message since the session began that is not shown. The seed counts what
  the actor still holds, so what the message-count window let go was never reported.
- The notice is paid for by the margin; only where a tiny window makes the margin smaller than the
  notice is the difference charged.

Source: the seed design "Context Window Management", layer 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from everturn_actors.context.budget import Budget
from everturn_actors.context.results import shorten
from everturn_actors.context.tokens import estimate_message
from everturn_actors.context.turns import Block, blocks, flatten, size_tokens, whole
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import (
    AnyMessage,
    Conversation,
    Notice,
    Step,
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
    kept: list[Block] = []
    for block in reversed(blocks(turn)):
        room_tokens -= size_tokens(block)
        if room_tokens < 0:
            break
        kept.append(block)
    return tuple(flatten(reversed(kept)))


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
