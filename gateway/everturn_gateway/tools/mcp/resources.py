"""The resources of an MCP server, as two tools: one lists them, one reads one. Pure.

To policies they are tools of the server with the names of the protocol's requests, so an owner
allows and denies them as any other: `mcp:wiki:resources/read`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from everturn_actors.json_values import as_object, is_list
from everturn_actors.outside import plain_line
from everturn_gateway.tools.mcp.errors import McpAnswerError
from everturn_gateway.tools.mcp.listing import RemoteDefinition, shortened
from everturn_gateway.tools.mcp.results import images_of, result_text

LIST: Final = "resources/list"
READ: Final = "resources/read"
TEMPLATES: Final = "resources/templates/list"
ENTRIES_MOST: Final = 200  # of a page that a model is shown
_ADDRESS_CHARACTERS: Final = 2000
_NAME_CHARACTERS: Final = 200
_ADDRESSES: Final = {LIST: ("resources", "uri"), TEMPLATES: ("resourceTemplates", "uriTemplate")}
_TEXT_URI: Final = "everturn:text"
_IMAGE_URI: Final = "everturn:image"

DEFINITIONS: Final = (
    RemoteDefinition(
        name=LIST,
        description="List the resources of this server: files, pages, records that can be read.",
        parameters={
            "type": "object",
            "properties": {
                "cursor": {
                    "type": "string",
                    "description": "The next page, as the last one named it",
                }
            },
        },
        read_only=True,
        repeatable=True,
    ),
    RemoteDefinition(
        name=READ,
        description="Read a resource of this server by its address.",
        parameters={
            "type": "object",
            "properties": {"uri": {"type": "string"}},
            "required": ["uri"],
        },
        read_only=True,
        repeatable=True,
    ),
)


def sifted_page(method: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of resources or templates with what is shown of it, and nothing that is wrong.

    Args:
        method: `LIST` or `TEMPLATES`.
        result: As the server sent it.
    """
    field, address = _ADDRESSES[method]
    entries: object = result.get(field)
    kept = [
        entry
        for each in (entries if is_list(entries) else [])[:ENTRIES_MOST]
        if (entry := _entry(each, address))
    ]
    return {**result, field: kept}


def _entry(entry: object, address: str) -> dict[str, object] | None:
    said = as_object(entry)
    uri = said.get(address)
    if not isinstance(uri, str) or not 0 < len(uri) <= _ADDRESS_CHARACTERS or not uri.isprintable():
        return None
    kept: dict[str, object] = {address: uri, "name": _one_line(said.get("name")) or uri}
    for field in ("description", "mimeType"):
        if text := _one_line(said.get(field)):
            kept[field] = text
    return kept


def _one_line(text: object) -> str:
    return plain_line(shortened(text), _NAME_CHARACTERS) if isinstance(text, str) else ""


def sifted_contents(result: Mapping[str, object]) -> dict[str, object]:
    """Return what was read as one text, and the images in it.

    Raises:
        McpAnswerError: It is nothing that was read.
    """
    contents: object = result.get("contents")
    if not is_list(contents):
        msg = "its answer does not follow the protocol: contents is not a list"
        raise McpAnswerError(msg)
    shaped = {"content": [{"type": "resource", "resource": each} for each in contents]}
    images = ({"uri": _IMAGE_URI, "mimeType": "image", "blob": data} for data in images_of(shaped))
    return {**result, "contents": [{"uri": _TEXT_URI, "text": result_text(shaped)}, *images]}


def page_text(
    resources: list[dict[str, Any]], templates: list[dict[str, Any]], cursor: str | None
) -> str:
    """Return a page in words for a model."""
    lines = [_line(each, each["uri"]) for each in resources]
    if templates:
        lines += ["Addresses with parts to fill in:"]
        lines += [_line(each, each["uriTemplate"]) for each in templates]
    if cursor:
        lines.append(f"There are more, with cursor {cursor!r}")
    return "\n".join(lines or ["There are none."])


def _line(entry: Mapping[str, Any], uri: str) -> str:
    about = ", ".join(
        each
        for each in (entry["name"], entry.get("mimeType"), entry.get("description"))
        if each and each != uri
    )
    return f"- {uri}: {about}" if about else f"- {uri}"
