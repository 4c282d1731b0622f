"""Stages that leave out whole blocks: windows, turns, iterations, emergency halving. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.projection.projection import (
    Estimator,
    Outcome,
    Projection,
    Stage,
    block_tokens,
    remove,
)
from everturn_actors.context.projection.turns import Block, count_messages, size_tokens
from everturn_actors.model import AnyMessage, Step, UserMessage

STEERING = "[steering]"
"How a user message begins that was put into a running turn."
EMERGENCY_NOTE = "[Emergency compression dropped {messages} oldest messages due to context limit]"


def newest_blocks(
    blocks: Sequence[Block], room_tokens: int, cost: Callable[[Block], int] = size_tokens
) -> int:
    """Return the index of the oldest block that fits, walking from the newest one on.

    The first that does not fit ends the walk; where none fits it is the number of blocks.
    """
    for index in range(len(blocks) - 1, -1, -1):
        room_tokens -= cost(blocks[index])
        if room_tokens < 0:
            return index + 1
    return 0


def _messages(block: Block) -> tuple[AnyMessage, ...]:
    return block.messages if isinstance(block, Step) else (block,)


def keep_messages(*, left: Callable[[int, Sequence[bool]], int], estimator: Estimator) -> Stage:
    """Return the stage that keeps a number of newest messages.

    Args:
        left: Told the window in tokens and, for each message up to the running turn's question,
            whether it is a user's or an assistant's, it gives how many leave the old end. A step
            that would be cut leaves whole; the running turn never leaves.
        estimator: Counts what is gained.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        asked = projection.current
        while asked < len(projection.blocks) and isinstance(projection.blocks[asked], UserMessage):
            asked += 1
        spoken: list[bool] = []
        starts: list[int] = []
        for block in projection.blocks[:asked]:
            starts.append(len(spoken))
            spoken += [number == 0 for number in range(len(_messages(block)))]
        leaving = left(budget.window_tokens, spoken)
        cut = sum(1 for start in starts if start < leaving)
        return _cut(projection, min(cut, projection.protected), "window", estimator)

    return stage


def keep_newest(estimator: Estimator) -> Stage:
    """Return the stage that fills the budget's history from the newest block to the oldest.

    The running turn's questions are part of it, its steps are not. It never leaves.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        start = projection.protected
        newest = projection.blocks[start:]
        if projection.current < len(projection.blocks):
            newest = tuple(block for block in newest if isinstance(block, UserMessage))
        room = budget.history_tokens - sum(block_tokens(projection, b, estimator) for b in newest)

        def cost(block: Block) -> int:
            return block_tokens(projection, block, estimator)

        cut = newest_blocks(projection.blocks[:start], room, cost)
        return _cut(projection, cut, "history_budget", estimator)

    return stage


def _cut(projection: Projection, cut: int, stage: str, estimator: Estimator) -> Outcome:
    """Remove the oldest blocks and count them among what the notice tells."""
    omitted = projection.omitted_messages + count_messages(projection.blocks[:cut])
    projection = replace(projection, omitted_messages=omitted)
    return remove(projection, range(cut), disposition="dropped", stage=stage, estimator=estimator)


def drop_iterations(*, limit: Callable[[Budget], int], estimator: Estimator) -> Stage:
    """Return the stage that leaves out the oldest steps of the running turn.

    While all messages cost more than `limit`, the oldest step with calls goes, with one steering
    message directly after it; the last such step never goes, nor does the newest user message.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        excess = sum(block_tokens(projection, b, estimator) for b in projection.blocks) - limit(
            budget
        )
        gone: list[int] = []
        for group in list(_iterations(projection))[:-1]:
            if excess <= 0:
                break
            gone += group
            excess -= sum(
                block_tokens(projection, projection.blocks[index], estimator) for index in group
            )
        return remove(
            projection, gone, disposition="dropped", stage="drop_iterations", estimator=estimator
        )

    return stage


def _iterations(projection: Projection) -> Iterator[list[int]]:
    """Yield the blocks of each iteration of the running turn."""
    newest = max(
        (n for n, b in enumerate(projection.blocks) if isinstance(b, UserMessage)), default=-1
    )
    for index in range(projection.current, len(projection.blocks)):
        block = projection.blocks[index]
        if not isinstance(block, Step) or not block.reply.calls:
            continue
        after = projection.blocks[index + 1] if index + 1 < len(projection.blocks) else None
        steered = isinstance(after, UserMessage) and after.text.startswith(STEERING)
        yield [index, index + 1] if steered and index + 1 != newest else [index]


def boundaries(blocks: Sequence[Block]) -> list[int]:
    """Return where turns begin, counted in messages: one at each user message."""
    found: list[int] = []
    start = 0
    for block in blocks:
        if isinstance(block, UserMessage):
            found.append(start)
        start += len(_messages(block))
    return found


def safe_boundary(blocks: Sequence[Block], target: int) -> int:
    """Return where to cut near message `target` so that no turn is cut in two.

    The last turn that begins at `target` or before, if it is not the first; else the next one
    after it; else 0. Without any user message it is `target` itself.
    """
    total = sum(len(_messages(block)) for block in blocks)
    if target <= 0:
        return 0
    if target >= total:
        return total
    starts = boundaries(blocks)
    if not starts:
        return target
    before = [start for start in starts if start <= target]
    if before and before[-1] > 0:
        return before[-1]
    return next((start for start in starts if start > target), 0)


def block_at(blocks: Sequence[Block], message: int) -> int:
    """Return the block that holds message number `message`: a cut inside a step moves back."""
    start = 0
    for index, block in enumerate(blocks):
        start += len(_messages(block))
        if message < start:
            return index
    return len(blocks)


def trim_turns(
    *,
    cost: Callable[[Projection, Budget], int],
    limit: Callable[[Budget], int],
    estimator: Estimator,
) -> Stage:
    """Return the stage that leaves out the oldest whole turns, one by one, until the request fits.

    Args:
        cost: Gives the tokens of everything.
        limit: Above it, turns leave.
        estimator: Counts what is gained.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        excess = cost(projection, budget) - limit(budget)
        if excess <= 0:
            return projection, ()
        cut, protected = 0, projection.protected
        for index in range(1, protected + 1):
            excess -= block_tokens(projection, projection.blocks[index - 1], estimator)
            if index == protected or isinstance(projection.blocks[index], UserMessage):
                cut = index
                if excess <= 0:
                    break
        return remove(
            projection, range(cut), disposition="dropped", stage="trim_turns", estimator=estimator
        )

    return stage


def halve(estimator: Estimator) -> Stage:
    """Return the stage for a request that the provider found too long: half of the turns go.

    What was dropped is told in a note beside the summary. Images and files of what stays, stay.
    """

    def stage(projection: Projection, _budget: Budget) -> Outcome:
        total = sum(len(_messages(block)) for block in projection.blocks)
        if total <= 2:  # the seed's own number: a question and its answer
            return projection, ()
        starts = boundaries(projection.blocks)
        middle = (
            starts[len(starts) // 2]
            if len(starts) > 1
            else safe_boundary(projection.blocks, total // 2)
        )
        if middle > 0:
            gone = set(range(block_at(projection.blocks, middle)))
        else:  # one turn, and it begins with its question: nothing else of it stays
            users = [n for n, b in enumerate(projection.blocks) if isinstance(b, UserMessage)]
            gone = set(range(len(projection.blocks))) - {users[-1]} if users else set[int]()
        dropped = count_messages([projection.blocks[index] for index in gone])
        if not dropped:
            return projection, ()
        note = EMERGENCY_NOTE.format(messages=dropped)
        projection = replace(
            projection, note="\n".join(part for part in (projection.note, note) if part)
        )
        return remove(projection, gone, disposition="dropped", stage="halve", estimator=estimator)

    return stage
