"""Events that a session's history no longer holds, and why. Pure.

The numbers of a log have no holes. Where its history is read and a number jumps, what stood between
was let go on purpose or was lost; whoever reads is told which of the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field
from msgspec.structs import replace

from everturn_actors.codec import Value

GapCause: TypeAlias = Literal["discarded", "lost", "unknown"]
"""Why events are missing: the agent's `compaction: discard`, or `sessions.keep`; damage to the
archive; or one of the two, from a time when it was not written down."""
_WHY: dict[GapCause, str] = {
    "discarded": (
        "this part of the log was discarded on purpose (compaction: discard, or sessions.keep)"
    ),
    "lost": "the archive that held them was lost or damaged",
    "unknown": "they were let go or lost, it was not written down which",
}


class Gap(Value, frozen=True, kw_only=True):
    """A run of events that the history does not hold."""

    first: Annotated[int, Meta(ge=1)]
    "Number of the first one, from 1."
    last: int
    "Number of the last one."
    cause: GapCause
    is_reported: bool = field(default=False, name="reported")
    "Whether `everturn doctor --repair` has told of the loss: it is not a finding any more."

    @property
    def text(self) -> str:
        """The gap in words, for people."""
        return f"{span_text(self.first, self.last)} missing: {_WHY[self.cause]}"


def span_text(first: int, last: int) -> str:
    """Return "event 7 is" or "events 7 to 9 are"."""
    return f"event {first} is" if first == last else f"events {first} to {last} are"


def jumps(numbers: Iterable[int], *, after: int) -> list[tuple[int, int]]:
    """Return what is missing between ascending event numbers, as first and last of each run.

    Args:
        numbers: Of the events that were read.
        after: The number behind which they were read.
    """
    found: list[tuple[int, int]] = []
    for number in numbers:
        if number > after + 1:
            found.append((after + 1, number - 1))
        after = max(after, number)
    return found


def uncovered(first: int, last: int, gaps: Iterable[Gap]) -> list[tuple[int, int]]:
    """Return the runs of `first` to `last` that are in none of the gaps, ascending."""
    found: list[tuple[int, int]] = []
    for gap in sorted(gaps, key=lambda gap: gap.first):
        if gap.last < first or gap.first > last:
            continue
        if gap.first > first:
            found.append((first, gap.first - 1))
        first = gap.last + 1
    if first <= last:
        found.append((first, last))
    return found


def without(gaps: Iterable[Gap], first: int, last: int) -> tuple[Gap, ...]:
    """Return the gaps but for the events `first` to `last`."""
    kept: list[Gap] = []
    for gap in gaps:
        if gap.last < first or gap.first > last:
            kept.append(gap)
            continue
        if gap.first < first:
            kept.append(replace(gap, last=first - 1))
        if gap.last > last:
            kept.append(replace(gap, first=last + 1))
    return tuple(kept)


def with_gap(gaps: Iterable[Gap], new: Gap) -> tuple[Gap, ...]:
    """Return the gaps and a new one, which counts where they overlap; neighbours are joined."""
    joined: list[Gap] = []
    for gap in sorted((*without(gaps, new.first, new.last), new), key=lambda gap: gap.first):
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.last + 1 == gap.first
            and (before.cause, before.is_reported) == (gap.cause, gap.is_reported)
        ):
            joined[-1] = replace(before, last=gap.last)
        else:
            joined.append(gap)
    return tuple(joined)


def explain_gap(first: int, last: int, gaps: Iterable[Gap], otherwise: GapCause) -> tuple[Gap, ...]:
    """Return why `first` to `last` are missing, piece by piece, ascending.

    Args:
        first: The first missing event.
        last: The last one.
        gaps: What is written down.
        otherwise: The cause of what is not.
    """
    gaps = tuple(gaps)
    pieces = [Gap(first=a, last=b, cause=otherwise) for a, b in uncovered(first, last, gaps)]
    pieces += [
        replace(gap, first=max(gap.first, first), last=min(gap.last, last))
        for gap in gaps
        if gap.first <= last and gap.last >= first
    ]
    return tuple(sorted(pieces, key=lambda gap: gap.first))
