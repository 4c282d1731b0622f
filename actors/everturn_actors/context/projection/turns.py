"""The blocks a conversation is cut into. Pure.

A block is a user message, a whole step (a reply and the results of its calls), or a notice. Nothing
in `context` holds, keeps or leaves out less than a block, so no call can lose its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from everturn_actors.context.estimation.tokens import estimate_message
from everturn_actors.model import (
    AnyMessage,
    Notice,
    OpenTurn,
    Step,
    Turn,
    UserMessage,
)

Block: TypeAlias = UserMessage | Step | Notice


def blocks(turn: Turn | OpenTurn) -> tuple[Block, ...]:
    """Return the blocks of a turn, oldest first; the open step of a running turn is none."""
    return turn.blocks


def size_tokens(block: Block) -> int:
    """Return the estimated tokens of a block."""
    if isinstance(block, Step):
        cost = estimate_message(block.reply)
        for result in block.results:
            cost += estimate_message(result)
        return cost
    return estimate_message(block)


def flatten(chosen: Iterable[Block]) -> Iterator[AnyMessage]:
    """Yield the messages of blocks in order."""
    for block in chosen:
        if isinstance(block, Step):
            yield block.reply
            yield from block.results
        else:
            yield block


def count_messages(chosen: Iterable[Block]) -> int:
    """Return how many messages of the conversation blocks hold; the gateway's own do not count."""
    return sum(1 for message in flatten(chosen) if message.seq)
