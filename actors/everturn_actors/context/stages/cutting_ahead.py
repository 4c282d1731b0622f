"""The stage that leaves out the oldest whole turns, in a jump. Pure.

A request begins with the same bytes for as long as its oldest message is the same one. So turns do
not leave one by one: whenever one has to, as many do as give room for many more turns. Where that
was, stays: what has left is no longer in the projection.

Nothing here depends on how the request is made to fit afterwards: whether a turn leaves follows
from what messages cost at most once old results are cleared. So a smaller window never shows a turn
that a larger one does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, Estimates
from everturn_actors.context.projection.projection import (
    Estimator,
    Outcome,
    Place,
    Projection,
    Stage,
    projection_messages,
    projection_units,
    remove,
    size_units,
)
from everturn_actors.context.projection.turns import Block, count_messages, flatten
from everturn_actors.context.stages.truncation import STEERING
from everturn_actors.model import UserMessage


def turn_starts(blocks: Sequence[Block]) -> list[int]:
    """Return the blocks at which turns begin: each the first of a burst of questions.

    What steers a running turn begins none, nor does a word of the gateway's.
    """
    found: list[int] = []
    asked = False
    for index, block in enumerate(blocks):
        asks = isinstance(block, UserMessage) and _asks(block)
        if asks and not asked:
            found.append(index)
        asked = asks
    return found


def _asks(user: UserMessage) -> bool:
    return user.seq != 0 and not user.text.startswith(STEERING)


def newest_turn(projection: Projection) -> int:
    """Return the block at which the running turn begins, or where none runs the newest one."""
    if projection.current < len(projection.blocks):
        return projection.current
    return next(reversed(turn_starts(projection.blocks)), 0)


class Load(Struct, frozen=True, kw_only=True):
    """What a number of turns is."""

    units: int = 0
    gain_units: int = 0
    "What clearing would take away at most."
    history_units: int = 0
    "Without the steps of the newest turn."
    messages: int = 0
    turns: int = 0
    "Finished ones."

    def __add__(self, other: Load) -> Load:
        return Load(
            units=self.units + other.units,
            gain_units=self.gain_units + other.gain_units,
            history_units=self.history_units + other.history_units,
            messages=self.messages + other.messages,
            turns=self.turns + other.turns,
        )


class Mark(Struct, frozen=True, kw_only=True):
    """What turns may be at most. None = anything."""

    tokens: int
    history_tokens: int | None = None
    messages: int | None = None
    turns: int | None = None


def jump_turns(
    *,
    limit: Callable[[Projection, Budget], Mark],
    down_to: Callable[[Projection, Budget], Mark],
    gains: Callable[[Projection], Iterable[tuple[Place, int]]],
    protect_tokens: int,
    count: Estimates,
    clear_to: float = 1.0,
) -> Stage:
    """Return the stage that leaves out the oldest whole turns where something is too much.

    Whatever it is, turns leave until nothing is above its lower mark, or only the newest is left.

    Args:
        limit: Above it, turns leave.
        down_to: So many.
        clear_to: Where tokens are too many, none leave if clearing brings them down to this share
            of the limit: for less room it would break the provider's cache, and soon again.
        gains: The places of messages that clearing can make shorter, each with what that gains.
        protect_tokens: What clearing keeps of that gain.
        count: Counts tokens.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        most, newest = limit(projection, budget), newest_turn(projection)
        if newest == 0 or _is_surely_within(projection, most, count):
            return projection, ()
        gained: dict[int, int] = defaultdict(int)
        largest = 0
        for place, gain in gains(projection):
            gained[place[0]] += gain
            largest = max(largest, gain)
        fits = _fitting(protect_tokens, largest, count)
        starts = [0, *(start for start in turn_starts(projection.blocks[:newest]) if start > 0)]
        # Newest first, and only as far as they stay: to count every turn takes milliseconds.
        loads = _loads(projection, [*starts, newest], gained, most)
        kept, cut = next(loads), newest
        gain_units = sum(gained.values())
        whole = _whole(projection, kept, len(starts), gain_units, most)
        is_full = count.tokens(whole.units) > most.tokens
        enough = replace(most, tokens=int(most.tokens * clear_to)) if is_full else most
        if fits(whole, enough):
            return projection, ()
        less = down_to(projection, budget)
        for start, load in zip(reversed(starts), loads, strict=True):
            kept += load
            if not fits(kept, less):
                break
            cut = start
        return leave(projection, cut, stage="trim_turns", estimator=count)

    return stage


def _is_surely_within(projection: Projection, mark: Mark, count: Estimates) -> bool:
    """Say whether nothing can be too much, by what is known of the projection at once."""
    return (
        mark.history_tokens is None
        and mark.turns is None
        and (mark.messages is None or projection_messages(projection) <= mark.messages)
        and count.tokens(projection_units(projection)) <= mark.tokens
    )


def _fitting(
    protect_tokens: int, largest_units: int, count: Estimates
) -> Callable[[Load, Mark], bool]:
    """Return what says whether turns are within a mark once old results are cleared."""
    # What clearing protects, it protects whole: up to the largest that begins within.
    protected = units_of(protect_tokens, count) + largest_units

    def fits(load: Load, mark: Mark) -> bool:
        units = load.units - load.gain_units + min(load.gain_units, protected)
        return (
            count.tokens(units) <= mark.tokens
            and (
                mark.history_tokens is None
                or count.tokens(load.history_units) <= mark.history_tokens
            )
            and (mark.messages is None or load.messages <= mark.messages)
            and (mark.turns is None or load.turns <= mark.turns)
        )

    return fits


def _loads(
    projection: Projection, starts: Sequence[int], gained: Mapping[int, int], mark: Mark
) -> Iterator[Load]:
    """Yield what each turn is, as far as the mark asks; the newest one first."""
    end = len(projection.blocks)
    for start in reversed(starts):
        turn = projection.blocks[start:end]
        is_newest = start == starts[-1]
        units = size_units(projection, flatten(turn))
        history = 0 if mark.history_tokens is None else units
        if history and is_newest:
            history = size_units(projection, [b for b in turn if isinstance(b, UserMessage)])
        yield Load(
            units=units,
            gain_units=sum(gained.get(index, 0) for index in range(start, end)),
            history_units=history,
            messages=0 if mark.messages is None else count_messages(turn),
            turns=0 if is_newest else 1,
        )
        end = start


def _whole(projection: Projection, newest: Load, turns: int, gain_units: int, mark: Mark) -> Load:
    """Return what all turns are, which is known of the projection but for its newest turn.

    Args:
        projection: It.
        newest: Its newest turn.
        turns: How many others there are.
        gain_units: What clearing would take away at most.
        mark: What is asked for.
    """
    units = projection_units(projection)
    asks_history = mark.history_tokens is not None
    return Load(
        units=units,
        gain_units=gain_units,
        history_units=units - newest.units + newest.history_units if asks_history else 0,
        messages=0 if mark.messages is None else projection_messages(projection),
        turns=turns,
    )


def leave(projection: Projection, cut: int, *, stage: str, estimator: Estimator) -> Outcome:
    """Return the projection without the blocks before `cut`, and with them counted as not shown."""
    left = count_messages(projection.blocks[:cut])
    told = replace(
        projection,
        omitted_messages=projection.omitted_messages + left,
        unsummarised=projection.unsummarised + left,
    )
    told.memo.update(projection.memo)  # what its messages cost: they are the same
    return remove(told, range(cut), disposition="dropped", stage=stage, estimator=estimator)


def units_of(tokens: float, count: Estimates) -> int:
    """Return how many units are at most so many tokens."""
    return int(tokens * UNITS_PER_TOKEN / count.scale)
