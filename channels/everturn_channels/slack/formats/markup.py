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
from everturn_channels.chunks import sendable, split_text
from everturn_channels.ingestion.json_fields import objects_of, text_of
from everturn_channels.languages import marked, said
from everturn_channels.references import with_shown_references
from everturn_channels.tables import without_tables

CHUNK_UNITS: Final = 10_000
"UTF-16 units of one message: all its `markdown` blocks together take 12,000."
REPEAT_LABEL: Final = marked("(This may be a repeat.)")
_FALLBACK_CHARS: Final = 3_000  # of what notifications show, and clients that know no blocks
_BUTTONS_MAX: Final = 25
_LABEL_CHARS: Final = 75
_CALLS: Final = re.compile(r"<(?=!(?:channel|here|everyone|subteam\^)|@[UWB][A-Z0-9]|#C[A-Z0-9])")
"What notifies people, or looks as if a channel were meant."
_NO_CALL: Final = "<\u2060"


class Payload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text of one message."""

    text: str
    is_plain: bool = False


def render(markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
    """Return the payloads of a text; see `Adapter.render`."""
    text = sendable(markdown)
    if not is_plain:
        # An address in another message would be lost.
        text = with_shown_references(without_tables(text))
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
