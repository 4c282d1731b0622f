"""What a session's archive has to hold, as its snapshot wrote it down, and what it does hold.

Blocking where it reads the archive; nothing here writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import BinaryIO

from msgspec import Struct

from everturn_actors.codec import Count, Value
from everturn_actors.gaps import Gap, jumps, span_text, uncovered
from everturn_actors.journal.log.codec import seed, whole_seq
from everturn_actors.journal.log.layout import SessionFiles

_CHUNK_BYTES = 64 * 1024
_SPANS_MAX = 5  # runs of missing events that a text names


class ArchiveRecord(Value, frozen=True, kw_only=True):
    """What a snapshot knows of the archive: written before the archive is, so it may run ahead.

    Where a crash came between the two, the log still holds what the archive lacks.
    """

    last_seq: Count = 0
    "The last event that the archive holds; 0 = none."
    size_bytes: Count = 0
    "How large it is with that event."
    gaps: tuple[Gap, ...] = ()
    "Events that neither it nor the log holds, ascending."

    def __post_init__(self) -> None:
        last = 0
        for gap in self.gaps:
            if not last < gap.first <= gap.last:
                msg = f"the gap from {gap.first} to {gap.last} stands out of order"
                raise ValueError(msg)
            last = gap.last


class ArchiveEnds(Struct, frozen=True, kw_only=True):
    """The two ends of an archive as it is."""

    exists: bool = False
    first_seq: int | None = None
    "None = there is no line, or the first one is damaged or another session's."
    last_seq: int | None = None
    "The same of the last line that has an end."
    size_bytes: int = 0
    "Of the lines that have an end."


def find_loss(files: SessionFiles, record: ArchiveRecord, ends: ArchiveEnds, need: int) -> str:
    """Return what is missing from an archive, judged by its ends and its size; empty = nothing.

    Args:
        files: Whose archive it is.
        record: What the snapshot says of it.
        ends: What it is.
        need: The last event that has to be in it: the one before the log's first.
    """
    expected = uncovered(1, need, record.gaps)
    name = files.archive.name
    if not expected:
        return ""
    if not ends.size_bytes:
        state = "is empty" if ends.exists else "is missing"
        return f"{name} {state}: {spans_text(expected)} lost"
    first, last = expected[0][0], expected[-1][1]
    missing: list[tuple[int, int]] = []
    if ends.first_seq is None or ends.last_seq is None:
        which = "first" if ends.first_seq is None else "last"
        return f"{name}: the {which} line is damaged, or belongs to another session"
    if ends.first_seq > first:
        missing += uncovered(first, min(ends.first_seq - 1, last), record.gaps)
    if ends.last_seq < last:
        missing += uncovered(max(ends.last_seq + 1, first), last, record.gaps)
    if missing:
        return f"{name} does not hold all that it held: {spans_text(missing)} lost"
    if record.last_seq <= need and ends.size_bytes < record.size_bytes:
        return (
            f"{name} has {ends.size_bytes} bytes, it had {record.size_bytes}: events between "
            f"{first} and {last} are lost"
        )
    return ""


def spans_text(spans: Iterable[tuple[int, int]]) -> str:
    """Return runs of events in words, with their verb: "events 1 to 3 and 7 to 9 are"."""
    spans = list(spans)
    if len(spans) == 1:
        return span_text(*spans[0])
    named = [str(a) if a == b else f"{a} to {b}" for a, b in spans[:_SPANS_MAX]]
    more = f" and {len(spans) - _SPANS_MAX} more runs" if len(spans) > _SPANS_MAX else ""
    return f"events {', '.join(named)}{more} are"


def look_at_ends(files: SessionFiles) -> ArchiveEnds:
    """Read the first and the last line of an archive, however long it is."""
    start = seed(files.session_id)
    try:
        with files.archive.open("rb") as file:
            whole = end_of_lines(file, file.seek(0, os.SEEK_END))
            if not whole:
                return ArchiveEnds(exists=True)
            file.seek(0)
            first = file.readline().removesuffix(b"\n")
            begin = end_of_lines(file, whole - 1)
            file.seek(begin)
            last = file.read(whole - 1 - begin)
    except FileNotFoundError:
        return ArchiveEnds()
    return ArchiveEnds(
        exists=True,
        first_seq=whole_seq(first, start),
        last_seq=whole_seq(last, start),
        size_bytes=whole,
    )


def find_holes(files: SessionFiles, gaps: Iterable[Gap], need: int) -> list[tuple[int, int]]:
    """Return the runs of events up to `need` that are in no gap and not in the archive.

    Reads the whole archive: for one that is known to be damaged, or of which nothing is known.
    """
    start, present = seed(files.session_id), set[int]()
    try:
        with files.archive.open("rb") as file:
            for line in file:
                seq = whole_seq(line.removesuffix(b"\n"), start) if line.endswith(b"\n") else None
                if seq is not None:
                    present.add(seq)
    except FileNotFoundError:
        pass
    return missing_of(present, gaps, need)


def missing_of(present: set[int], gaps: Iterable[Gap], need: int) -> list[tuple[int, int]]:
    """Return the runs of 1 to `need` that are neither present nor in a gap, ascending."""
    found: list[tuple[int, int]] = []
    for first, last in uncovered(1, need, gaps):
        numbers = sorted(seq for seq in present if first <= seq <= last)
        found += jumps((*numbers, last + 1), after=first - 1)
    return found


def end_of_lines(file: BinaryIO, size: int) -> int:
    """Return the offset behind the last newline in the first `size` bytes; 0 where none is."""
    end = size
    while end > 0:
        begin = max(end - _CHUNK_BYTES, 0)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
