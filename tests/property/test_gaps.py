"""Runs of missing events, against sets of numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from everturn_actors.gaps import (
    Gap,
    GapCause,
    explain_gap,
    jumps,
    uncovered,
    with_gap,
    without,
)

RUNS = st.tuples(st.integers(1, 40), st.integers(1, 40)).map(lambda run: (min(run), max(run)))
CAUSES: st.SearchStrategy[GapCause] = st.sampled_from(get_args(GapCause))


def numbers(first: int, last: int) -> set[int]:
    """Return the numbers of a run."""
    return set(range(first, last + 1))


@given(st.lists(st.tuples(RUNS, CAUSES, st.booleans()), max_size=8), RUNS)
def test_gaps_are_added_taken_away_and_asked_as_sets_are(
    added: list[tuple[tuple[int, int], GapCause, bool]], asked: tuple[int, int]
) -> None:
    """Whatever was noted in which order: each event has the cause that was noted last."""
    gaps: tuple[Gap, ...] = ()
    known: dict[int, GapCause] = {}
    for (first, last), cause, is_there in added:
        if is_there:
            gaps = without(gaps, first, last)
            known = {n: why for n, why in known.items() if n not in numbers(first, last)}
        else:
            gaps = with_gap(gaps, Gap(first=first, last=last, cause=cause))
            known |= dict.fromkeys(numbers(first, last), cause)

    assert {n: gap.cause for gap in gaps for n in numbers(gap.first, gap.last)} == known
    assert all(a.last < b.first for a, b in pairwise(gaps))
    missing = set[int]().union(*(numbers(a, b) for a, b in uncovered(*asked, gaps)))
    assert missing == numbers(*asked) - set(known)
    pieces = explain_gap(*asked, gaps, "lost")
    assert [n for p in pieces for n in range(p.first, p.last + 1)] == sorted(numbers(*asked))
    assert all(known.get(n, "lost") == p.cause for p in pieces for n in numbers(p.first, p.last))


@given(st.sets(st.integers(1, 40)), st.integers(0, 40))
def test_each_jump_is_found(held: set[int], after: int) -> None:
    """Nothing is missing silently between the events that were read."""
    read = sorted(n for n in held if n > after)
    found = set[int]().union(*(numbers(a, b) for a, b in jumps(read, after=after)))
    assert found == (numbers(after + 1, read[-1]) - held if read else set())
