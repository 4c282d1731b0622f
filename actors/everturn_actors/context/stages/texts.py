"""Stages that make single texts smaller: results, the newest question, call arguments. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.projection.projection import (
    Estimator,
    Outcome,
    Place,
    Projection,
    Stage,
    Stored,
    edit,
)
from everturn_actors.json_values import is_object
from everturn_actors.model import AnyMessage, Disposition, Step, ToolCall, ToolResult, UserMessage

ARGUMENT_MARKER = "...(argument truncated)"
_POINTER = "This {what} is too large to show; the whole of it is in the file "
_CLIPPED = " is left out; read the file in parts]"
_PREVIEW = ". Read parts of that file where you need more. Its beginning and end:\n\n"


class Lines(Struct, frozen=True, kw_only=True):
    """How much of a long text a preview shows."""

    ends: int = 5
    "So many lines of its beginning, and of its end."
    characters: int = 1_000
    "Of each line."


def take_in(
    keep: Callable[[ToolResult, str], str],
    *,
    folder: str,
    disposition: Disposition,
    estimator: Estimator,
) -> Stage:
    """Return the stage that does to the results of an imported history what is done to new ones.

    Args:
        keep: From a result, and the name of a file for its whole text, to what stays of it.
        folder: Of these files; those that are named in what stays have to be written.
        disposition: What a result is called that is no longer whole.
        estimator: Counts what is gained.
    """

    def stage(projection: Projection, _budget: Budget) -> Outcome:
        changes: dict[Place, AnyMessage] = {}
        stored = list(projection.stored)
        taken = {each.path for each in stored}
        for place, result in projection.results():
            path = free_path(folder, result.call_id, taken)
            text = keep(result, path)
            if text == result.text:
                continue
            changes[place] = replace(result, text=text)
            if path in text:
                stored.append(Stored(path=path, text=result.text, seq=result.seq))
                taken.add(path)
        if not changes:
            return projection, ()
        name = "evict" if disposition == "evicted" else "truncate"
        projection = replace(projection, stored=tuple(stored))
        return edit(projection, changes, disposition=disposition, stage=name, estimator=estimator)

    return stage


def evicted(
    result: ToolResult, path: str, *, limit_characters: int, exempt: Collection[str], lines: Lines
) -> str:
    """Return what stays of a result: with more than `limit_characters`, a pointer and a preview.

    Results of the tools in `exempt` stay as they are.
    """
    text = result.text
    if len(text) <= limit_characters or result.name in exempt or _is_pointer(text):
        return text
    return pointer("tool result", path, text, lines)


def evict_user(*, limit_characters: int, folder: str, lines: Lines, estimator: Estimator) -> Stage:
    """Return the stage that moves the newest user message to a file where it is larger."""

    def stage(projection: Projection, _budget: Budget) -> Outcome:
        users = [n for n, block in enumerate(projection.blocks) if isinstance(block, UserMessage)]
        newest = projection.blocks[users[-1]] if users else None
        if not isinstance(newest, UserMessage) or len(newest.text) <= limit_characters:
            return projection, ()
        if _is_pointer(newest.text):
            return projection, ()
        taken = {each.path for each in projection.stored}
        path = free_path(folder, f"message_{newest.seq}", taken)
        stored = Stored(path=path, text=newest.text, seq=newest.seq)
        changed = replace(newest, text=pointer("message", path, newest.text, lines))
        return edit(
            replace(projection, stored=(*projection.stored, stored)),
            {(users[-1], 0): changed},
            disposition="evicted",
            stage="evict",
            estimator=estimator,
        )

    return stage


def clip_results(
    *,
    limit_tokens: int,
    head_characters: int,
    readers: Collection[str],
    folder: str,
    lines: Lines,
    estimator: Estimator,
) -> Stage:
    """Return the stage that clips the newest step's results, where they cost `limit_tokens`.

    Args:
        limit_tokens: All results of that step together; less stays as it is.
        head_characters: What stays of a result of `readers`, who can be asked for the rest.
        readers: Tools that read files. The results of all others go to files.
        folder: Of these files.
        lines: What their previews show.
        estimator: Counts the results, and what is gained.
    """

    def stage(projection: Projection, _budget: Budget) -> Outcome:
        steps = [n for n, b in enumerate(projection.blocks) if isinstance(b, Step) and b.results]
        newest = [(p, r) for p, r in projection.results() if steps and p[0] == steps[-1]]
        cost = sum(estimator.message(r, projection.media.get(r.seq, 0)) for _, r in newest)
        changes: dict[Place, AnyMessage] = {}
        stored = list(projection.stored)
        for place, result in newest if cost >= limit_tokens else ():
            path = free_path(folder, result.call_id, {each.path for each in stored})
            if result.name in readers:
                text = _clipped(result.text, head_characters)
            else:
                text = pointer("tool result", path, result.text, lines)
            if len(text) >= len(result.text) or _is_pointer(result.text):
                continue
            if path in text:
                stored.append(Stored(path=path, text=result.text, seq=result.seq))
            changes[place] = replace(result, text=text)
        if not changes:
            return projection, ()
        projection = replace(projection, stored=tuple(stored))
        return edit(projection, changes, disposition="evicted", stage="clip", estimator=estimator)

    return stage


def _clipped(text: str, head_characters: int) -> str:
    if text.endswith(_CLIPPED):
        return text
    return f"{text[:head_characters]}\n\n[the rest of {len(text):,} characters{_CLIPPED}"


def pointer(what: str, path: str, text: str, lines: Lines) -> str:
    """Return what stands where `text` stood: where it is now, and its first and last lines."""
    return f"{_POINTER.format(what=what)}{path}{_PREVIEW}{preview(text, lines)}"


def preview(text: str, lines: Lines) -> str:
    """Return all lines of `text` if they are few, else its first and last ones."""
    shown = [line[: lines.characters] for line in text.splitlines()]
    cut = len(shown) - 2 * lines.ends
    if cut > 0:
        tail = shown[-lines.ends :] if lines.ends else []
        shown = [*shown[: lines.ends], f"... [{cut} lines truncated] ...", *tail]
    return "\n".join(shown)


def _is_pointer(text: str) -> bool:
    return text.startswith(_POINTER.split("{", 1)[0]) and _PREVIEW in text


def free_path(folder: str, name: str, taken: AbstractSet[str]) -> str:
    """Return a path of its own for `name`: call ids may come back in later steps."""
    path = f"{folder}/{name.replace('/', '_').replace('.', '_')}"
    number, free = 1, path
    while free in taken:
        number += 1
        free = f"{path}-{number}"
    return free


def shrink_arguments(
    *,
    limit_characters: int,
    head_characters: int,
    tools: Collection[str],
    before: Callable[[Projection, Budget], int],
    estimator: Estimator,
) -> Stage:
    """Return the stage that shortens long text arguments of old calls; they stay valid JSON.

    Args:
        limit_characters: A longer argument keeps its head and a marker.
        head_characters: Of that head.
        tools: Whose calls.
        before: Gives the block before which calls are old.
        estimator: Counts what is gained.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        changes: dict[Place, AnyMessage] = {}
        for index, block in enumerate(projection.blocks[: before(projection, budget)]):
            if not isinstance(block, Step):
                continue
            calls = tuple(
                _shrunk(call, limit_characters, head_characters) if call.name in tools else call
                for call in block.reply.calls
            )
            if calls != block.reply.calls:
                changes[index, 0] = replace(block.reply, calls=calls)
        return edit(
            projection,
            changes,
            disposition="shortened",
            stage="shrink_arguments",
            estimator=estimator,
        )

    return stage


def _shrunk(call: ToolCall, limit: int, head: int) -> ToolCall:
    if len(call.arguments) <= limit:
        return call
    try:
        arguments: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call
    if not is_object(arguments):
        return call
    short = {name: _short(value, limit, head) for name, value in arguments.items()}
    return call if short == arguments else replace(call, arguments=json.dumps(short))


def _short(value: object, limit: int, head: int) -> object:
    if not isinstance(value, str) or len(value) <= limit:
        return value
    return value if value == (short := value[:head] + ARGUMENT_MARKER) else short
