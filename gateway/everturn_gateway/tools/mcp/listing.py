"""The list of tools of an MCP server: what of it an agent is offered. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from everturn_actors.json_values import Json, as_object, is_object
from everturn_gateway.tools.mcp.schemas import SchemaError, checked_schema
from everturn_gateway.tools.mcp.settings import McpServerSettings

NAME_CHARACTERS: Final = 128  # what the protocol asks for; longer ones are no names
DESCRIPTION_CHARACTERS: Final = 1024
TOOLS_MOST: Final = 128  # of one server; OpenAI's API takes no more in a whole request
TOOLS_BYTES: Final = 96 * 1024  # of one server's definitions, which go into every request
FAULTS_MOST: Final = 20  # that are told of one server
_HINTS: Final = ("readOnlyHint", "idempotentHint")
_SHOWN_CHARACTERS: Final = 100  # of a name that is none


class RemoteDefinition(Struct, frozen=True, kw_only=True):
    """One tool, as its server tells it and as a model may be told."""

    name: str
    "As the server calls it."
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=Json)
    "JSON Schema of the arguments, checked."
    read_only: bool = False
    "The server says that it changes nothing; a claim, no more."
    repeatable: bool = False
    "The server says that calling it twice does no harm; a claim, no more."


class PromptArgument(Struct, frozen=True, kw_only=True):
    """A place to fill in."""

    name: str
    description: str = ""
    required: bool = False


class Prompt(Struct, frozen=True, kw_only=True):
    """A text that a person may send, as its server tells it."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class Listing(Struct, frozen=True, kw_only=True):
    """The tools of one server."""

    tools: tuple[RemoteDefinition, ...] = ()
    "By name, so that a list that comes in another order makes the same prompt."
    prompts: tuple[Prompt, ...] = ()
    "By name. For people alone: no model is told of them."
    faults: tuple[str, ...] = ()
    "What was left out and why, one line each."


def sifted(entries: Sequence[object], first: int = 0) -> tuple[list[Json], list[str]]:
    """Return the entries of a `tools/list` that can be used, cut to what is used, and the faults.

    One entry that is wrong does not cost the others. Takes a fifth of a millisecond for each.

    Args:
        entries: Some of the list.
        first: The number of the first of them.
    """
    kept: list[dict[str, object]] = []
    faults: list[str] = []
    for number, entry in enumerate(entries, first):
        found = _entry(entry, number)
        if isinstance(found, str):
            faults.append(found)
        else:
            kept.append(found)
    return kept, faults


def _entry(entry: object, number: int) -> dict[str, object] | str:
    """Return one entry as it may be used, or why it may not."""
    if not is_object(entry):
        return f"tool {number} is left out: it is no object"
    name = entry.get("name")
    if not isinstance(name, str) or not name or len(name) > NAME_CHARACTERS:
        shown = repr(name)[:_SHOWN_CHARACTERS]
        return f"tool {number} is left out: {shown} is no name"
    if not name.isprintable():
        return f"tool {number} is left out: its name {name!r} cannot be printed"
    try:
        schema = checked_schema(entry.get("inputSchema"))
    except SchemaError as error:
        return f"tool {name!r} is left out: its schema cannot be used: {error}"
    description, said = entry.get("description") or entry.get("title"), entry.get("annotations")
    hints = as_object(said)
    return {
        "name": name,
        "description": description if isinstance(description, str) else "",
        "inputSchema": schema,
        "annotations": {hint: True for hint in _HINTS if hints.get(hint) is True},
    }


def listing_of(
    tools: Iterable[RemoteDefinition], settings: McpServerSettings, faults: Iterable[str] = ()
) -> Listing:
    """Return which of its tools an agent is offered: those that are included, and not too many."""
    told, known, offered = list(faults), dict[str, RemoteDefinition](), list[RemoteDefinition]()
    again: dict[str, None] = {}
    for tool in tools:
        if tool.name in known:
            again[tool.name] = None
        known.setdefault(tool.name, tool)
    told += [f"tool {name!r} is listed twice; the first is used" for name in again]
    for pattern in settings.include:
        only = McpServerSettings(name=settings.name, command="-", include=(pattern,))
        if not any(map(only.offers, known)):
            told.append(f"include names {pattern!r}, and the server has no such tool")
    size, left_out = 0, list[str]()
    for name in sorted(filter(settings.offers, known)):
        size += _size_bytes(known[name])
        if len(offered) == TOOLS_MOST or size > TOOLS_BYTES:
            left_out.append(name)
        else:
            offered.append(known[name])
    if left_out:
        told.append(
            f"{len(left_out)} tools are left out, {left_out[0]!r} the first: a server has at most"
            f" {TOOLS_MOST} tools of {TOOLS_BYTES} bytes together; choose some with include"
        )
    if len(told) > FAULTS_MOST:
        told[FAULTS_MOST:] = [f"and {len(told) - FAULTS_MOST} more faults of this kind"]
    return Listing(tools=tuple(offered), faults=tuple(told))


def _size_bytes(tool: RemoteDefinition) -> int:
    return len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters))


def shortened(description: str) -> str:
    """Return a description as it goes into every request: bounded, and without control characters.

    What is cut is the end; the first sentences say what a tool does.
    """
    text = "".join(c if c.isprintable() or c == "\n" else " " for c in description).strip()
    if len(text) <= DESCRIPTION_CHARACTERS:
        return text
    return text[: DESCRIPTION_CHARACTERS - 1].rstrip() + "…"
