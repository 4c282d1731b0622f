"""Quotes and lists that are open while Markdown is read: what stands before each line in them."""

from __future__ import annotations

from markdown_it.token import Token
from msgspec import Struct


class Box(Struct):
    """A quote or an item of a list that is open."""

    first: str
    "Before its first line."
    rest: str
    "Before all others."
    is_used: bool = False
    "Whether its first line was written."


class Boxes:
    """Those that are open, outermost first."""

    def __init__(self) -> None:
        self._open: list[Box] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def open_quote(self, mark: str) -> None:
        """Open a quote, whose lines all have the same mark."""
        self._open.append(Box(mark, mark))

    def open_item(self, mark: str) -> None:
        """Open an item of a list; its further lines stand below the text of the first."""
        self._open.append(Box(mark, " " * len(mark)))

    def close(self) -> None:
        """Close the innermost."""
        self._open.pop()

    def has_quote(self, mark: str) -> bool:
        """Whether one with this mark is open."""
        return any(box.first == mark for box in self._open)

    def marks(self) -> str:
        """Return what stands before the next line, which is then written."""
        # The bullet of an item stands once; all else of it is indented below.
        marks = "".join(box.rest if box.is_used else box.first for box in self._open)
        for box in self._open:
            box.is_used = True
        return marks

    def rest(self) -> str:
        """Return what stands before a line that goes on."""
        return "".join(box.rest for box in self._open)

    def begun(self, mark: str) -> str:
        """Return the marks of the quotes with this mark in which something was written."""
        return "".join(box.rest for box in self._open if box.is_used and box.rest == mark)


def is_apart(token: Token, source: list[str]) -> bool:
    """Return whether an empty line stands above a block, be it in a quote."""
    start = token.map[0] if token.map else 0
    # At the very top there is no line above, and nothing to be apart from.
    return start > 0 and not source[start - 1].strip(" \t>")
