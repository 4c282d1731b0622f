"""Markdown as mail programs show it: the text as it was written, and HTML beside it. Pure.

A payload is a JSON object with `text`, and `html` where the text is formatted.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from msgspec import Struct

from everturn_channels.chunks import sendable, split_text
from everturn_channels.references import only_references

CHUNK_UNITS: Final = 100_000
"Characters of one mail: an hour of reading, and a tenth of what every server takes."
_MARKS: Final = 20_000
"More brackets, asterisks and the like are no text that anybody wrote, and slow to parse."


class Payload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text of one mail."""

    text: str
    html: str = ""
    "Empty = the text is not formatted."


class _Html(RendererHTML):
    """HTML without anything that is fetched when it is read."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Show an image as a link to it."""
        token = tokens[idx]
        text = self.renderInlineAsText(token.children or [], options, env) or "image"
        address = str(token.attrGet("src") or "")
        return f'<a href="{escape(address)}">{escape(text)}</a>'


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"breaks": True, "html": False}, renderer_cls=_Html)
    # What a model writes as HTML is text.
    return parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])


_PARSER: Final = _make_parser()


def render(markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
    """Return the payloads of a text; see `Adapter.render`."""
    text = sendable(markdown)
    pieces = split_text(text, CHUNK_UNITS, "characters", is_plain=is_plain)
    env: EnvType = {}
    if "]:" in text and len(pieces) > 1 and not is_plain:
        # Where links lead whose address stands in another piece.
        _PARSER.parse(only_references(text), env)
    return tuple(
        msgspec.json.encode(_payload(piece, env, is_plain=is_plain)).decode() for piece in pieces
    )


def payload_of(text: str) -> Payload:
    """Return a payload as a value."""
    return msgspec.json.decode(text, type=Payload)


def _is_bomb(text: str) -> bool:
    return sum(map(text.count, "[`*_~<!|")) > _MARKS


def _payload(piece: str, env: EnvType, *, is_plain: bool) -> Payload:
    if is_plain or _is_bomb(piece):
        return Payload(text=piece)
    html = str(_PARSER.render(piece, env)).strip()
    inside = html.removeprefix("<p>").removesuffix("</p>")
    return Payload(text=piece) if inside == piece else Payload(text=piece, html=html)
