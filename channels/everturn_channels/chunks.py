"""Cuts a text into pieces of at most a platform's size. Pure.

For platforms that take Markdown or plain text as it stands. Telegram and Discord have their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from itertools import takewhile
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct

Unit: TypeAlias = Literal["utf16", "characters", "bytes"]
"What a platform counts: UTF-16 code units, code points, or bytes of UTF-8."

LIMIT_LEAST: Final = 32
"The smallest limit: below it a code fence around a piece leaves no room for the piece."
_FENCE: Final = re.compile(r"^[ \t]*(`{3,}(?=[^`\n]*$)|~{3,})[^\n]*$", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"(?:[ \t]*\n)+")
_BLANK_ENDS: Final = re.compile(r"[ \t]*\Z")
_JOINER: Final = 0x200D
_EMOJI_TONES: Final = range(0x1F3FB, 0x1F400)
_TAGS: Final = range(0xE0020, 0xE0080)
_FLAG_LETTERS: Final = range(0x1F1E6, 0x1F200)
_JAMO_INSIDE: Final = range(0x1160, 0x1200)  # vowels and finals of a Korean syllable


class _Fence(Struct, frozen=True, kw_only=True):
    """A block of code."""

    start: int
    "Of the line that opens it."
    inside: int
    "Of its first line."
    end: int
    "Of the line that closes it; beyond the text where none does."
    after: int
    "What follows that line."
    opening: str
    "The line that opens it, repeated where it is cut."
    marker: str


def sendable(text: str) -> str:
    """Return a text without what no JSON can hold, and with one kind of line ends."""
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def measure(text: str, unit: Unit) -> int:
    """Return the size of a text in a platform's unit."""
    match unit:
        case "characters":
            return len(text)
        case "bytes":
            return len(text.encode("utf-8", "surrogatepass"))
        case "utf16":
            return len(text.encode("utf-16-le", "surrogatepass")) // 2
        case _:
            assert_never(unit)


def split_text(text: str, limit: int, unit: Unit, *, is_plain: bool = False) -> tuple[str, ...]:
    """Return a text in pieces of at most `limit` units each, in order.

    It is cut between paragraphs, else lines, else words, else characters as people see them; blanks
    at a cut are left out. A block of code that is cut is closed and opened again, unless
    `is_plain`. A text without anything to show gives none.

    Raises:
        ValueError: `limit` is below `LIMIT_LEAST`.
    """
    if limit < LIMIT_LEAST:
        msg = f"a piece has to hold at least {LIMIT_LEAST} units, not {limit}"
        raise ValueError(msg)
    text = text.replace("\r\n", "\n")
    return _Splitter(text, limit, unit, () if is_plain else _fences(text, limit, unit)).split()


class _Splitter:
    """Splits one text."""

    def __init__(self, text: str, limit: int, unit: Unit, fences: tuple[_Fence, ...]) -> None:
        self._text, self._limit = text, limit
        self._unit: Unit = unit
        self._fences = deque(fences)  # that are not wholly behind
        markers = [measure(fence.marker, unit) + 1 for fence in fences]
        self._closing_most = max(markers, default=0)

    def split(self) -> tuple[str, ...]:
        pieces, at = list[str](), 0
        while at < len(self._text):
            piece, at = self._piece(at)
            if piece:
                pieces.append(piece)
        return tuple(pieces)

    def _piece(self, at: int) -> tuple[str, int]:
        """Return the piece that begins at `at`, which may be empty, and where the next does."""
        text = self._text
        while self._fences and self._fences[0].after <= at:
            self._fences.popleft()
        within = self._fence_around(at, at)
        if within is None:
            at = self._past_blanks(at)
        before = within.opening + "\n" if within else ""
        room = self._limit - self._size(before)
        if len(text) - at <= room and self._size(text[at:]) <= room:
            rest = text[at:].rstrip()
            return (before + rest if rest else ""), len(text)
        end, following = self._cut(at, self._reach(at, room))
        cut = self._fence_around(end, following)
        if cut and self._size(text[at:end]) + self._size(cut.marker) + 1 > room:
            end, following = self._cut(at, self._reach(at, room - self._closing_most))
            cut = self._fence_around(end, following)
        if cut and following == cut.end:
            following = cut.after  # its own closing line is the one that is added here
        body = text[at:end] if cut else text[at:end].rstrip()
        if not body.strip():
            return "", following
        return before + body + ("\n" + cut.marker if cut else ""), following

    def _size(self, text: str) -> int:
        return measure(text, self._unit)

    def _past_blanks(self, at: int) -> int:
        found = _BLANK_LINES.match(self._text, at)
        at = found.end() if found else at
        return len(self._text) if _BLANK_ENDS.match(self._text, at) else at

    def _fence_around(self, end: int, following: int) -> _Fence | None:
        """Return the block of code in which one piece ends and the next begins."""
        for fence in self._fences:
            if fence.start >= following:
                break
            if fence.inside <= end and (following < fence.end or end < following == fence.end):
                return fence
        return None

    def _reach(self, at: int, room: int) -> int:
        """Return how far from `at` the text fits into `room`."""
        text = self._text
        low, high = at + 1, min(len(text), at + room)  # a code point has one unit at least
        if self._size(text[at:high]) <= room:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self._size(text[at:middle]) <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def _cut(self, at: int, reach: int) -> tuple[int, int]:
        """Return where a piece ends, at most at `reach`, and where the next one begins."""
        text, long = self._text, reach - at
        near = list(takewhile(lambda fence: fence.start <= reach, self._fences))
        for fence in near:  # neither the line that opens a block nor the one that closes it is cut
            if at < fence.start <= reach <= fence.inside:
                return fence.start - 1, fence.start
            if max(at, fence.inside) < fence.end <= reach < fence.after - 1:
                return fence.end - 1, fence.end
        paragraph = reach
        while (paragraph := text.rfind("\n\n", at, paragraph + 1)) > at + long // 2:
            if self._fence_around(paragraph, paragraph + 1) is None:
                return paragraph, paragraph + 1
        opened = {fence.inside for fence in near}
        line = reach + 1
        while (line := text.rfind("\n", at, line)) > at + long // 4:
            if line + 1 not in opened:
                return line, line + 1
        word = max(text.rfind(" ", at, reach + 1), text.rfind("\t", at, reach + 1))
        if word > at + long // 4 and not any(fence.start <= word < fence.inside for fence in near):
            return word, word + 1
        whole = reach
        while whole > at + 1 and _is_joined(text, whole):
            whole -= 1
        if _is_joined(text, whole):
            whole = reach  # one character, by its marks larger than a message
        return whole, whole


def _fences(text: str, limit: int, unit: Unit) -> tuple[_Fence, ...]:
    """Return the blocks of code of a text, but for those whose marks leave too little room."""
    found, opened = list[_Fence](), None
    for line in _FENCE.finditer(text):
        marker = line[1]
        if opened is None:
            if measure(marker, unit) < limit // 4 and measure(line[0], unit) < limit // 2:
                opened = line
        elif _closes(line[0], opened[1]):
            found.append(_fence(opened, line.start(), line.end() + 1, limit, unit))
            opened = None
    if opened is not None:
        found.append(_fence(opened, len(text) + 1, len(text) + 1, limit, unit))
    return tuple(found)


def _closes(line: str, marker: str) -> bool:
    found = line.strip()
    return len(found) >= len(marker) and not found.strip(marker[0])


def _fence(opened: re.Match[str], end: int, after: int, limit: int, unit: Unit) -> _Fence:
    line, marker = opened[0], opened[1]
    return _Fence(
        start=opened.start(),
        inside=opened.end() + 1,
        end=end,
        after=after,
        opening=line if measure(line, unit) < limit // 4 else marker,
        marker=marker,
    )


def _is_joined(text: str, at: int) -> bool:
    """Return whether the code points around `at` belong to one character as people see it.

    What is commonly met of Unicode's rules: marks, variation and skin tones, joined emoji, flags,
    Korean letters. Source: https://www.unicode.org/reports/tr29/ (grapheme cluster boundaries).
    """
    before, after = ord(text[at - 1]), ord(text[at])
    if before in _FLAG_LETTERS and after in _FLAG_LETTERS:
        first = at
        while first and ord(text[first - 1]) in _FLAG_LETTERS:
            first -= 1
        return (at - first) % 2 == 1
    return (
        _JOINER in {before, after}
        or after in _EMOJI_TONES
        or after in _TAGS
        or after in _JAMO_INSIDE
        or unicodedata.category(text[at]) in {"Mn", "Me", "Mc"}
    )
