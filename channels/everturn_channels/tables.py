"""Tables of Markdown: written, and as lines of code for platforms that show none. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_CELLS_MAX: Final = 2_000
_COLUMN_MAX: Final = 60  # characters to which shorter cells are filled up
FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_BAR: Final = re.compile(r"(?<!\\)\|")
_DASHES: Final = re.compile(r":?-+:?")


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    r"""Return a table, whose first row is its head; empty = it has no cell.

    Cells are lines in which a bar is `\|`; a row that is short is filled up.

    >>> print(markdown_table([["a", "b"], ["1"]]))
    | a | b |
    | --- | --- |
    | 1 |  |
    """
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    return "\n".join((lines[0], f"|{' --- |' * width}", *lines[1:]))


def without_tables(text: str) -> str:
    """Return a text with its tables as code, in columns."""
    if "|" not in text:
        return text
    lines, found, fence, at = text.split("\n"), list[str](), "", 0
    while at < len(lines):
        line = lines[at]
        if marker := FENCE.match(line):
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
