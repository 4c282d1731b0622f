"""Calls of tools as an editor shows them: what kind each is, and what it changes in files. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, TypeAlias

import orjson
from acp import tool_diff_content
from acp.schema import FileEditToolCallContent, ToolCallLocation, ToolKind
from msgspec import Struct

from everturn_actors.json_values import is_object
from everturn_actors.model import ToolCall
from everturn_channels.names import visible

TITLE_CHARACTERS: Final = 120

Diffs: TypeAlias = list[FileEditToolCallContent]

_KINDS: Final[Mapping[str, ToolKind]] = {
    "read_file": "read",
    "list_files": "read",
    "search_files": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "bash": "execute",
    "background_process": "execute",
    "web_fetch": "fetch",
    "web_search": "search",
    "recall": "search",
    "recall_context": "search",
}
# The one argument that says what a call is about.
_ABOUT: Final = ("command", "path", "url", "query", "pattern")


class ShownCall(Struct, frozen=True, kw_only=True):
    """One call of a tool, as the editor knows it."""

    id: str
    "Its own in the session; that of the model may come again in a later turn."
    title: str
    kind: ToolKind
    arguments: dict[str, object] | None
    "None = the model wrote something else than an object."
    diffs: Diffs
    locations: list[ToolCallLocation]


def shown_call(call: ToolCall, seq: int, root: str) -> ShownCall:
    """Return how a call is shown.

    Args:
        call: The call.
        seq: Of the event in which the model asked for it.
        root: The agent's workspace: paths are seen from there.
    """
    arguments = _object(call.arguments)
    given = arguments or {}
    path = given.get("path")
    where = [ToolCallLocation(path=os.path.join(root, path))] if isinstance(path, str) else []
    return ShownCall(
        id=f"m{seq}-{call.call_id}",
        title=_title(call, given),
        kind=_KINDS.get(call.name, "other"),
        arguments=arguments,
        diffs=_diffs(call.name, given, root),
        locations=where,
    )


def _title(call: ToolCall, given: Mapping[str, object]) -> str:
    about = next((str(given[name]) for name in _ABOUT if given.get(name)), "")
    title = visible(f"{call.name} {about or call.arguments}".replace("\n", " ").strip())
    return title if len(title) <= TITLE_CHARACTERS else title[: TITLE_CHARACTERS - 1] + "…"


def _diffs(name: str, given: Mapping[str, object], root: str) -> Diffs:
    """Return what the call would change, where its arguments say so."""
    match name, given:
        case "write_file", {"path": str(path), "content": str(content)}:
            return [tool_diff_content(os.path.join(root, path), content)]
        case "edit_file", {"path": str(path), "old_text": str(old), "new_text": str(new)}:
            return [tool_diff_content(os.path.join(root, path), new, old)]
        case _:
            return []


def _object(text: str) -> dict[str, object] | None:
    try:
        found: object = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return None
    return found if is_object(found) else None
