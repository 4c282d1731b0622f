"""Stages that take the text of old tool results away; the calls stay. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.tokens import estimate_message
from everturn_actors.context.projection.projection import (
    Estimator,
    Outcome,
    Place,
    Projection,
    Stage,
    edit,
)
from everturn_actors.model import AnyMessage, Step, ToolResult, UserMessage

_MASKED = re.compile(r"\[result masked — ~\d+ tokens removed\]")


def mask_results(*, keep_first: int, keep_last: int, estimator: Estimator) -> Stage:
    """Return the stage that masks the results of the running turn but the first and last ones.

    Both 0 mask nothing. A masked result stays as it is, so its number stays true.
    """

    def stage(projection: Projection, _budget: Budget) -> Outcome:
        found = [(place, r) for place, r in projection.results() if place[0] >= projection.current]
        end = max(len(found) - keep_last, 0)
        middle = found[keep_first:end] if keep_first or keep_last else []
        changes: dict[Place, AnyMessage] = {
            place: replace(result, text=masked(result))
            for place, result in middle
            if not _MASKED.fullmatch(result.text)
        }
        return edit(projection, changes, disposition="masked", stage="mask", estimator=estimator)

    return stage


def masked(result: ToolResult) -> str:
    """Return what stands in place of a masked result."""
    return f"[result masked — ~{estimate_message(result)} tokens removed]"


class Protection(Struct, frozen=True, kw_only=True):
    """Which results stay, however much comes free without them."""

    newest: int = 0
    "So many newest results stay."
    turns: int = 0
    "Results stay until the walk has come by so many user messages."
    tokens: int | None = None
    "So many newest tokens of the remaining results stay; None = none."
    tools: Collection[str] = ()
    "Tools whose results stay."
    behind_cleared: bool = False
    "Whether a result that is cleared already ends the walk."


def clear_results(
    *,
    when: Callable[[Projection, Budget], bool],
    size: Callable[[ToolResult], int],
    marker: str,
    estimator: Estimator,
    protection: Protection,
    minimum_tokens: int | None = None,
) -> Stage:
    """Return the stage that replaces old results by `marker`.

    It walks from the newest to the oldest result. What is protected, is counted before it is
    protected: the result that goes beyond `protection.tokens` is cleared.

    Args:
        when: Says whether there is need.
        size: Gives the tokens of a result that count here.
        marker: The new text.
        estimator: Counts what is gained.
        protection: Which results stay.
        minimum_tokens: Nothing happens unless more than this comes free; None = no minimum.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        if not when(projection, budget):
            return projection, ()
        changes: dict[Place, AnyMessage] = {}
        running = saved = 0
        for number, (place, result) in enumerate(_newest_results(projection, protection.turns)):
            if result.text == marker and protection.behind_cleared:
                break
            is_kept = number < protection.newest or result.name in protection.tools
            if is_kept or result.text == marker:
                continue
            running += size(result)
            if protection.tokens is None or running > protection.tokens:
                saved += size(result)
                changes[place] = replace(result, text=marker)
        if minimum_tokens is not None and saved <= minimum_tokens:
            return projection, ()
        ordered = {place: changes[place] for place in sorted(changes)}
        return edit(projection, ordered, disposition="cleared", stage="clear", estimator=estimator)

    return stage


def _newest_results(
    projection: Projection, protect_turns: int
) -> Iterator[tuple[Place, ToolResult]]:
    """Yield results from the newest to the oldest, once enough user messages have gone by."""
    turns = 0
    for index in range(len(projection.blocks) - 1, -1, -1):
        block = projection.blocks[index]
        turns += isinstance(block, UserMessage)
        if turns < protect_turns or not isinstance(block, Step):
            continue
        for number in range(len(block.results), 0, -1):
            yield (index, number), block.results[number - 1]
