"""The stage that brings messages down to a size, after a provider refused them. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.estimates import Estimates
from everturn_actors.context.projection.projection import (
    Outcome,
    Projection,
    Stage,
    in_order,
    projection_units,
    size_units,
)
from everturn_actors.context.projection.turns import flatten
from everturn_actors.context.stages.cutting_ahead import leave, newest_turn, turn_starts
from everturn_actors.context.stages.masking import Old
from everturn_actors.context.stages.pasting import take_in_pastes
from everturn_actors.context.stages.shrinking import LOWER, USUAL, Room, shrink_current
from everturn_actors.context.stages.truncation import EMERGENCY_NOTE


def come_down(most_units: int, old: Old, count: Estimates, *, share: float) -> Stage:
    """Return the stage that brings messages down to `most_units`, or as near as they can.

    What people just wrote keeps its ends where it takes more than `share` of that. Then the oldest
    turns leave, whole; then the newest one is shrunk, to what tells what its messages
    were, and where that is too much to less and less of them.
    """

    def drop(projection: Projection, _budget: Budget) -> Outcome:
        newest = newest_turn(projection)
        starts = [*(s for s in turn_starts(projection.blocks[:newest]) if s > 0), newest]
        excess, cut = projection_units(projection) - most_units, 0
        for start in starts:
            if excess <= 0:
                break
            excess -= size_units(projection, flatten(projection.blocks[cut:start]))
            cut = start
        return leave(projection, cut, stage="halve", estimator=count)

    def stage(projection: Projection, budget: Budget) -> Outcome:
        most = count.tokens(most_units)
        room = Room(limit=lambda _view, _budget: most, cut_to=1, count=count)
        paste = take_in_pastes(limit=room.limit, share=share, markers=old.markers, count=count)
        shrinkings = [shrink_current(room, old, floors) for floors in (USUAL, *LOWER)]
        stages = (paste, drop, *(each for stages in shrinkings for each in stages))
        smaller, reductions = in_order(*stages)(projection, budget)
        dropped = smaller.omitted_messages - projection.omitted_messages
        if not dropped:
            return smaller, reductions
        note = EMERGENCY_NOTE.format(messages=dropped)
        whole = "\n".join(part for part in (projection.note, note) if part)
        return replace(smaller, note=whole), reductions

    return stage
