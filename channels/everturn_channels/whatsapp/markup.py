"""Markdown as WhatsApp shows it: `*bold*`, `_italic_`, `~struck~`, code, lists and quotes. Pure.

A payload is a JSON object with the text of one message. WhatsApp has no way to escape a marker, so
what only looks like one is kept from being one: a line of plain text becomes a line of code, and
in other text a hair space stands behind it.

Source: https://faq.whatsapp.com/539178204879377 (formatting) and, for 4,096 characters,
https://github.com/facebook/openapi (business-messaging-api_v23.0.yaml, TextMessage), read
2026-11-27. Where exactly WhatsApp takes a character for a marker is not documented: as other
programs do, it is taken for one between a word and what is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

from everturn_channels.boxes import Boxes, is_apart
from everturn_channels.chunks import sendable, split_text
from everturn_channels.languages import marked, said
from everturn_channels.tables import without_tables

MESSAGE_UNITS: Final = 4_096
CHUNK_UNITS: Final = 4_000
"UTF-16 units of a piece: a line that says that it may be a repeat has room above it."
REPEAT_LABEL: Final = marked("(This may be a repeat.)")
_PARSED_CHARS: Final = 60_000
"Longer texts go as they stand: parsing them would hold up everybody else."
_MARKS: Final = 5_000
"More brackets, asterisks and the like are no text that anybody wrote, and slow to parse."
_RUN: Final = re.compile(r"(?<![\w*_~`])([*_~`])\1*")
"Markers that may begin a format."
_HAIR: Final = "\u200a"
_STYLES: Final = {"strong": "*", "em": "_", "s": "~"}


_Span: TypeAlias = tuple[str, tuple[str, ...]]
"A text, and its formats, outermost first."


class Payload(Struct, frozen=True, kw_only=True):
    """The text of one message."""

    text: str


def render(markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
    """Return the payloads of a text; see `Adapter.render`."""
    text = sendable(markdown)
    is_bomb = len(text) > _PARSED_CHARS or sum(map(text.count, "[`*_~<!")) > _MARKS
    shown = _literal(text) if is_plain or is_bomb else _Reader(without_tables(text)).read()
    return tuple(
        msgspec.json.encode(Payload(text=piece)).decode()
        for piece in split_text(shown, CHUNK_UNITS, "utf16")
    )


def text_of(payload: str, *, is_repeat: bool = False) -> str:
    """Return the text of a message; `is_repeat` puts a line above that it may be one."""
    text = msgspec.json.decode(payload, type=Payload).text
    return f"{said(REPEAT_LABEL)}\n{text}" if is_repeat else text


def _literal(text: str) -> str:
    """Return plain text that shows as it stands: a line that would be formatted is code."""
    return "\n".join(
        f"```{line}```" if shown != line and "`" not in line else shown
        for line in text.split("\n")
        for shown in (_defused(line),)
    )


def _defused(text: str) -> str:
    """Return a text of which WhatsApp takes no marker for the beginning of a format.

    It may where the same marker stands in its line again. In one pass: a line may be long.
    """
    return "\n".join(map(_defused_line, text.split("\n")))


def _defused_line(line: str) -> str:
    last = {marker: line.rfind(marker) for marker in "*_~`"}

    def defuse(found: re.Match[str]) -> str:
        run, end = found[0], found.end()
        if line[end : end + 1].strip() and last[run[0]] >= end:
            return run + _HAIR
        return f"{run[:-1]}{_HAIR}{run[-1]}" if len(run) > 1 else run

    return _RUN.sub(defuse, line)


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["strikethrough"])
    # References would vanish, underlined headings are rare, and HTML is text here.
    return parser.disable(["reference", "lheading", "html_block", "html_inline"])


_PARSER: Final = _make_parser()


class _Reader:
    """Turns one text into lines of WhatsApp's."""

    def __init__(self, text: str) -> None:
        self._source = text.split("\n")
        self._tokens = _PARSER.parse(text)
        self._boxes = Boxes()
        self._lines: list[str] = []

    def read(self) -> str:
        """Return the text."""
        for number, token in enumerate(self._tokens):
            match token.type:
                case "blockquote_open":
                    # WhatsApp has quotes of one level, and none within a list.
                    self._boxes.open_quote("" if self._boxes else "> ")
                case "list_item_open":
                    mark = f"{token.info}. " if token.info else "- "
                    self._boxes.open_item(mark)
                case "blockquote_close" | "list_item_close":
                    self._boxes.close()
                case "paragraph_open":
                    self._add(token, _inline(self._tokens[number + 1]))
                case "heading_open":
                    self._add(token, _inline(self._tokens[number + 1], base="*"))
                case "fence" | "code_block":
                    self._add(token, _code(token.content))
                case "hr":
                    self._add(token, "---")
                case _:
                    pass
        return "\n".join(self._lines)

    def _add(self, token: Token, text: str) -> None:
        """Add a block, behind an empty line where there was one."""
        if not text.strip():
            return
        if self._lines and is_apart(token, self._source):
            self._lines.append("")
        for line in text.split("\n"):
            marks = self._boxes.marks()
            self._lines.append(f"{marks}{line}" if line else marks.rstrip())


def _code(code: str) -> str:
    """Return a block of code; three backticks in it would end it."""
    inside = _unended(code.rstrip("\n"))
    return f"```\n{inside}\n```" if inside.strip() else ""


def _unended(code: str) -> str:
    return code.replace("```", "`\u200b``")


def _inline(token: Token, base: str = "") -> str:
    """Return one block of text; formats end and begin again at each line, as WhatsApp wants."""
    writer = _Writer(base)
    children = token.children or []
    for number, child in enumerate(children):
        name = child.type.removesuffix("_open").removesuffix("_close")
        if name in _STYLES:
            writer.toggle(_STYLES[name], is_open=child.type.endswith("_open"))
        elif child.type in {"softbreak", "hardbreak"}:
            writer.end_line()
        elif child.type == "code_inline":
            writer.add_code(child.content)
        elif child.type == "image":
            writer.add(_with_address(child.content or "image", str(child.attrGet("src") or "")))
        elif child.type == "link_close":
            writer.add(_address_behind(children, number))
        else:
            writer.add(_defused(child.content))
    return writer.text()


def _with_address(label: str, address: str) -> str:
    bare = address.removeprefix("mailto:")
    return _defused(label) if label in {address, bare} or not address else f"{label} ({bare})"


def _address_behind(children: Sequence[Token], number: int) -> str:
    """Return what stands behind the text of a link: its address, unless that is the text."""
    start = max(n for n, each in enumerate(children[:number]) if each.type == "link_open")
    label = "".join(each.content for each in children[start:number])
    address = str(children[start].attrGet("href") or "")
    bare = address.removeprefix("mailto:")
    return f" ({bare})" if bare and label not in {address, bare} else ""


class _Writer:
    """Writes lines with formats in them."""

    def __init__(self, base: str) -> None:
        self._open: list[str] = [base] if base else []
        self._base = base
        self._lines: list[str] = []
        self._spans: list[_Span] = []
        "Of this line."

    def toggle(self, marker: str, *, is_open: bool) -> None:
        """Begin or end a format."""
        if marker == self._base:
            return  # a heading is bold anyway
        if is_open:
            self._open.append(marker)
        elif marker in self._open:
            self._open.remove(marker)

    def add(self, text: str) -> None:
        """Add text in the formats that are open."""
        if text:
            self._spans.append((text, tuple(dict.fromkeys(self._open))))

    def add_code(self, code: str) -> None:
        """Add code, which has no format beside."""
        mark = "```" if "`" in code else "`"
        self._spans.append((f"{mark}{_unended(code)}{mark}", ()))

    def end_line(self) -> None:
        """Begin another line."""
        self._lines.append(self._line())
        self._spans = []

    def text(self) -> str:
        """Return all lines."""
        return "\n".join([*self._lines, self._line()])

    def _line(self) -> str:
        spans = _hugging(self._spans)
        for marker in _STYLES.values():
            spans = _without_cut_words(spans, marker)
        found, before = "", tuple[str, ...]()
        for text, formats in [*spans, ("", ())]:
            kept = 0
            while kept < min(len(before), len(formats)) and before[kept] == formats[kept]:
                kept += 1
            found += "".join(reversed(before[kept:])) + "".join(formats[kept:]) + text
            before = formats
        return found


def _hugging(spans: Sequence[_Span]) -> list[_Span]:
    """Return spans in which no format begins or ends with a blank: then it would be none."""
    parts: list[_Span] = []
    for text, formats in spans:
        core = text.strip()
        if not formats or not core:
            parts.append((text, formats if core else ()))
            continue
        at = text.index(core)
        edges = ((text[:at], ()), (core, formats), (text[at + len(core) :], ()))
        parts += [each for each in edges if each[0]]
    for number in range(1, len(parts) - 1):
        if not parts[number][0].strip():  # a blank within a format belongs to it
            around = parts[number - 1][1], parts[number + 1][1]
            parts[number] = parts[number][0], tuple(m for m in around[0] if m in around[1])
    return parts


def _without_cut_words(spans: Sequence[_Span], marker: str) -> list[_Span]:
    """Return spans without a format that begins or ends inside a word, where it would be none."""
    found, start = list(spans), 0
    while start < len(found):
        if marker not in found[start][1]:
            start += 1
            continue
        end = start
        while end < len(found) and marker in found[end][1]:
            end += 1
        before = found[start - 1][0][-1:] if start else ""
        after = found[end][0][:1] if end < len(found) else ""
        if before.isalnum() or after.isalnum():
            for number in range(start, end):
                text, formats = found[number]
                found[number] = text, tuple(each for each in formats if each != marker)
        start = end
    return found
