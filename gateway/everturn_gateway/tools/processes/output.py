"""Reads what a process printed, as text for a model. Blocking: call it in a worker thread.

The supervisor process keeps the first piece of it and the newest ones; what is missing in between
is said.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from everturn_gateway.tools.processes.supervisor import folder as supervisor_folder

PAGE_CHARACTERS: Final = 30_000
_LINE_CHARACTERS: Final = 2_000  # what is longer is shortened: one line must not be the whole page

_PIECE: Final = re.compile(re.escape(supervisor_folder.OUTPUT) + r"(\d+)\.(\d+)")
_ESCAPES: Final = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    rb"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and other strings: titles, links
    rb"|[ -/]*[0-~]"  # two-character sequences, character sets
    rb")"
)
_INVISIBLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Line(Struct, frozen=True, kw_only=True):
    """One line of output, or a note of what is missing there."""

    number: int
    "Counts from 0; of a note: where what is missing ends."
    text: str


class Output(Struct, frozen=True, kw_only=True):
    """What is kept of the output."""

    lines: tuple[Line, ...]
    total: int
    "How many lines were printed in all."

    def page(self, offset: int, limit: int, characters: int = PAGE_CHARACTERS) -> tuple[Line, ...]:
        """Return up to `limit` lines from number `offset` on, as many as fit."""
        found: list[Line] = []
        for line in self.lines:
            if line.number < offset:
                continue
            characters -= len(line.text) + 1
            if found and (len(found) == limit or characters < 0):
                break
            found.append(line)
        return tuple(found)

    def last(self, limit: int, characters: int = PAGE_CHARACTERS) -> tuple[Line, ...]:
        """Return the newest lines, `limit` at most, as many as fit; oldest first."""
        found: list[Line] = []
        for line in reversed(self.lines):
            characters -= len(line.text) + 1
            if found and (len(found) == limit or characters < 0):
                break
            found.append(line)
        return tuple(reversed(found))


def read_output(folder: Path) -> Output:
    """Return what is kept of the output of a process that may still be writing."""
    lines: list[Line] = []
    held, end, number = b"", 0, 0
    for offset, first_line, path in _pieces(folder):
        try:
            data = path.read_bytes()
        except OSError:  # it has just made room for a newer one
            continue
        if offset > end:
            lines += _lines(number, held)
            note = f"[... {offset - end:,} bytes are not kept ...]"
            lines.append(Line(number=first_line, text=note))
            held, number = b"", first_line
        held += data
        end = offset + len(data)
    lines += _lines(number, held)
    return Output(lines=tuple(lines), total=lines[-1].number + 1 if lines else 0)


def output_size(folder: Path) -> int:
    """Return how many bytes were printed in all."""
    newest = max(_pieces(folder), default=None)
    if newest is None:
        return 0
    offset, _, path = newest
    try:
        return offset + path.stat().st_size
    except OSError:
        return offset


def readable(line: bytes) -> str:
    """Return a line as a terminal leaves it: without escapes, and what was written over it last."""
    plain = _ESCAPES.sub(b"", line).rstrip(b"\r")
    return _INVISIBLE.sub("", plain.rpartition(b"\r")[2].decode(errors="replace"))


def text_of(lines: tuple[Line, ...]) -> str:
    """Return lines as one text."""
    return "\n".join(line.text for line in lines)


def _pieces(folder: Path) -> list[tuple[int, int, Path]]:
    """Return the kept pieces, oldest first: first byte, lines before it, file."""
    try:
        found = [(_PIECE.fullmatch(path.name), path) for path in folder.iterdir()]
    except OSError:  # somebody removed it
        return []
    return sorted((int(match[1]), int(match[2]), path) for match, path in found if match)


def _lines(first: int, data: bytes) -> list[Line]:
    if not data:
        return []
    parts = data.split(b"\n")
    if not parts[-1]:
        parts.pop()
    return [
        Line(number=number, text=_short(readable(part))) for number, part in enumerate(parts, first)
    ]


def _short(text: str) -> str:
    if len(text) <= _LINE_CHARACTERS:
        return text
    half = _LINE_CHARACTERS // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters ...] {text[-half:]}"
