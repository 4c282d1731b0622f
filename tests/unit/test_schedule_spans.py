"""Stretches of time, and what is left of them."""

from __future__ import annotations

from support.run_records import hour
from support.tables import table

from everturn_gateway.scheduler.jobs import Span
from everturn_gateway.scheduler.rules.spans import joined, merged, span_of, without


def spans(*hours: tuple[float, float]) -> tuple[Span, ...]:
    """Return spans from an hour to another."""
    return tuple(Span(begins=hour(begins), ends=hour(ends)) for begins, ends in hours)


@table(
    ("holes", "left"),
    [
        ((), ((2, 8),)),
        (((0, 2), (8, 9)), ((2, 8),)),
        (((0, 3), (7, 9)), ((3, 7),)),
        (((5, 6), (3, 4)), ((2, 3), (4, 5), (6, 8))),
        (((3, 5), (4, 6)), ((2, 3), (6, 8))),
        (((6, 3),), ((2, 8),)),
        (((0, 9),), ()),
    ],
)
def test_what_is_left_of_a_span(
    holes: tuple[tuple[float, float], ...], left: tuple[tuple[float, float], ...]
) -> None:
    """Holes may come in any order, overlap, reach beyond it, or be empty."""
    (whole,) = spans((2, 8))

    assert without(whole, spans(*holes)) == spans(*left)


def test_spans_that_meet_are_one() -> None:
    """What covers the same time is the same, however often it was added to."""
    assert joined(spans((4, 5), (1, 2), (2, 3), (7, 7))) == spans((1, 3), (4, 5))


def test_the_nearest_are_merged_where_there_are_too_many() -> None:
    """A clock that never comes to rest cannot let a run log grow without end."""
    many = spans((1, 2), (4, 5), (6, 7), (20, 21))

    assert merged(many, 4) == many
    assert merged(many, 2) == spans((1, 7), (20, 21))


def test_a_span_ends_with_its_last_instant_and_begins_behind_the_one_before() -> None:
    """So that spans that meet share nothing."""
    both = spans((1, 2), (2, 3))

    assert span_of(both, hour(1)) is None
    assert span_of(both, hour(2)) == both[0]
    assert span_of(both, hour(2.5)) == both[1]
