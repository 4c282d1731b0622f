"""What others wrote, made fit to be shown: names in one line, texts that hide nothing. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

NAME_LIMIT: Final = 64  # characters; the longest that Telegram and Discord allow, and a full line

_SWAPS: Final = str.maketrans({"[": "(", "]": ")", '"': "'"})
# Takes part in no emoji and no script's spelling, but can hide or turn round what stands beside it;
# the two joiners (U+200C, U+200D) stay where letters stand around them.
_JOINERS: Final = frozenset("\u200c\u200d")
# Shown as nothing, though Unicode counts them as letters and signs.
_BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f")
_MARKS_MAX: Final = 4  # combining marks on one letter; no script needs more, "zalgo" text does
_CONTROLS: Final = {c: None for c in (*range(32), *range(0x7F, 0xA0)) if chr(c) not in "\n\t"}


def one_line(text: str, limit: int = NAME_LIMIT) -> str:
    """Return `text` in one line of at most `limit` characters, without what could mislead.

    Line breaks and runs of spaces become one space. Control characters, marks of writing direction
    and characters that show nothing go. Square brackets become round ones, and `"` becomes `'`, so
    that it can end neither a `[line]` of ours nor a quotation in it.
    """
    kept: list[str] = []
    marks = 0
    for char in text[: limit * 8]:  # enough for the rest, whatever is left out
        kind = unicodedata.category(char)
        marks = marks + 1 if kind in {"Mn", "Me"} else 0
        if kind[0] == "Z" or char in "\t\n\r\v\f\x1c\x1d\x1e\x85":
            kept.append(" ")
        elif char in _BLANKS or marks > _MARKS_MAX or kind in {"Cc", "Cs", "Cn", "Co"}:
            continue
        elif kind != "Cf" or (char in _JOINERS and kept and kept[-1] not in " \u200c\u200d"):
            kept.append(char)
    line = " ".join("".join(kept).split()).translate(_SWAPS).strip("\u200c\u200d ")
    if len(line) <= limit and len(text) <= limit * 8:
        return line
    return line[: limit - 1].rstrip("\u200c\u200d ") + "…"


def visible(text: str) -> str:
    """Return a text in which nothing is hidden: what cannot be seen is written as its number.

    Whoever decides by it must not be shown something else than what is meant, as direction marks
    and characters without width can make them.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else f"\\u{ord(each):04x}" for each in text
    )


def clean(text: str) -> str:
    """Take out what would make a terminal do something: escape and other control characters."""
    return text.translate(_CONTROLS)
