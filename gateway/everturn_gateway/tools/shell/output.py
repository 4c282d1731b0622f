"""What a command printed: kept within bounds, and as text. Pure."""

from __future__ import annotations

import codecs
from typing import Final

from everturn_gateway.late_loading import late_pattern

_ESCAPES: Final = late_pattern(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # device control strings and the like
    r"|[ -/]*[0-~]"  # the rest
    r")"
)
"Source: ECMA-48, 5th edition, sections 5.3 to 5.6; xterm's OSC ends with BEL as well."
_CONTROLS: Final = late_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CONTINUES: Final = range(0x80, 0xC0)  # bytes inside a UTF-8 sequence
_LONGEST_SEQUENCE: Final = 4  # bytes


class HeadAndTail:
    """The beginning and the end of a stream, at most `limit_bytes` together."""

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0, "something has to be kept"
        self._head_bytes = limit_bytes // 2
        self._tail_bytes = limit_bytes - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Take the next part of the stream."""
        self.total_bytes += len(data)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._tail_bytes :]
        # Cut now and then, not at each part: a cut moves what is kept.
        if len(self._tail) > 2 * self._tail_bytes:
            del self._tail[: -self._tail_bytes]

    @property
    def held_bytes(self) -> int:
        """How much of it is in memory now."""
        return len(self._head) + len(self._tail)

    def text(self) -> tuple[str, int]:
        r"""Return it as text, and how many bytes were left out of the middle.

        Bytes that are not UTF-8 become U+FFFD; NUL and other control characters and the escape
        sequences of terminals are taken out; line ends become `\n`.
        """
        head, tail = bytes(self._head), bytes(self._tail[-self._tail_bytes :])
        if len(head) + len(tail) >= self.total_bytes:
            return _plain(_decoded(head + tail)), 0
        # A character that the gap cuts in two belongs to the gap.
        head = head[: len(head) - _unfinished_bytes(head)]
        cut = 0
        while cut < min(_LONGEST_SEQUENCE - 1, len(tail)) and tail[cut] in _CONTINUES:
            cut += 1
        tail = tail[cut:]
        left_out = self.total_bytes - len(head) - len(tail)
        gap = f"\n\n[... {left_out:,} bytes are left out here ...]\n\n"
        return f"{_plain(_decoded(head))}{gap}{_plain(_decoded(tail))}", left_out


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _unfinished_bytes(data: bytes) -> int:
    """Return how many bytes at the end begin a character and do not complete it."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    decoder.decode(data[-_LONGEST_SEQUENCE:])
    return len(decoder.getstate()[0])


def _plain(text: str) -> str:
    text = _ESCAPES.sub("", text)
    # A progress bar goes back to the start of its line; on paper each state is a line of its own.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", text)
