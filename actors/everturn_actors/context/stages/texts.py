"""Stages that make single texts smaller: results, the newest question, call arguments. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, cast

from everturn_actors.context.budget import Budget
from everturn_actors.context.view import Estimator, Outcome, Place, Stage, Stored, View, edit
from everturn_actors.model import AnyMessage, Step, ToolCall, UserMessage

PREVIEW_ENDS_LINES = 5
PREVIEW_LINE_CHARACTERS = 1000
SHORT_ARGUMENT_CHARACTERS = 20
ARGUMENT_MARKER = "...(argument truncated)"
_POINTER = "This {what} is too large to show; the whole of it is in the file "
_PREVIEW = ". Read parts of that file where you need more. Its beginning and end:\n\n"


def cap_results(shorten: Callable[[str], str], estimator: Estimator) -> Stage:
    """Return the stage that gives every result the text `shorten` makes of it."""

    def stage(view: View, _budget: Budget) -> Outcome:
        changes: dict[Place, AnyMessage] = {}
        for place, result in view.results():
            text = shorten(result.text)
            if text != result.text:
                changes[place] = replace(result, text=text)
        return edit(view, changes, fate="shortened", stage="truncate", estimator=estimator)

    return stage


def evict_results(
    *, limit_characters: int, exempt: Collection[str], folder: str, estimator: Estimator
) -> Stage:
    """Return the stage that moves results with more than `limit_characters` to files.

    What stays is a pointer and a preview. Results of the tools in `exempt` stay as they are.
    """

    def stage(view: View, _budget: Budget) -> Outcome:
        changes: dict[Place, AnyMessage] = {}
        stored = list(view.stored)
        for place, result in view.results():
            if len(result.text) <= limit_characters or result.name in exempt:
                continue
            if _is_evicted(result.text):
                continue
            path = _free_path(folder, result.call_id, stored)
            stored.append(Stored(path=path, text=result.text, seq=result.seq))
            text = pointer("tool result", path, result.text)
            changes[place] = replace(result, text=text)
        view = replace(view, stored=tuple(stored))
        return edit(view, changes, fate="evicted", stage="evict", estimator=estimator)

    return stage


def evict_user(*, limit_characters: int, folder: str, estimator: Estimator) -> Stage:
    """Return the stage that moves the newest user message to a file where it is larger."""

    def stage(view: View, _budget: Budget) -> Outcome:
        users = [n for n, block in enumerate(view.blocks) if isinstance(block, UserMessage)]
        newest = view.blocks[users[-1]] if users else None
        if not isinstance(newest, UserMessage) or len(newest.text) <= limit_characters:
            return view, ()
        if _is_evicted(newest.text):
            return view, ()
        path = _free_path(folder, f"message_{newest.seq}", view.stored)
        stored = Stored(path=path, text=newest.text, seq=newest.seq)
        changed = replace(newest, text=pointer("message", path, newest.text))
        return edit(
            replace(view, stored=(*view.stored, stored)),
            {(users[-1], 0): changed},
            fate="evicted",
            stage="evict",
            estimator=estimator,
        )

    return stage


def pointer(what: str, path: str, text: str) -> str:
    """Return what stands where `text` stood: where it is now, and its first and last lines."""
    return f"{_POINTER.format(what=what)}{path}{_PREVIEW}{preview(text)}"


def preview(text: str) -> str:
    """Return all lines of `text` if they are ten at most, else the first and last five."""
    lines = [line[:PREVIEW_LINE_CHARACTERS] for line in text.splitlines()]
    cut = len(lines) - 2 * PREVIEW_ENDS_LINES
    if cut > 0:
        middle = f"... [{cut} lines truncated] ..."
        lines = [*lines[:PREVIEW_ENDS_LINES], middle, *lines[-PREVIEW_ENDS_LINES:]]
    return "\n".join(lines)


def _is_evicted(text: str) -> bool:
    return text.startswith(_POINTER.split("{", 1)[0]) and _PREVIEW in text


def _free_path(folder: str, name: str, taken: Collection[Stored]) -> str:
    """Return a path of its own for `name`: call ids may come back in later steps."""
    path = f"{folder}/{name.replace('/', '_').replace('.', '_')}"
    paths = {stored.path for stored in taken}
    number, free = 1, path
    while free in paths:
        number += 1
        free = f"{path}-{number}"
    return free


def shrink_arguments(
    *,
    limit_characters: int,
    tools: Collection[str],
    before: Callable[[View, Budget], int],
    estimator: Estimator,
) -> Stage:
    """Return the stage that shortens long text arguments of old calls; they stay valid JSON.

    Args:
        limit_characters: A longer argument keeps 20 characters and a marker.
        tools: Whose calls.
        before: Gives the block before which calls are old.
        estimator: Counts what is gained.
    """

    def stage(view: View, budget: Budget) -> Outcome:
        changes: dict[Place, AnyMessage] = {}
        for index, block in enumerate(view.blocks[: before(view, budget)]):
            if not isinstance(block, Step):
                continue
            calls = tuple(_shrunk(c, limit_characters, tools) for c in block.reply.calls)
            if calls != block.reply.calls:
                changes[index, 0] = replace(block.reply, calls=calls)
        return edit(view, changes, fate="shortened", stage="shrink_arguments", estimator=estimator)

    return stage


def _shrunk(call: ToolCall, limit: int, tools: Collection[str]) -> ToolCall:
    if call.name not in tools or len(call.arguments) <= limit:
        return call
    try:
        arguments: Any = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call
    if not isinstance(arguments, dict):
        return call
    named = cast("dict[str, Any]", arguments)
    short = {name: _short(value, limit) for name, value in named.items()}
    return call if short == named else replace(call, arguments=json.dumps(short))


def _short(value: Any, limit: int) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(value, str) or len(value) <= limit:
        return value
    if value == value[:SHORT_ARGUMENT_CHARACTERS] + ARGUMENT_MARKER:
        return value
    return value[:SHORT_ARGUMENT_CHARACTERS] + ARGUMENT_MARKER
