"""The words of a rich message, which other bots write and people pass on. Pure.

Source: https://core.telegram.org/bots/api#richmessage, as aiogram 3.31 has it, read 2026-11-27.
"""

from __future__ import annotations

from typing import Final

from aiogram import types

from everturn_actors.json_values import as_list, is_object
from everturn_channels.ingestion.json_fields import Json, objects_of, text_of
from everturn_channels.tables import markdown_table

_DEPTH_MAX: Final = 20
_MEDIA: Final = ("photo", "video", "animation", "audio", "voice_note", "document")
_QUOTATIONS: Final = frozenset({"blockquote", "expandable_blockquote", "pullquote"})


def words_of(message: types.RichMessage | None) -> str:
    """Return the text of a rich message, in Markdown where it has a form; empty = it has none."""
    if message is None:
        return ""
    return _blocks(message.model_dump(mode="json", exclude_none=True), 0)


def _blocks(holder: Json, depth: int) -> str:
    found = (_block(each, depth + 1) for each in objects_of(holder, "blocks"))
    return "\n\n".join(filter(None, found))


def _block(block: Json, depth: int) -> str:
    if depth > _DEPTH_MAX:
        return ""
    if "cells" in block:
        return _table(block, depth)
    if "items" in block:
        return "\n".join(_item(each, depth) for each in objects_of(block, "items"))
    text = _text(block.get("text"), depth)
    if text_of(block, "type") == "pre":
        return f"```{text_of(block, 'language')}\n{text}\n```"
    caption = block.get("caption")
    credit = (caption if is_object(caption) else block).get("credit")
    parts = (
        *(f"({name})" for name in _MEDIA if name in block),
        _text(block.get("summary"), depth),
        text or text_of(block, "expression"),
        _blocks(block, depth),
        " ".join(_text(each.get("text"), depth) for each in objects_of(block, "buttons")),
        _text(caption, depth),
        _text(credit, depth),
    )
    whole = "\n".join(filter(None, parts))
    is_quoted = text_of(block, "type") in _QUOTATIONS
    return "\n".join(f"> {line}" for line in whole.split("\n")) if is_quoted and whole else whole


def _item(item: Json, depth: int) -> str:
    box = ("\N{BALLOT BOX WITH CHECK} " if item.get("is_checked") else "\N{BALLOT BOX} ") * bool(
        item.get("has_checkbox")
    )
    mark = f"{text_of(item, 'label')} {box}".lstrip()
    return mark + _blocks(item, depth).replace("\n", "\n  ")


def _table(block: Json, depth: int) -> str:
    rows = [
        [" ".join(_text(cell, depth).split()).replace("|", "\\|") for cell in as_list(row)]
        for row in as_list(block.get("cells"))
    ]
    return "\n".join(filter(None, (_text(block.get("caption"), depth), markdown_table(rows))))


def _text(value: object, depth: int) -> str:
    """Return a text in which formats may be nested, with the addresses of its links."""
    if isinstance(value, str):
        return value
    if depth > _DEPTH_MAX:
        return ""
    if not is_object(value):
        return "".join(_text(each, depth + 1) for each in as_list(value))
    own = _text(value.get("text"), depth + 1)
    own = own or text_of(value, "alternative_text") or text_of(value, "expression")
    own = own or _text(value.get("button"), depth + 1)
    address = text_of(value, "url")
    return f"{own} ({address})" if address.rstrip("/") not in {"", own.rstrip("/")} else own
