"""What a tool of an MCP server returned, in words for a model. Pure.

It reads the message itself: what the protocol's client would make of a large result takes it a
second of the event loop, and it refuses the whole for one part that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import orjson
from msgspec import Struct

from everturn_actors.json_values import as_object, is_list
from everturn_gateway.tools.mcp.errors import McpAnswerError

RESULT_CHARACTERS: Final = 1_000_000  # held of one result; the session keeps them in a file
BLOCKS_MOST: Final = 1000
IMAGES_MOST: Final = 8  # of one result that a model is shown
_TYPES: Final = frozenset(("audio", "image", "resource", "resource_link", "text"))
_SHOWN_CHARACTERS: Final = 200  # of a name or an address


class Answer(Struct, frozen=True, kw_only=True):
    """What a call gave."""

    text: str
    is_error: bool = False
    "Whether the tool says that it failed."
    images: tuple[bytes, ...] = ()
    "What the text calls image 1, image 2 and so on; nobody has looked whether they are any."


def images_of(result: Mapping[str, object]) -> list[str]:
    """Return the images of a result that a model may be shown, in base64, in their order.

    Their size is bounded by that of a message.
    """
    content = result.get("content", [])
    blocks = content[:BLOCKS_MOST] if is_list(content) else []
    return [data for block in blocks if (data := _image(block))][:IMAGES_MOST]


def _image(block: object) -> str:
    match block:
        case {"type": "image", "data": str() as data}:
            return data
        case {"type": "resource", "resource": {"blob": str() as data, "mimeType": str() as kind}}:
            return data if kind.startswith("image/") else ""
        case _:
            return ""


def result_text(result: Mapping[str, object]) -> str:
    """Return the texts of a result, and in words what else it holds.

    Nothing binary is in it: no model reads it in a text, and it would stay in the log for good.
    Images are numbered: the model is shown them beside the text, see `images_of`.
    Structured content says the same as the text, and stands in for one that is missing.

    Raises:
        McpAnswerError: It is no result.

    Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools
    """
    content = result.get("content", [])
    if not is_list(content):
        raise _no_result(at="content", is_not="a list")
    images = 0
    parts: list[str] = []
    for number, block in enumerate(content[:BLOCKS_MOST]):
        images += bool(_image(block))
        is_shown = bool(_image(block)) and images <= IMAGES_MOST
        parts.append(_block(block, number, images if is_shown else 0))
    if len(content) > BLOCKS_MOST:
        parts.append(f"[and {len(content) - BLOCKS_MOST:,} more parts, which are not shown]")
    structured = result.get("structuredContent")
    if structured is not None and not any(map(_is_text, content[:BLOCKS_MOST])):
        try:
            parts.append(orjson.dumps(structured).decode())
        except TypeError as error:
            raise _no_result(at="structuredContent", is_not="JSON") from error
    text = "\n".join(part for part in parts if part)
    if len(text) > RESULT_CHARACTERS:
        cut = f"\n[cut here: the result has {len(text):,} characters]"
        text = text[:RESULT_CHARACTERS] + cut
    if not text:
        failed = "it failed, and does not say why"
        return failed if result.get("isError") is True else "(the tool returned nothing)"
    return text


def _no_result(*, at: str, is_not: str) -> McpAnswerError:
    return McpAnswerError(f"its answer does not follow the protocol: {at} is not {is_not}")


def _is_text(block: object) -> bool:
    match block:
        case {"type": "text", "text": str() as text}:
            return bool(text)
        case {"type": "resource", "resource": {"text": str()}}:
            return True
        case _:
            return False


def _block(block: object, number: int, image: int) -> str:
    """Return a part in words; `image` is its number where it is an image that is shown."""
    part = as_object(block)
    match part:
        case {"type": "text", "text": str() as text}:
            return text
        case {"type": "image" | "audio", "data": str() as data}:
            return _binary(_short(part["type"]), part.get("mimeType"), data, image)
        case {"type": "resource_link", "uri": str() as uri}:
            size = part.get("size")
            size_told = f"{size:,} bytes" if isinstance(size, int) else ""
            about = (_short(uri), _short(part.get("mimeType")), size_told)
            return f"[a link to {_short(part.get('name'))!r}: {', '.join(filter(None, about))}]"
        case {"type": "resource", "resource": {"uri": str() as uri, "text": str() as text}}:
            return f"[{_short(uri)}]\n{text}"
        case {"type": "resource", "resource": {"uri": str() as uri, "blob": str() as data}}:
            inside = cast("dict[str, object]", part["resource"])
            return _binary(_short(uri), inside.get("mimeType"), data, image)
        case {"type": str() as kind} if kind not in _TYPES:
            return f"[a part of the type {_short(kind)!r}, which is not understood here]"
        case _:
            raise _no_result(at=f"content[{number}]", is_not="a part of a result")


def _binary(what: str, kind: object, data: str, image: int) -> str:
    size = max(0, len(data) * 3 // 4 - data[-2:].count("="))
    about = ", ".join(filter(None, (_short(kind), f"{size:,} bytes")))
    if image:
        return f"[{'' if what == 'image' else f'{what}: '}image {image} ({about})]"
    return f"[{what} ({about}), which is not shown]"


def _short(text: object) -> str:
    if not isinstance(text, str):
        return ""
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
