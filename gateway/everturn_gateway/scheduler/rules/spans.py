"""Stretches of time, and what is left of them. Pure: no clock, no IO."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from everturn_gateway.scheduler.jobs import Span

__all__ = ["joined", "merged", "span_of", "without"]


def without(span: Span, holes: Iterable[Span]) -> tuple[Span, ...]:
    """Return what is left of a span outside of others, oldest first."""
    left: list[Span] = []
    begins = span.begins
    for hole in joined(holes):
        if hole.begins >= span.ends:
            break
        if hole.begins > begins:
            left.append(Span(begins=begins, ends=hole.begins))
        begins = max(begins, hole.ends)
    if begins < span.ends:
        left.append(Span(begins=begins, ends=span.ends))
    return tuple(left)


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return what spans cover together, oldest first; none of them meets another."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda each: each.begins):
        if span.begins >= span.ends:
            continue
        if found and span.begins <= found[-1].ends:
            last = found.pop()
            found.append(Span(begins=last.begins, ends=max(last.ends, span.ends)))
        else:
            found.append(span)
    return tuple(found)


def merged(spans: tuple[Span, ...], most: int) -> tuple[Span, ...]:
    """Return at most `most` spans that cover all of some that are `joined`, and little else."""
    left = [*spans]
    while len(left) > most:
        nearest = min(range(1, len(left)), key=lambda each: left[each].begins - left[each - 1].ends)
        left[nearest - 1 : nearest + 1] = [
            Span(begins=left[nearest - 1].begins, ends=left[nearest].ends)
        ]
    return tuple(left)


def span_of(spans: Iterable[Span], scheduled_at: datetime) -> Span | None:
    """Return the span in which an instant lies; None where there is none."""
    return next((each for each in spans if each.begins < scheduled_at <= each.ends), None)
