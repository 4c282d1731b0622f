"""What is hidden from the model for good, rebuilt from the parts of a `state.yaml`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from everturn_actors.journal.snapshot.turns import EntryError, Line, explain
from everturn_actors.model import Reductions, Replaced, Summary
from everturn_actors.state.serialization import read_value


def reductions_of(value: object, instant: Callable[[object], datetime]) -> Reductions:
    """Return what the field `reductions` holds; the summary and the replacements stand elsewhere.

    `instant` reads a time.

    Raises:
        TypeError: It is no mapping, or a part of it is missing, unknown, or of another kind.
        ValueError: A time that is none.
    """
    if not isinstance(value, dict):
        msg = "it must be a mapping"
        raise TypeError(msg)
    values = cast("dict[str, Any]", {**value})
    for name in ("summary", "replaced"):
        if name in values:
            msg = f"{name} is a section of its own"
            raise TypeError(msg)
    dropped, retry_at = values.pop("dropped", []), values.pop("retry_at", "")
    return replace(
        read_value(Reductions, values),
        dropped=frozenset(_items("dropped", dropped, int)),
        retry_at=instant(retry_at) if retry_at else None,
    )


def summary_of(lines: Sequence[Line]) -> Summary | None:
    """Return the summary that the lines of its section hold, or None where there are none.

    Raises:
        EntryError: A line that cannot be read, or a second one.
    """
    if not lines:
        return None
    if len(lines) > 1:
        raise EntryError(1, "there is at most one summary")
    try:
        return read_value(Summary, lines[0])
    except (TypeError, ValueError) as error:
        raise EntryError(0, explain(error)) from error


def replaced_of(lines: Sequence[Line]) -> dict[int, Replaced]:
    """Return what stands for messages, by the seq of the message.

    Raises:
        EntryError: A line that cannot be read, or a second one for the same message.
    """
    found: dict[int, Replaced] = {}
    for index, line in enumerate(lines):
        try:
            one = read_value(Replaced, line)
        except (TypeError, ValueError) as error:
            raise EntryError(index, explain(error)) from error
        if one.seq in found:
            raise EntryError(index, f"message {one.seq} is replaced twice")
        found[one.seq] = one
    return found


def _items(name: str, value: object, kind: type) -> list[Any]:
    if not isinstance(value, list):
        msg = f"{name} must be a list"
        raise TypeError(msg)
    items = cast("list[object]", value)
    for item in items:
        if type(item) is not kind:
            msg = f"{name} must hold {kind.__name__}, not {type(item).__name__}"
            raise TypeError(msg)
    return items
