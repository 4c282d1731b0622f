"""The to-do list of long work: the model writes it by calls of one tool, and people see it. Pure.

A call holds the whole list, so that the newest call in the log is the list: nothing else has to be
recorded, and a restart shows what stood there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from everturn_actors.codec import Value
from everturn_actors.model import OpenTurn, ToolCall, ToolResult, Turn

TODO_TOOL: Final = "todo"
ITEMS_MAX: Final = 50
ITEM_CHARACTERS: Final = 200

TodoStatus: TypeAlias = Literal["pending", "in_progress", "done"]
_MARKS: Final[dict[TodoStatus, str]] = {"pending": "☐", "in_progress": "▸", "done": "☑"}


class TodoItem(Value, frozen=True, kw_only=True, omit_defaults=False):
    """One thing to do."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=ITEM_CHARACTERS)]
    status: TodoStatus = "pending"


TodoItems: TypeAlias = tuple[TodoItem, ...]


class _Arguments(msgspec.Struct):
    items: Annotated[TodoItems, msgspec.Meta(max_length=ITEMS_MAX)]


_DECODER: Final = msgspec.json.Decoder(_Arguments)


def todo_in(call: ToolCall) -> TodoItems | None:
    """Return the list that a call writes; None where it writes none."""
    if call.name != TODO_TOOL:
        return None
    try:
        return _DECODER.decode(call.arguments).items
    except (msgspec.DecodeError, ValueError):  # bad JSON, or another tool of that name
        return None


def todo_of_turn(turn: OpenTurn | Turn | None) -> TodoItems | None:
    """Return the newest list that a turn has written; None where it wrote none."""
    if turn is None:
        return None
    for call, result in _newest_first(turn):
        if not result.is_error and (found := todo_in(call)) is not None:
            return found
    return None


def todo_lines(items: Sequence[TodoItem]) -> str:
    """Return a list as people read it, a line for each item; empty where there is none.

    >>> print(todo_lines([TodoItem(text="Boil water", status="done"), TodoItem(text="Brew")]))
    ☑ Boil water
    ☐ Brew
    """
    return "\n".join(f"{_MARKS[item.status]} {' '.join(item.text.split())}" for item in items)


def _newest_first(turn: OpenTurn | Turn) -> Iterator[tuple[ToolCall, ToolResult]]:
    if isinstance(turn, OpenTurn) and turn.step is not None and turn.step.reply is not None:
        results = turn.step.results
        for call in reversed(turn.step.reply.calls):
            if call.call_id in results:
                yield call, results[call.call_id]
    for step in reversed(turn.steps):
        yield from reversed([*zip(step.reply.calls, step.results, strict=True)])
