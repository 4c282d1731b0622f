"""Slack's blocks, as text in its own mark-up. Pure.

People write most of what they say twice, as a text and as blocks; a table that they paste stands in
blocks alone. Blocks that are not known give whatever texts they hold.
Source: https://docs.slack.dev/reference/block-kit/blocks (rich text, table), read 2026-11-27. That
a pasted table comes as an attachment was read of clients of the API (vercel/chat, issue 803).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from everturn_actors.json_values import as_list, is_object
from everturn_channels.ingestion.json_fields import Json, number_of, text_of
from everturn_channels.tables import markdown_table

_DEPTH_MAX: Final = 12
_PARTS: Final = ("title", "text", "description", "alt_text", "fields", "elements", "rows")
"Where blocks hold what people read, in its order."
_INLINE: Final = frozenset({"rich_text_section", "rich_text_quote", "rich_text_preformatted"})
_BAR: Final = re.compile(r"\|(?![^<>]*>)")  # not the one within <address|words>


def text_of_blocks(blocks: Sequence[Json]) -> str:
    """Return what blocks say.

    >>> text_of_blocks([{"type": "header", "text": {"type": "plain_text", "text": "Rain"}}])
    'Rain'
    """
    return "\n\n".join(filter(None, (_text(each).strip("\n") for each in blocks)))


def is_table(block: Json) -> bool:
    """Whether a block is a table."""
    return text_of(block, "type") == "table"


def _text(node: object, depth: int = 0) -> str:
    """Return the text of a block, or of a part of one."""
    if isinstance(node, str):
        return node
    if not is_object(node) or depth > _DEPTH_MAX:
        return ""
    match text_of(node, "type"):
        case "table":
            return _table(node, depth)
        case "rich_text_list":
            return _list(node, depth)
        case "rich_text_quote":
            return "\n".join(f"> {line}" for line in _parts(node, depth).split("\n"))
        case "rich_text_preformatted":
            return f"```\n{_parts(node, depth).strip(chr(10))}\n```"
        case kind:
            return _leaf(kind, node) or _parts(node, depth)


def _leaf(kind: str, node: Json) -> str:
    """Return what stands for an element within a line; empty = it is none."""
    text = text_of(node, "text")
    match kind:
        case "text" | "raw_text" | "markdown":
            return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        case "raw_number":
            return text or str(node.get("value", ""))
        case "link":
            url = text_of(node, "url")
            return f"<{url}|{text}>" if text else f"<{url}>"
        case "user":
            return f"<@{text_of(node, 'user_id')}>"
        case "channel":
            return f"<#{text_of(node, 'channel_id')}>"
        case "usergroup":
            return f"<!subteam^{text_of(node, 'usergroup_id')}>"
        case "broadcast":
            return f"<!{text_of(node, 'range')}>"
        case "emoji":
            return f":{text_of(node, 'name')}:"
        case "date":
            return text_of(node, "fallback")
        case "color":
            return text_of(node, "value")
        case _:
            return ""


def _parts(node: Json, depth: int) -> str:
    """Return the texts of all that a block holds."""
    between = "" if text_of(node, "type") in _INLINE else "\n"
    found: list[str] = []
    for name in _PARTS:
        value = node.get(name)
        found += [_text(each, depth + 1) for each in as_list(value) or (value,)]
    return between.join(filter(None, found))


def _list(node: Json, depth: int) -> str:
    is_numbered = text_of(node, "style") == "ordered"
    first, indent = (number_of(node, "offset") or 0) + 1, (number_of(node, "indent") or 0) % 20
    return "\n".join(
        f"{'    ' * indent}{f'{number}.' if is_numbered else '-'} {_text(each, depth + 1)}"
        for number, each in enumerate(as_list(node.get("elements")), first)
    )


def _table(node: Json, depth: int) -> str:
    rows = [
        [_BAR.sub(r"\\|", " ".join(_text(cell, depth + 1).split())) for cell in as_list(row)]
        for row in as_list(node.get("rows"))
    ]
    return markdown_table(rows)
