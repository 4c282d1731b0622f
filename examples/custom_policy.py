"""Your own rule for what a model is shown of a long conversation: the newest turns, and no more.

All else is the policy `duragent`: how tokens are counted, and what is done where even that is too
long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import anyio

import everturn
from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.policies.duragent import POLICY as BASE
from everturn_actors.context.policy import Limits
from everturn_actors.context.projection.projection import Estimator, Outcome, Projection, Stage
from everturn_actors.context.stages.cutting_ahead import leave, turn_starts

TURNS: Final = 3


def newest_turns(count: int, estimator: Estimator) -> Stage:
    """Return the stage that leaves out all turns but the newest."""

    def stage(projection: Projection, _budget: Budget) -> Outcome:
        starts = turn_starts(projection.blocks)
        cut = starts[-count] if len(starts) > count else 0
        if not cut:
            return projection, ()
        return leave(projection, cut, stage="newest_turns", estimator=estimator)

    return stage


def ladder(numbers: Any, limits: Limits) -> tuple[Stage, ...]:  # noqa: ANN401 - those of the base
    """Return what is done for every request: the newest turns first, then as the base does."""
    stage = newest_turns(TURNS, BASE.estimator(numbers, limits))
    return (stage, *BASE.ladder(numbers, limits))


NEWEST: Final = replace(BASE, name="newest-turns", ladder=ladder)

AGENT = everturn.Agent(name="forgetful", model="builtin/echo", policy=NEWEST)


async def main() -> None:
    """Say more than it is shown."""
    async with everturn.open_gateway(AGENT) as gateway:
        for number in range(1, 7):
            answer = await gateway.ask("forgetful", f"message {number}")
            print(answer.text.partition(". ")[2])


if __name__ == "__main__":
    anyio.run(main)
