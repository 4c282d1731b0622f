"""Markdown as Matrix shows it: the text as it was written, and HTML beside it. Pure.

A payload is a JSON object with `body`, and `html` where the text is formatted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import orjson
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from everturn_channels.chunks import LIMIT_LEAST, sendable, split_text
from everturn_channels.ingestion.json_fields import Json, text_of
from everturn_channels.languages import marked, said
from everturn_channels.references import only_references

CHUNK_UNITS: Final = 16_000
"Bytes of a text in one message: half an hour of reading, and room for its HTML."
CONTENT_MAX_BYTES: Final = 40_000
"""Of a text and its HTML as JSON.

An event has 65,536 bytes at most, its envelope included; encrypted, a third is added to it.
Source: https://spec.matrix.org/v1.16/client-server-api/#size-limits, read 2026-11-26.
"""
REPEAT_LABEL: Final = marked("(This may be a repeat.)")
_PARSED_CHARS: Final = 60_000
"Longer texts go as they stand: parsing them would hold up everybody else."
_MARKS: Final = 5_000
"More brackets, asterisks and the like are no text that anybody wrote, and slow to parse."
_SCHEMES: Final = frozenset({"http", "https", "ftp", "mailto", "magnet"})
"Of links that clients keep. Source: the same page, #mroommessage-msgtypes."


class _Html(RendererHTML):
    """HTML of the elements and attributes that clients show, and of no other."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Show an image as a link to it: clients fetch none from elsewhere."""
        token = tokens[idx]
        text = self.renderInlineAsText(token.children or [], options, env) or "image"
        address = str(token.attrGet("src") or "")
        if urlsplit(address).scheme not in _SCHEMES:
            return escaped(" ".join(filter(None, (text, address))))
        return f'<a href="{escaped(address)}">{escaped(text)}</a>'

    def link_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """Keep the address alone, and that where clients would."""
        address = str(tokens[idx].attrGet("href") or "")
        is_kept = urlsplit(address).scheme in _SCHEMES
        return f'<a href="{escaped(address)}">' if is_kept else "<a>"

    def link_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """End a link, with its address beside it where clients take that away."""
        opened = next(t for t in reversed(tokens[:idx]) if t.type == "link_open")
        address = str(opened.attrGet("href") or "")
        is_kept = not address or urlsplit(address).scheme in _SCHEMES
        return "</a>" if is_kept else f"</a> ({escaped(address)})"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Leave out how a column is aligned."""
        return "<th>"

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Leave out how a column is aligned."""
        return "<td>"


def escaped(text: str) -> str:
    """Return a text as it stands in HTML."""
    swaps = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"))
    for char, written in swaps:
        text = text.replace(char, written)
    return text


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"breaks": True}, renderer_cls=_Html)
    # What a model writes as HTML is text; references would vanish from the body's point of view.
    return parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])


_PARSER: Final = _make_parser()


def render(markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
    """Return the payloads of a text; see `Adapter.render`."""
    text = sendable(markdown)
    env: EnvType = {}
    if "]:" in text and not is_plain:
        # Where links lead whose address stands in another piece.
        _PARSER.parse(only_references(text), env)
    return tuple(_payloads(text, CHUNK_UNITS, env, is_plain=is_plain))


def _payloads(text: str, limit: int, env: EnvType, *, is_plain: bool) -> list[str]:
    found: list[str] = []
    for piece in split_text(text, limit, "bytes", is_plain=is_plain):
        payload = orjson.dumps(_content(piece, env, is_plain=is_plain))
        if len(payload) <= CONTENT_MAX_BYTES or limit == LIMIT_LEAST:
            found.append(payload.decode())
        else:  # its HTML is many times as long: deep lists, or thousands of links
            smaller = max(limit // 2, LIMIT_LEAST)
            found += _payloads(piece, smaller, env, is_plain=is_plain)
    return found


def _is_bomb(text: str) -> bool:
    return len(text) > _PARSED_CHARS or sum(map(text.count, "[`*_~<!")) > _MARKS


def _content(piece: str, env: EnvType, *, is_plain: bool) -> dict[str, str]:
    if is_plain or _is_bomb(piece):
        return {"body": piece}
    html = str(_PARSER.render(piece, env)).strip()
    # A paragraph without any formatting is the text itself.
    inside = html.removeprefix("<p>").removesuffix("</p>")
    if inside == piece or len(html) > CONTENT_MAX_BYTES * 4:
        return {"body": piece}
    return {"body": piece, "html": html}


def content_of(payload: str, *, is_repeat: bool = False) -> dict[str, object]:
    """Return the content of a message; `is_repeat` puts a line above that it may be one.

    Nobody is notified by what a text holds.
    """
    value: Json = orjson.loads(payload)
    body, html = text_of(value, "body"), text_of(value, "html")
    if is_repeat:
        label = said(REPEAT_LABEL)
        body, html = f"{label}\n{body}", f"{escaped(label)}<br>{html}" if html else ""
    content: dict[str, object] = {"msgtype": "m.text", "body": body, "m.mentions": {}}
    if html:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content
