"""Markdown as a model writes it, as messages of Discord. Pure.

Discord understands most of Markdown, so text goes through as it was written. Different are tables
(shown as code), headings below the third (bold), images (links), and `__bold__`, which Discord
would underline.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace

from everturn_channels.boxes import Boxes, is_apart
from everturn_channels.chunks import split_text
from everturn_channels.discord.splitting import Fence, Line, Span, Style, has_something, pack, units

LIMIT_UNITS = 2_000
"""Source: https://docs.discord.com/developers/resources/message#create-message, 2026-11. What a
character is does not stand there; UTF-16 units are never fewer than code points."""
PARSED_CHARS = 60_000
"Longer texts go as they stand: parsing them would hold up everybody else."
MARKS = 5_000
"More brackets, asterisks and the like are no text that anybody wrote, and slow to parse."
_HEADINGS = 3
_ADDRESS_UNITS = 400
"Of a link; a longer address stands beside its text, where it can be cut."
_MARKS = re.compile(r"[*_~`|\\]")
_LANGUAGE = re.compile(r"[\w+#.-]{1,20}")
_BOLD = Style("**", "**")
_STYLES = {"strong": _BOLD, "s": Style("~~", "~~")}
_QUOTE = "> "


def render(markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
    """Return the payloads of a text; see `Adapter.render`."""
    text = _clean(markdown)
    if not has_something(text):
        return ()
    chunks: tuple[str, ...] = ()
    is_bomb = len(text) > PARSED_CHARS or sum(map(text.count, "[`*_~")) > MARKS
    if is_bomb and not is_plain:
        chunks = split_text(text, LIMIT_UNITS, "utf16")  # blocks of code stay whole
    elif not is_plain:
        chunks = pack(_read(text), LIMIT_UNITS)
    if not chunks or any(units(chunk) > LIMIT_UNITS for chunk in chunks):
        chunks = pack(_plain_lines(text), LIMIT_UNITS)
    return tuple(json.dumps({"content": chunk}, ensure_ascii=False) for chunk in chunks)


def _clean(text: str) -> str:
    """Return a text without what no encoding can hold."""
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _plain_lines(text: str) -> list[Line]:
    lines = text.split("\n")
    return [
        Line(spans=(Span(line),), is_gap=not line.strip(), is_boundary=not line.strip())
        for line in lines
    ]


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    # references would vanish, Discord knows no underlined headings, and HTML is text there
    parser.disable(["reference", "lheading", "html_block", "html_inline"])
    # keeps escaped characters apart, which have to stay escaped
    return parser.disable(["text_join"])


_PARSER = _make_parser()


def _read(text: str) -> list[Line]:
    return _Reader(text).lines()


class _Reader:
    """Turns one text into lines."""

    def __init__(self, text: str) -> None:
        self._source = text.split("\n")
        self._tokens = _PARSER.parse(text)
        self._boxes = Boxes()
        self._lines: list[Line] = []
        self._is_after_heading = False

    def lines(self) -> list[Line]:
        number = 0
        while number < len(self._tokens):
            number = self._read_block(number)
        return self._lines

    def _read_block(self, number: int) -> int:
        """Read the block that begins at a token; return where the next one may begin."""
        token = self._tokens[number]
        match token.type:
            case "blockquote_open":
                # Discord has quotes of one level.
                self._boxes.open_quote("" if self._boxes.has_quote(_QUOTE) else _QUOTE)
            case "list_item_open":
                mark = f"{token.info}. " if token.info else f"{token.markup} ".replace("+", "-")
                self._boxes.open_item(mark)
            case "blockquote_close" | "list_item_close":
                self._boxes.close()
            case "paragraph_open":
                self._begin(token)
                self._add_inline(self._tokens[number + 1])
            case "heading_open":
                self._begin(token)
                self._add_heading(int(token.tag[1:]), self._tokens[number + 1])
            case "fence" | "code_block":
                self._begin(token)
                self._add_code(token.content, token.info)
            case "hr":
                self._begin(token)
                self._lines.append(Line(spans=(Span("---"),), first=self._boxes.marks()))
            case "table_open":
                self._begin(token)
                return self._add_table(number)
            case _:
                pass
        return number + 1

    def _begin(self, token: Token) -> None:
        """Put an empty line before a block where there was one."""
        if self._lines and is_apart(token, self._source):
            mark = self._boxes.begun(_QUOTE)
            is_boundary = not self._is_after_heading
            self._lines.append(Line(first=mark, is_gap=True, is_boundary=is_boundary))
        self._is_after_heading = False

    def _add_inline(self, token: Token) -> None:
        for spans in _inline(token.children or ()):
            if any(s.text.strip() for s in spans):
                self._lines.append(
                    Line(spans=spans, first=self._boxes.marks(), rest=self._boxes.rest())
                )

    def _add_heading(self, level: int, token: Token) -> None:
        spans = tuple(s for line in _inline(token.children or ()) for s in line)
        if not any(s.text.strip() for s in spans):
            return
        mark = "#" * level + " " if level <= _HEADINGS else ""
        if not mark:
            spans = tuple(
                replace(s, styles=(_BOLD, *(x for x in s.styles if x != _BOLD))) for s in spans
            )
        first = self._boxes.marks() + mark
        self._lines.append(Line(spans=spans, first=first, rest=self._boxes.rest() + mark))
        self._is_after_heading = True

    def _add_code(self, code: str, info: str) -> None:
        found = _LANGUAGE.match(info.strip())
        language = found[0] if found else ""
        lines = code.rstrip("\n").replace("```", "`\u200b``").split("\n")
        if not any(line.strip() for line in lines):
            return
        first = self._boxes.marks()
        rest = self._boxes.rest()
        fence = Fence(f"{first}```{language}", f"{rest}```{language}", f"{rest}```")
        for number, line in enumerate(lines):
            spans = (Span(line),)
            self._lines.append(
                Line(spans=spans, first=rest, rest=rest, fence=fence, begins_fence=not number)
            )

    def _add_table(self, number: int) -> int:
        rows: list[list[str]] = []
        while (token := self._tokens[number]).type != "table_close":
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                spans = _inline(token.children or (), is_code=True)
                cell = " ".join(map(_bare, spans))
                rows[-1].append(" ".join(cell.split()))
            number += 1
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        shown = [_row(row, widths) for row in rows]
        shown.insert(1, "-+-".join("-" * w for w in widths))
        self._add_code("\n".join(shown), "")
        return number + 1


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip()


def _bare(spans: Sequence[Span]) -> str:
    return "".join(s.text for s in spans)


def _inline(tokens: Sequence[Token], *, is_code: bool = False) -> list[tuple[Span, ...]]:
    """Return the lines of inline text; in code, where a link is none, with addresses as text."""
    lines: list[list[Span]] = [[]]
    styles: list[Style] = []
    after: list[str] = []
    "What is shown after the links that are open."
    for token in tokens:
        here = tuple(styles)
        match token.type:
            case "text":
                lines[-1].append(Span(token.content, here))
            case "text_special":
                text = token.markup if token.info == "escape" else token.content
                lines[-1].append(Span(text, here))
            case "softbreak" | "hardbreak":
                lines.append([])
            case "code_inline":
                lines[-1].append(_code(token.content, here))
            case "image":
                lines[-1].extend(_image_in_code(token, after) if is_code else _image(token, here))
            case "link_open":
                style, shown = _link_in_code(token) if is_code else _link(token)
                styles.append(style)
                after.append(shown)
            case "link_close":
                styles.pop()
                lines[-1].append(Span(after.pop(), tuple(styles)))
            case "em_open":
                styles.append(Style(token.markup, token.markup))
            case "strong_open" | "s_open":
                styles.append(_STYLES[token.type.removesuffix("_open")])
            case "em_close" | "strong_close" | "s_close":
                styles.pop()
            case _:
                lines[-1].append(Span(token.content, here))
    return [tuple(s for s in line if s.text) for line in lines]


def _code(code: str, styles: tuple[Style, ...]) -> Span:
    marks = "``" if "`" in code else "`"
    shown = code.replace("``", "`\u200b`")
    if marks == "``" and (shown.startswith("`") or shown.endswith("`")):
        shown = f" {shown} "
    return Span(shown, (*styles, Style(marks, marks)))


def _link(token: Token) -> tuple[Style, str]:
    """Return the style of a link, and what is shown after its text."""
    address = _address(token, "href")
    if token.markup == "autolink":
        return Style("<", ">"), ""
    if not address.startswith(("http://", "https://")):
        return Style("", ""), f" ({_unformatted(address)})" if address else ""
    if units(address) > _ADDRESS_UNITS:
        return Style("", ""), f" <{address}>"
    return Style("[", f"]({address})"), ""


def _link_in_code(token: Token) -> tuple[Style, str]:
    address = str(token.attrGet("href") or "")
    return Style("", ""), f" ({address})" if address and token.markup != "autolink" else ""


def _image_in_code(token: Token, links: Sequence[str]) -> list[Span]:
    """Return what an image shows, and its address where it is no link."""
    address = "" if links else str(token.attrGet("src") or "")
    return [Span(" ".join(filter(None, (token.content, address and f"({address})"))))]


def _image(token: Token, styles: tuple[Style, ...]) -> list[Span]:
    """Return an image as a link to it; in a link, only what it shows."""
    text, address = token.content, _address(token, "src")
    if any(s.opens == "[" for s in styles):
        return [Span(text or "image", styles)]
    if not address.startswith(("http://", "https://")):
        address = _unformatted(address)
        return [Span(" ".join(filter(None, (text, address))), styles)]
    if not text:
        return [Span(address, styles)]
    if units(address) > _ADDRESS_UNITS:
        return [Span(f"{text} <{address}>", styles)]
    return [Span(text, (*styles, Style("[", f"]({address})")))]


def _address(token: Token, name: str) -> str:
    address = str(token.attrGet(name) or "")
    return address.replace("(", "%28").replace(")", "%29")


def _unformatted(address: str) -> str:
    """Return an address that Discord takes for none, so that no part of it is formatting."""
    return _MARKS.sub(r"\\\g<0>", address)
