"""The stage that takes in a giant message of a person as results are taken in. Pure.

Where everything together is too much, and the newest turn's messages take more than their share,
the longest of them keep their two ends; the whole of each stands in a file. What was said before
stays. Nothing happens to a long message that there is room for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.estimates import Estimates, message_units
from everturn_actors.context.projection.markers import Markers
from everturn_actors.context.projection.projection import (
    Outcome,
    Place,
    Projection,
    Stage,
    Stored,
    edit,
    projection_units,
)
from everturn_actors.context.projection.results import keep_ends
from everturn_actors.context.stages.cutting_ahead import newest_turn, units_of
from everturn_actors.context.stages.shrinking import USUAL
from everturn_actors.model import AnyMessage, UserMessage

_HALF = 0.5  # of the room: so much of it is used where little else was said


def take_in_pastes(
    *,
    limit: Callable[[Projection, Budget], int],
    share: float,
    markers: Markers,
    count: Estimates,
) -> Stage:
    """Return the stage.

    Args:
        limit: What all messages may cost, in tokens; below it nothing is done.
        share: What the newest turn's user messages may take of it, where it is exceeded. Beside a
            short history they may take more, up to a half together with it.
        markers: Say what is left out, and where it stands.
        count: Counts tokens.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        most = limit(projection, budget)
        if count.tokens(projection_units(projection)) <= most:
            return projection, ()
        said = dict(_said(projection))
        costs = [message_units(message) for message in said.values()]
        others = projection_units(projection) - sum(costs)
        room = max(units_of(share * most, count), units_of(_HALF * most, count) - others)
        level = max(_level(costs, room), USUAL.user_units)
        changes: dict[Place, AnyMessage] = {}
        stored: list[Stored] = []
        for place, message in said.items():
            path = f"message-{message.seq}.txt"
            short = _shortened(message, level, markers, path)
            if short.text == message.text:
                continue
            changes[place] = short
            if path not in message.text:  # else it stands there already, whole
                stored.append(Stored(path=path, text=message.text, seq=message.seq))
        if not changes:
            return projection, ()
        kept = replace(projection, stored=(*projection.stored, *stored))
        return edit(kept, changes, disposition="shortened", stage="result", estimator=count)

    return stage


def _said(projection: Projection) -> list[tuple[Place, UserMessage]]:
    """Return what people wrote in the newest turn."""
    blocks = projection.blocks
    return [
        ((index, 0), block)
        for index in range(newest_turn(projection), len(blocks))
        if isinstance(block := blocks[index], UserMessage) and block.seq
    ]


def _level(costs: Sequence[int], room_units: int) -> int:
    """Return what each message may cost so that all of them fit: short ones stay whole."""
    left, longer = room_units, sorted(costs)
    while longer and longer[0] * len(longer) <= left:
        left -= longer.pop(0)
    return left // len(longer) if longer else max(costs, default=0)


def _shortened(message: UserMessage, level: int, markers: Markers, path: str) -> UserMessage:
    envelope = message_units(message) - message_units(replace(message, text=""))
    fixed = message_units(message) - envelope
    text = keep_ends(
        message.text,
        max(level - fixed, 0),
        "both",
        lambda shown, whole: markers.truncated(shown, whole, path),
    )
    return replace(message, text=text)
