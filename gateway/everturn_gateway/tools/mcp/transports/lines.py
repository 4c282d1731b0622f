"""Messages on a stream of bytes, one a line: cut, bounded, and read without a long pause. Pure.

The event loop stands still while a message is read, so its size is bounded, and how much is in it.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

LINE_BYTES: Final = 4 * 1024 * 1024  # of one message: read in 7 ms where it is mostly text
FLOOD_BYTES: Final = 64 * 1024 * 1024  # of a line that nobody ends
VALUES_MOST: Final = 50_000  # texts in one message; so many take 10 ms
ENDS_BYTES: Final = 256
_FIRST_ID: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,')
_LAST_ID: Final = re.compile(rb'"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class Oversized(Struct, frozen=True, kw_only=True):
    """What is left of a line that is longer than any may be."""

    head: bytes
    tail: bytes

    @property
    def request_id(self) -> int | None:
        """The request that the line answers, where that can be seen."""
        return answered(self.head, self.tail)


class FloodError(Exception):
    """A line does not end."""


class Lines:
    """Cuts a stream into lines, and holds no more of one than may be in it."""

    def __init__(self, limit_bytes: int = LINE_BYTES) -> None:
        self._limit = limit_bytes
        self._begun = bytearray()
        self._head: bytes | None = None
        "Of a line that is too long; the end of it is in `_begun`."
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes | Oversized]:
        """Return the lines that end in `chunk`, without their ends.

        Raises:
            FloodError: A line is so long that its end is not waited for.
        """
        found: list[bytes | Oversized] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._more(end)
            found.append(self._line())
        self._more(rest)
        return found

    def _more(self, part: bytes) -> None:
        self._size += len(part)
        self._begun += part
        if self._size > FLOOD_BYTES:
            raise FloodError
        if self._size > self._limit:
            if self._head is None:
                self._head = bytes(self._begun[:ENDS_BYTES])
            del self._begun[:-ENDS_BYTES]

    def _line(self) -> bytes | Oversized:
        begun, head = bytes(self._begun), self._head
        self._begun, self._head, self._size = bytearray(), None, 0
        return begun if head is None else Oversized(head=head, tail=begun)


def answered(head: bytes, tail: bytes) -> int | None:
    """Return the id of the request that a message answers, by its first and last bytes."""
    found = _FIRST_ID.search(head) or _LAST_ID.search(tail)
    return int(found[1]) if found else None


def holds_too_much(data: bytes) -> bool:
    """Return whether a message of JSON holds more texts than are read at once.

    Quotes are counted, which is a hundred times as fast as reading; those inside a text are
    escaped, so that a text may hold as much JSON as it likes.
    """
    return text_marks(data) > 2 * VALUES_MOST


def text_marks(data: bytes) -> int:
    """Return how many quotes stand around texts in a piece of JSON; about right where it is cut."""
    return data.count(b'"') - data.count(b'\\"')
