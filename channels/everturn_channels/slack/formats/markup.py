"""Markdown as Slack shows it: blocks for people, and a text beside them for what shows none. Pure.

A payload is a JSON object with `text`, and `is_plain` where nothing in it is formatting.

Source: https://docs.slack.dev/reference/block-kit/blocks/markdown-block and .../rich-text-block,
read 2026-11-27.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

from everturn_channels.adapter import Button
from everturn_channels.chunks import split_text
from everturn_channels.ingestion.json_fields import objects_of, text_of
from everturn_channels.languages import marked, said

CHUNK_UNITS: Final = 10_000
"UTF-16 units of one message: all its `markdown` blocks together take 12,000."
REPEAT_LABEL: Final = marked("(This may be a repeat.)")
_FALLBACK_CHARS: Final = 3_000  # of what notifications show, and clients that know no blocks
_BUTTONS_MAX: Final = 25
_LABEL_CHARS: Final = 75
_MARKS: Final = 20_000
"More bars and the like are no text that anybody wrote, and slow to parse."
_PARSER: Final = MarkdownIt("commonmark").enable("table")
_CALLS: Final = re.compile(r"<(?=!(?:channel|here|everyone|subteam\^)|@[UWB][A-Z0-9]|#C[A-Z0-9])")
"What notifies people, or looks as if a channel were meant."
_NO_CALL: Final = "<\u2060"


class Payload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text of one message."""

    text: str
    is_plain: bool = False


def render(markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
    """Return the payloads of a text; see `Adapter.render`."""
    text = _clean(markdown)
    if not is_plain:
        text = _without_tables(text)
    pieces = split_text(text, CHUNK_UNITS, "utf16", is_plain=is_plain)
    return tuple(
        msgspec.json.encode(Payload(text=piece, is_plain=is_plain)).decode() for piece in pieces
    )


def payload_of(text: str) -> Payload:
    """Return a payload as a value."""
    return msgspec.json.decode(text, type=Payload)


def fields_of(
    payload: str, *, buttons: Sequence[Button] = (), is_repeat: bool = False
) -> dict[str, object]:
    """Return the fields of a message; `is_repeat` puts a line above that it may be one.

    Nobody is notified by what a text holds, and no address in it is fetched to be shown below.
    """
    value = payload_of(payload)
    text = f"{said(REPEAT_LABEL)}\n{value.text}" if is_repeat else value.text
    shown = {"type": "markdown", "text": _CALLS.sub(_NO_CALL, text)}
    block = _plain(text) if value.is_plain else shown
    blocks = [block, *([_actions(buttons)] if buttons else ())]
    return {"text": escaped(text[:_FALLBACK_CHARS]), "blocks": blocks, **QUIET}


def as_plain(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a message whose formatting was refused, with its text as it stands."""
    shown, *actions = objects_of(fields, "blocks")
    text = text_of(shown, "text").replace(_NO_CALL, "<")
    return {**fields, "blocks": [_plain(text) if text else shown, *actions]}


def _plain(text: str) -> dict[str, object]:
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [section]}


QUIET: Final[dict[str, object]] = {
    "mrkdwn": False,
    "link_names": False,
    "parse": "none",
    "unfurl_links": False,  # Slack fetches an address that it shows before anybody clicks
    "unfurl_media": False,
}


def escaped(text: str) -> str:
    """Return a text as it stands in a field of Slack's own format.

    Source: https://docs.slack.dev/messaging/formatting-message-text#escaping.
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _actions(buttons: Sequence[Button]) -> dict[str, object]:
    elements = [
        {
            "type": "button",
            "action_id": f"everturn-{number}",
            "text": {"type": "plain_text", "text": each.label[:_LABEL_CHARS]},
            "value": each.data,
        }
        for number, each in enumerate(buttons[:_BUTTONS_MAX])
    ]
    return {"type": "actions", "elements": elements}


def _without_tables(text: str) -> str:
    """Return a text with its tables as code, in columns: a `markdown` block shows none."""
    if "|" not in text or text.count("|") > _MARKS:
        return text
    lines = text.split("\n")
    tokens = _PARSER.parse(text)
    for number in range(len(tokens) - 1, -1, -1):
        token = tokens[number]
        if token.type == "table_open" and token.level == 0 and token.map:
            first, end = token.map
            lines[first:end] = _table(tokens[number:])
    return "\n".join(lines)


def _table(tokens: Sequence[Token]) -> list[str]:
    """Return the table that begins with a token, line by line."""
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(" ".join(token.content.split()))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    shown = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    shown.insert(1, "-+-".join("-" * width for width in widths))
    fence = "`" * max(3, 1 + max(map(_ticks, shown)))
    return [fence, *shown, fence, ""]


def _ticks(line: str) -> int:
    return max(map(len, re.findall("`+", line)), default=0)


def _clean(text: str) -> str:
    """Return a text without what no JSON can hold."""
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
