"""What a session owes its people, and what it heard beside, as lines of a `state.yaml`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypeVar, cast

from everturn_actors.journal.snapshot_turns import EntryError, Line, explain
from everturn_actors.model import (
    Attachment,
    Chunk,
    Overheard,
    Parcel,
)
from everturn_actors.records import read_value, utc_text

T = TypeVar("T")


def overheard_line(heard: Overheard) -> dict[str, Any]:
    """Return the line of what was said beside the turns."""
    own = {"own": True} if heard.own else {}
    return {
        "seq": heard.seq,
        "text": heard.text,
        "until": utc_text(heard.until),
        "sender": heard.sender,
        "untrusted": heard.untrusted,
        **own,
    }


def parcel_line(parcel: Parcel) -> dict[str, Any]:
    """Return the line of a parcel; fields that hold their default are left out."""
    line = _told(parcel)
    if parcel.owed_at is not None:
        line["owed_at"] = utc_text(parcel.owed_at)
    if parcel.attachments:
        line["attachments"] = [_told(each) for each in parcel.attachments]
    if parcel.chunks is not None:
        line["chunks"] = [_told(each) for each in parcel.chunks]
    return line


def _told(value: Parcel | Chunk | Attachment) -> dict[str, Any]:
    """Return the plain fields of a value that do not hold their default."""
    found = ((each, getattr(value, each.name)) for each in fields(value))
    return {
        each.name: item
        for each, item in found
        if item != each.default and not isinstance(item, tuple)
    }


def overheard_of(
    lines: Sequence[Line], instant: Callable[[object], datetime]
) -> tuple[Overheard, ...]:
    """Return the messages of their section; `instant` reads a time.

    Raises:
        EntryError: A line that cannot be read.
    """

    def read(line: Line) -> Overheard:
        values = {**line}
        until = instant(values.pop("until"))
        return read_value(Overheard, {**values, "until": until})

    return tuple(_each(lines, read))


def parcels_of(lines: Sequence[Line], instant: Callable[[object], datetime]) -> tuple[Parcel, ...]:
    """Return the parcels of their section; `instant` reads a time.

    Raises:
        EntryError: A line that cannot be read.
    """
    return tuple(_each(lines, lambda line: _parcel(line, instant)))


def _parcel(line: Line, instant: Callable[[object], datetime]) -> Parcel:
    values = {**line}
    chunks = values.pop("chunks", None)
    owed_at = values.pop("owed_at", None)
    parcel = read_value(Parcel, values)
    if owed_at is not None:
        parcel = replace(parcel, owed_at=instant(owed_at))
    if chunks is None:
        return parcel
    if not isinstance(chunks, list):
        msg = f"chunks must be list, not {type(chunks).__name__}"
        raise TypeError(msg)
    read = tuple(read_value(Chunk, each) for each in cast("list[object]", chunks))
    return replace(parcel, chunks=read)


def _each(lines: Sequence[Line], read: Callable[[Line], T]) -> Iterator[T]:
    for index, line in enumerate(lines):
        try:
            yield read(line)
        except (KeyError, TypeError, ValueError) as error:
            raise EntryError(index, explain(error)) from error
