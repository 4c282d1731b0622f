"""Stages that make the newest turn fit, where it is all that is left: it never leaves. Pure.

In this order: results of its middle steps, then these steps, then what is left of its results,
arguments and replies, then its questions. The first step shows what it is about, and the last one
what it is at; what a person said stays, if only its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, structs

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.estimates import (
    UNITS_PER_TOKEN,
    Estimates,
    message_units,
    text_units,
)
from everturn_actors.context.projection.markers import Markers, gap_of
from everturn_actors.context.projection.projection import (
    Outcome,
    Place,
    Projection,
    Stage,
    edit,
    projection_units,
    remove,
    size_units,
)
from everturn_actors.context.projection.results import Shape, keep_ends
from everturn_actors.context.projection.turns import Block, count_messages, flatten
from everturn_actors.context.stages.cutting_ahead import newest_turn, units_of
from everturn_actors.context.stages.masking import Item, Old, items, put, shorten_reply
from everturn_actors.model import (
    AnyMessage,
    Notice,
    Reply,
    Step,
    ToolResult,
    UserMessage,
)

_MANY = 1_000_000  # messages: the longest marker


class Floors(Struct, frozen=True, kw_only=True):
    """What stays at least of the newest turn's messages, in units, the marker included."""

    result_units: int
    "Of a result or a reply."
    user_units: int
    "Of a question: it mostly stands at its head."
    arguments_characters: int | None = None
    "Longer arguments of calls are shortened; None = as the policy does with old ones."
    is_brief: bool = False
    "Whether a marker says no more than that something is missing."


USUAL = Floors(result_units=64 * UNITS_PER_TOKEN, user_units=128 * UNITS_PER_TOKEN)
"Enough to tell what a result was."
LOWER = (
    Floors(
        result_units=32 * UNITS_PER_TOKEN,
        user_units=64 * UNITS_PER_TOKEN,
        arguments_characters=200,
    ),
    Floors(result_units=0, user_units=48 * UNITS_PER_TOKEN, arguments_characters=40),
    Floors(result_units=0, user_units=24 * UNITS_PER_TOKEN, arguments_characters=0, is_brief=True),
)
"What is left where a provider refused more, from the mildest on."


class Room(Struct, frozen=True, kw_only=True):
    """How much there is for all messages."""

    limit: Callable[[Projection, Budget], int]
    "In tokens; above it something is done,"
    cut_to: float
    "down to this share of it."
    count: Estimates

    def is_over(self, projection: Projection, budget: Budget) -> bool:
        """Say whether the messages cost too much."""
        return self.count.tokens(projection_units(projection)) > self.limit(projection, budget)

    def excess_units(self, projection: Projection, budget: Budget) -> int:
        """Return what has to go once something has."""
        return projection_units(projection) - units_of(
            self.cut_to * self.limit(projection, budget), self.count
        )


def shrink_current(room: Room, old: Old, floors: Floors = USUAL) -> tuple[Stage, ...]:
    """Return the stages, in their order."""
    # After a refusal no tool is spared any more: the request has to become smaller.
    if floors.arguments_characters is not None:
        most = floors.arguments_characters
        head = min(most // 2, old.argument_head_characters)
        old = structs.replace(
            old, argument_limit_characters=most, argument_head_characters=head, exclude=frozenset()
        )
    # Where every token counts, what a marker explains costs more than it tells.
    if floors.is_brief:
        old = structs.replace(old, markers=structs.replace(old.markers, is_brief=True))
    return (
        mask_middle(room, old),
        drop_middle(room, old.markers),
        shorten_results(room, old.markers, floors.result_units),
        shorten_replies(room, old, floors.result_units),
        shorten_users(room, old.markers, floors.user_units),
    )


def _change(
    room: Room,
    candidates: Callable[[Projection], Iterable[tuple[Place, AnyMessage]]],
    shorter: Callable[[AnyMessage, int], AnyMessage | None],
    *,
    stage: str,
) -> Stage:
    """Return the stage that shortens messages one by one until enough is saved.

    Args:
        room: How much there is.
        candidates: Gives the messages that may be shortened, in the order in which they are.
        shorter: From a message and the units to save, to a shorter one; None where there is none.
        stage: Its name.
    """

    def run(projection: Projection, budget: Budget) -> Outcome:
        if not room.is_over(projection, budget):
            return projection, ()
        excess = room.excess_units(projection, budget)
        changes: dict[Place, AnyMessage] = {}
        for place, message in candidates(projection):
            if excess <= 0:
                break
            # One by one, so that nothing is shortened beyond what has to go.
            changed = shorter(message, excess)
            gain = message_units(message) - message_units(changed) if changed else 0
            # A marker may be longer than what it stands for.
            if changed is not None and gain > 0:
                changes[place] = changed
                excess -= gain
        return edit(projection, changes, disposition="shortened", stage=stage, estimator=room.count)

    return run


def mask_middle(room: Room, old: Old) -> Stage:
    """Return the stage that takes away what of the newest turn would be taken away once it is old.

    One message by the other, the oldest first, until enough is saved.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        if not room.is_over(projection, budget):
            return projection, ()
        excess, start = room.excess_units(projection, budget), newest_turn(projection)
        leaving: list[Item] = []
        for item in reversed(list(items(projection, structs.replace(old, keep_results=0)))):
            if excess > 0 and item.place[0] >= start:
                leaving.append(item)
                excess -= item.gain_units
        return put(projection, leaving, disposition="masked", stage="mask", estimator=room.count)

    return stage


def shorten_results(room: Room, markers: Markers, floor_units: int) -> Stage:
    """Return the stage that keeps the ends of the newest turn's results."""

    def results(projection: Projection) -> Iterator[tuple[Place, AnyMessage]]:
        for place, message in _messages(projection, _steps(projection)):
            if isinstance(message, ToolResult):
                yield place, message

    def shorter(message: AnyMessage, excess: int) -> AnyMessage | None:
        return _shortened(message, excess, markers, "both", floor_units)

    return _change(room, results, shorter, stage="shorten_results")


def shorten_replies(room: Room, old: Old, floor_units: int) -> Stage:
    """Return the stage that shortens the newest turn's long arguments and long replies."""

    def replies(projection: Projection) -> Iterator[tuple[Place, AnyMessage]]:
        for place, message in _messages(projection, _steps(projection)):
            if isinstance(message, Reply):
                yield place, message

    def shorter(message: AnyMessage, excess: int) -> AnyMessage | None:
        assert isinstance(message, Reply)
        # Arguments first: what was said to people tells the model more than what it wrote to a
        # file.
        without = shorten_reply(message, old)
        excess -= message_units(message) - message_units(without)
        if excess <= 0:
            return without
        return _shortened(without, excess, old.markers, "both", floor_units) or without

    return _change(room, replies, shorter, stage="shorten_replies")


def shorten_users(room: Room, markers: Markers, floor_units: int) -> Stage:
    """Return the stage that keeps the heads of the newest turn's questions."""

    def users(projection: Projection) -> Iterator[tuple[Place, AnyMessage]]:
        for index in range(newest_turn(projection), len(projection.blocks)):
            block = projection.blocks[index]
            # Markers have no number: to shorten one would hide that something is missing.
            if not isinstance(block, Step) and block.seq:
                yield (index, 0), block

    def shorter(message: AnyMessage, excess: int) -> AnyMessage | None:
        return _shortened(message, excess, markers, "head", floor_units)

    return _change(room, users, shorter, stage="shorten_users")


def _shortened(
    message: AnyMessage, excess: int, markers: Markers, shape: Shape, floor: int
) -> AnyMessage | None:
    # A marker of ours is as short as it can be.
    if not message.seq:
        return None
    keep = max(text_units(message.text) - excess, floor)
    text = keep_ends(
        message.text, keep, shape, lambda shown, whole: markers.shortened(shown, whole, message.seq)
    )
    return structs.replace(message, text=text) if text != message.text else None


def drop_middle(room: Room, markers: Markers) -> Stage:
    """Return the stage that leaves out the newest turn's middle steps, oldest first.

    What a person said between them stays. A marker tells how many messages are gone, at each place.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        if not room.is_over(projection, budget):
            return projection, ()
        excess = room.excess_units(projection, budget)
        marker_units = message_units(UserMessage(text=markers.gap(_MANY)))
        gone: set[int] = set()
        for index in _middle(projection):
            if excess <= 0:
                break
            before = index - 1
            # Neighbours share one marker, which is paid for once.
            joins = before in gone or gap_of(projection.blocks[before]) > 0
            excess -= size_units(projection, flatten([projection.blocks[index]]))
            excess += 0 if joins else marker_units
            gone.add(index)
        return _leave_out(projection, gone, markers, room.count)

    return stage


def _leave_out(
    projection: Projection, gone: set[int], markers: Markers, count: Estimates
) -> Outcome:
    """Return the projection without some steps, with a marker at each place."""
    if not gone:
        return projection, ()
    left = count_messages([projection.blocks[index] for index in gone])
    smaller, reductions = remove(
        projection, gone, disposition="dropped", stage="drop_steps", estimator=count
    )
    blocks: list[Block] = []
    missing = 0
    for index, block in enumerate(projection.blocks):
        if index in gone:
            missing += count_messages([block])
        elif told := gap_of(block):
            missing += told
        else:
            blocks += _told(missing, markers)
            blocks.append(block)
            missing = 0
    blocks += _told(missing, markers)
    return structs.replace(
        smaller,
        blocks=tuple(blocks),
        current=projection.current if projection.current < len(projection.blocks) else len(blocks),
        omitted_messages=projection.omitted_messages + left,
        unsummarised=projection.unsummarised + left,
    ), reductions


def _told(missing: int, markers: Markers) -> list[Block]:
    return [UserMessage(text=markers.gap(missing))] if missing else []


def _middle(projection: Projection) -> list[int]:
    """Return what may leave the newest turn: all steps but the first and the last, and notices."""
    steps = _steps(projection)
    if not steps:
        return []
    # What it is about, and where it is: without them the model begins anew.
    spared = (steps[0], steps[-1])
    return [
        index
        for index in range(newest_turn(projection), len(projection.blocks))
        if isinstance(projection.blocks[index], Step | Notice) and index not in spared
    ]


def _steps(projection: Projection) -> list[int]:
    """Return the blocks of the newest turn that are steps."""
    start = newest_turn(projection)
    return [
        n for n in range(start, len(projection.blocks)) if isinstance(projection.blocks[n], Step)
    ]


def _messages(projection: Projection, blocks: Iterable[int]) -> Iterator[tuple[Place, AnyMessage]]:
    for index in blocks:
        for number, message in enumerate(flatten([projection.blocks[index]])):
            yield (index, number), message
