"""Replaces text in a text. Pure."""

from __future__ import annotations

import difflib
import re

from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.wording import shown

_NUMBERED = re.compile(r"^\s*\d+\t", re.MULTILINE)
_COMPARED_LINES = 2000
_COMPARED_CHARACTERS = 200
_QUOTED_CHARACTERS = 120
NAMED_LINES = 10


class Edited(Struct, frozen=True, kw_only=True):
    """A text with something replaced."""

    text: str
    count: int
    "In how many places."
    lines: tuple[int, ...]
    "The lines of the first `NAMED_LINES` of them, in the old text, from 1."


def edit(path: str, text: str, old: str, new: str, *, every: bool) -> Edited:
    r"""Return `text` with `old` replaced by `new`.

    In a text whose lines end in `\r\n`, `\n` stands for that, in `old` and `new`.

    Raises:
        ToolFailedError: `old` is not there, or in several places and not `every` one is meant.
    """
    if not old:
        msg = "old_text: is empty; to write a whole file use write_file"
        raise ToolFailedError(msg)
    if old == new:
        msg = "new_text: is the same as old_text; nothing to do"
        raise ToolFailedError(msg)
    if old not in text and "\r\n" in text:
        old, new = _crlf(old), _crlf(new)
    first = text.find(old)
    if first < 0:
        raise ToolFailedError(_not_there(path, text, old))
    count, lines = text.count(old), _lines(text, old)
    if not every and text.find(old, first + 1) >= 0:
        more = ", …" if count > len(lines) else ""
        msg = (
            f"old_text stands {max(count, 2)} times in {shown(path)}"
            f" (lines {', '.join(map(str, lines))}{more});"
            " give more of what stands around the one you mean, or replace_all=true"
        )
        raise ToolFailedError(msg)
    return Edited(text=text.replace(old, new), count=count, lines=lines)


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines(text: str, old: str) -> tuple[int, ...]:
    """Return in which lines the first places stand."""
    lines: list[int] = []
    line, before, at = 1, 0, text.find(old)
    while at >= 0 and len(lines) < NAMED_LINES:
        line += text.count("\n", before, at)
        before = at
        lines.append(line)
        at = text.find(old, at + len(old))
    return tuple(lines)


def _not_there(path: str, text: str, old: str) -> str:
    """Return that `old` is not there, and what is likely to be the reason."""
    msg = f"old_text is not in {shown(path)}"
    plain = _NUMBERED.sub("", old)
    if plain != old and plain in text:
        return f"{msg}: leave out the line numbers and the tab after each"
    number, line = _nearest(text, old)
    if not number:
        return f"{msg}; read the file and copy the text exactly"
    quoted = line if len(line) <= _QUOTED_CHARACTERS else f"{line[:_QUOTED_CHARACTERS]}…"
    return f"{msg}; nearest is line {number}: {quoted!r}. Copy the text exactly, blanks included"


def _nearest(text: str, old: str) -> tuple[int, str]:
    """Return the line most like the first one of `old` that says something; 0 = none is."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    wanted = wanted[:_COMPARED_CHARACTERS]
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if wanted and " ".join(wanted.split()) in " ".join(line.split()):
            return number, line.removesuffix("\r")
    plain: dict[str, int] = {}
    for number, line in enumerate(lines[:_COMPARED_LINES], 1):
        plain.setdefault(line.strip()[:_COMPARED_CHARACTERS], number)
    found = difflib.get_close_matches(wanted, plain, n=1) if wanted else []
    if not found:
        return 0, ""
    return plain[found[0]], lines[plain[found[0]] - 1].removesuffix("\r")
