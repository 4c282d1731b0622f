"""The blocks a conversation is cut into. Pure.

A block is a user message, a whole step (a reply and the results of its calls), or a notice. Nothing
in `context` holds, keeps or leaves out less than a block, so no call can lose its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from everturn_actors.context.tokens import estimate_message
from everturn_actors.model import (
    AnyMessage,
    Notice,
    OpenTurn,
    Step,
    Turn,
    UserMessage,
    remember,
)

Block: TypeAlias = UserMessage | Step | Notice


def blocks(turn: Turn | OpenTurn) -> tuple[Block, ...]:
    """Return the blocks of a turn, oldest first; the open step of a running turn is none."""
    return (*turn.users, *turn.steps)


def size_tokens(block: Block) -> int:
    """Return the estimated tokens of a block."""
    if isinstance(block, Step):
        cost = estimate_message(block.reply)
        for result in block.results:
            cost += estimate_message(result)
        return cost
    return estimate_message(block)


Whole: TypeAlias = tuple[int, tuple[AnyMessage, ...]]


def whole(turn: Turn) -> Whole:
    """Return the estimated tokens of a finished turn and its messages, kept with it."""
    kept: Whole | None = turn.memo.get("whole")  # first: this is asked of each turn shown
    return kept or remember(
        turn, "whole", lambda: (sum(map(size_tokens, blocks(turn))), turn.messages)
    )


def flatten(chosen: Iterable[Block]) -> Iterator[AnyMessage]:
    """Yield the messages of blocks in order."""
    for block in chosen:
        if isinstance(block, Step):
            yield block.reply
            yield from block.results
        else:
            yield block
