"""What a session owes its people, and what it heard beside, as lines of a `state.yaml`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypeVar, cast

from everturn_actors.journal.snapshot.turns import EntryError, Line, explain
from everturn_actors.model import (
    Attachment,
    Chunk,
    OutboxItem,
    PendingAmbient,
)
from everturn_actors.state.serialization import read_value, utc_text

T = TypeVar("T")


def ambient_line(heard: PendingAmbient) -> dict[str, Any]:
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


def item_line(item: OutboxItem) -> dict[str, Any]:
    """Return the line of an outbox item; fields that hold their default are left out."""
    line = _told(item)
    if item.owed_at is not None:
        line["owed_at"] = utc_text(item.owed_at)
    if item.attachments:
        line["attachments"] = [_told(each) for each in item.attachments]
    if item.chunks is not None:
        line["chunks"] = [_told(each) for each in item.chunks]
    return line


def _told(value: OutboxItem | Chunk | Attachment) -> dict[str, Any]:
    """Return the plain fields of a value that do not hold their default."""
    found = ((each, getattr(value, each.name)) for each in fields(value))
    return {
        each.name: item
        for each, item in found
        if item != each.default and not isinstance(item, tuple)
    }


def ambient_of(
    lines: Sequence[Line], instant: Callable[[object], datetime]
) -> tuple[PendingAmbient, ...]:
    """Return the messages of their section; `instant` reads a time.

    Raises:
        EntryError: A line that cannot be read.
    """

    def read(line: Line) -> PendingAmbient:
        values = {**line}
        until = instant(values.pop("until"))
        return read_value(PendingAmbient, {**values, "until": until})

    return tuple(_each(lines, read))


def items_of(
    lines: Sequence[Line], instant: Callable[[object], datetime]
) -> tuple[OutboxItem, ...]:
    """Return the outbox items of their section; `instant` reads a time.

    Raises:
        EntryError: A line that cannot be read.
    """
    return tuple(_each(lines, lambda line: _item(line, instant)))


def _item(line: Line, instant: Callable[[object], datetime]) -> OutboxItem:
    values = {**line}
    chunks = values.pop("chunks", None)
    owed_at = values.pop("owed_at", None)
    item = read_value(OutboxItem, values)
    if owed_at is not None:
        item = replace(item, owed_at=instant(owed_at))
    if chunks is None:
        return item
    if not isinstance(chunks, list):
        msg = f"chunks must be list, not {type(chunks).__name__}"
        raise TypeError(msg)
    read = tuple(read_value(Chunk, each) for each in cast("list[object]", chunks))
    return replace(item, chunks=read)


def _each(lines: Sequence[Line], read: Callable[[Line], T]) -> Iterator[T]:
    for index, line in enumerate(lines):
        try:
            yield read(line)
        except (KeyError, TypeError, ValueError) as error:
            raise EntryError(index, explain(error)) from error
