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
_CELLS_MAX: Final = 2_000
_COLUMN_MAX: Final = 60  # characters to which shorter cells are filled up
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_BAR: Final = re.compile(r"(?<!\\)\|")
_DASHES: Final = re.compile(r":?-+:?")
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
    if "|" not in text:
        return text
    lines, found, fence, at = text.split("\n"), list[str](), "", 0
    while at < len(lines):
        line = lines[at]
        if marker := _FENCE.match(line):
            is_end = bool(fence) and marker[1].startswith(fence) and not marker[2].strip()
            fence = "" if is_end else fence or marker[1]
        if not fence and _begins_table(lines, at):
            end = at + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            found += _table(lines[at:end])
            at = end
        else:
            found.append(line)
            at += 1
    return "\n".join(found)


def _begins_table(lines: Sequence[str], at: int) -> bool:
    """Whether a line is the head of a table: dashes stand below it, in as many columns."""
    line = lines[at]
    if at + 1 >= len(lines) or "|" not in line or line.startswith(("    ", "\t")):
        return False
    below = _cells(lines[at + 1])
    return len(below) == len(_cells(line)) and all(map(_DASHES.fullmatch, below))


def _cells(line: str) -> list[str]:
    inside = line.strip().removeprefix("|")
    if inside.endswith("|") and not inside.endswith("\\|"):
        inside = inside[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(inside)]


def _table(lines: Sequence[str]) -> list[str]:
    """Return a table as lines of code, no cell left out; one without measure as it was written."""
    rows = [_cells(line) for number, line in enumerate(lines) if number != 1]
    columns = max(map(len, rows))
    if columns * len(rows) > _CELLS_MAX:
        return list(lines)
    rows = [row + [""] * (columns - len(row)) for row in rows]
    widths = [min(max(len(row[i]) for row in rows), _COLUMN_MAX) for i in range(columns)]
    shown = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    shown.insert(1, "-+-".join("-" * width for width in widths))
    fence = "`" * max(3, 1 + max(map(_ticks, shown)))
    indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
    return [indent + line for line in (fence, *shown, fence)]


def _ticks(line: str) -> int:
    return max(map(len, re.findall("`+", line)), default=0)


def _clean(text: str) -> str:
    """Return a text without what no JSON can hold."""
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
