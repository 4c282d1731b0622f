"""Pages of a text file, with the numbers of its lines. Pure."""

from __future__ import annotations

import codecs
from typing import Final

from msgspec import Struct

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.recall.pages import character_start
from everturn_gateway.tools.wording import counted, shown

PAGE_CHARACTERS: Final = 20_000
PAGE_TOKENS: Final = 5_000  # with the numbers of its lines, below a result's cap of 8,000
LINES_MAX: Final = 800
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class LineRange(Struct, frozen=True, kw_only=True):
    """Which part of a file is wanted."""

    line: int = 1
    lines: int = LINES_MAX
    column: int = 1
    "Where to begin in that line, in characters from 1."


def decode(path: str, data: bytes) -> tuple[str, bool]:
    r"""Return the text of a file, and whether it was UTF-8.

    Bytes that are not are shown as `\xff`; a byte order mark is left out.

    Raises:
        ToolFailedError: It is no text.
    """
    if b"\0" in data:
        is_utf16 = data.startswith(_UTF16)
        what = "text in UTF-16" if is_utf16 else "binary"
        msg = f"{shown(path)} is {what} ({counted(len(data), 'byte')}), not text in UTF-8"
        raise ToolFailedError(msg)
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode(), True
    except UnicodeDecodeError:
        return data.decode(errors="backslashreplace"), False


def page(path: str, text: str, wanted: LineRange, *, notes: tuple[str, ...] = ()) -> str:
    """Return one page of a text: which lines these are, the lines, and where to go on.

    Raises:
        ToolFailedError: It has no such line.
    """
    total = text.count("\n") + (not text.endswith("\n"))
    if not text:
        return f"{shown(path)} is empty"
    begin = _place(path, text, wanted, total)
    end = _end(text, begin, wanted.lines)
    part = text[begin:end]
    lines = part.removesuffix("\n").split("\n")
    last = wanted.line + len(lines) - 1
    rows = [f"{wanted.line + n}\t{line.removesuffix(chr(13))}" for n, line in enumerate(lines)]
    return "\n".join(
        (
            _heading(path, wanted, last, total),
            *(f"({note})" for note in notes),
            *rows,
            *_goes_on(text, end, last),
        )
    )


def _heading(path: str, wanted: LineRange, last: int, total: int) -> str:
    which = f"line {last}" if last == wanted.line else f"lines {wanted.line}-{last}"
    column = f" from column {wanted.column}" if wanted.column > 1 else ""
    return f"{shown(path)}, {which}{column} of {total:,}:"


def _place(path: str, text: str, wanted: LineRange, total: int) -> int:
    """Return where in a text the wanted part begins."""
    if wanted.line > total:
        msg = f"offset: {shown(path)} has {counted(total, 'line')}; there is no line {wanted.line}"
        raise ToolFailedError(msg)
    begin = 0
    for _ in range(wanted.line - 1):
        begin = text.index("\n", begin) + 1
    end = text.find("\n", begin)
    length = (len(text) if end < 0 else end) - begin
    if wanted.column > max(length, 1):
        msg = f"column: line {wanted.line} has {counted(length, 'character')}"
        raise ToolFailedError(msg)
    return begin + wanted.column - 1


def _end(text: str, begin: int, lines: int) -> int:
    """Return where the page that begins at `begin` ends: after a line, or in a long one."""
    end = begin
    for _ in range(lines):
        found = text.find("\n", end)
        end = len(text) if found < 0 else found + 1
        if end - begin > PAGE_CHARACTERS or found < 0:
            break
    end = min(end, begin + PAGE_CHARACTERS)
    most = PAGE_TOKENS * UNITS_PER_TOKEN
    while text_units(text[begin:end]) > most:
        end = begin + (end - begin) * 3 // 4
    if end == len(text):
        return end
    line_end = text.rfind("\n", begin, end)
    return line_end + 1 if line_end >= 0 else character_start(text, end, begin + 1)


def _goes_on(text: str, end: int, last: int) -> tuple[str, ...]:
    if end >= len(text):
        return ()
    if text[end - 1] == "\n":
        return (f"(goes on: offset={last + 1})",)
    column = end - (text.rfind("\n", 0, end) + 1) + 1
    return (f"(this line goes on: offset={last}, column={column})",)
