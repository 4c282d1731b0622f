"""The stage that leaves out what some providers refuse in an imported history. Pure."""

from __future__ import annotations

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.projection.projection import (
    Estimator,
    Outcome,
    Projection,
    Stage,
    remove,
)
from everturn_actors.model import Notice, Step


def sanitise(estimator: Estimator) -> Stage:
    """Return the stage that leaves out broken steps and system messages inside the history.

    A step is broken where a call had no result of its own, or where a reply with calls opens the
    history or directly follows a reply without calls.
    """

    def stage(projection: Projection, _budget: Budget) -> Outcome:
        gone: list[int] = []
        last: object = None
        for index, block in enumerate(projection.blocks):
            if isinstance(block, Notice) or (
                isinstance(block, Step)
                and block.reply.calls
                and (
                    last is None
                    or (isinstance(last, Step) and not last.reply.calls)
                    or any(not result.seq for result in block.results)
                )
            ):
                gone.append(index)
            else:
                last = block
        if len(gone) == len(projection.blocks):
            gone = gone[:-1]  # an empty history is refused by every provider
        return remove(
            projection, gone, disposition="dropped", stage="sanitise", estimator=estimator
        )

    return stage
