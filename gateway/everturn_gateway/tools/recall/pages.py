"""Long texts in pages. Pure.

Pages put together are the text. Where one ends follows from what stands before that place, so a
page stays what it is while the text grows.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from typing import Final

from msgspec import Struct

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units

PAGE_CHARACTERS: Final = 6_000  # at 4 bytes each, 24,000: below a result's cap of 8,000 tokens
_LOOK_BACK_CHARACTERS = 40  # for the beginning of a character; the longest emoji has 10 parts
_ZERO_WIDTH_JOINER = "\u200d"


class PageSize(Struct, frozen=True, kw_only=True):
    """What a page may be at most."""

    tokens: int
    "As they are estimated."
    characters: int


PAGE: Final = PageSize(tokens=PAGE_CHARACTERS, characters=PAGE_CHARACTERS)


class Page(Struct, frozen=True, kw_only=True):
    """One page of a text."""

    text: str
    number: int
    "From 1."
    total: int
    "How many pages there are."


class Pager:
    """Cuts a text that comes in pieces, and keeps one page of it."""

    def __init__(self, number: int, limit: PageSize) -> None:
        """Keep page `number`."""
        self._number, self._limit = number, limit
        self._kept = self._rest = ""
        self._full = 0

    def add(self, piece: str) -> None:
        """Add the next piece of the text."""
        text, begin = self._rest + piece, 0
        while (end := page_end(text, begin, self._limit)) < len(text):
            self._turn_over(text[begin:end])
            begin = end
        self._rest = text[begin:]

    def page(self) -> Page | None:
        """Return the page, now that the text is complete; None where it has fewer pages."""
        total = self._full + 1
        if self._number > total:
            return None
        text = self._rest if self._number == total else self._kept
        return Page(text=text, number=self._number, total=total)

    @property
    def total(self) -> int:
        """How many pages there are so far."""
        return self._full + 1

    def _turn_over(self, text: str) -> None:
        self._full += 1
        if self._full == self._number:
            self._kept = text


def page_end(text: str, begin: int, limit: PageSize) -> int:
    """Return where the page that begins at `begin` ends: after a line, a word, or a character."""
    end = min(begin + limit.characters, len(text))
    most = limit.tokens * UNITS_PER_TOKEN
    if text_units(text[begin:end]) > most:
        sizes = range(end - begin)
        fits = bisect_right(sizes, most, key=lambda size: text_units(text[begin : begin + size]))
        end = begin + max(fits - 1, 1)
    if end >= len(text):
        return end
    middle = begin + (end - begin) // 2
    for mark in ("\n", " "):
        found = text.rfind(mark, middle, end)
        if found >= 0:
            return found + 1
    return character_start(text, end, begin + 1)


def page_of(text: str, position: int, limit: PageSize) -> int:
    """Return the number of the page on which a position of `text` stands."""
    number, begin = 1, 0
    while (end := page_end(text, begin, limit)) <= position and end < len(text):
        number, begin = number + 1, end
    return number


def character_start(text: str, at: int, least: int = 0) -> int:
    """Return the nearest place at or before `at` where a character as people see it begins.

    Not below `least`. Accents, joined emoji, flags and line ends of two characters stay whole.
    """
    lowest = max(least, at - _LOOK_BACK_CHARACTERS)
    found = at
    floor = max(least - 1, 0)
    while found > lowest and _goes_on(text, found, floor):
        found -= 1
    return at if found == lowest and _goes_on(text, found, floor) else found


def _goes_on(text: str, at: int, floor: int) -> bool:
    """Say whether the character at `at` belongs to the one before it, looking back to `floor`."""
    if not 0 < at < len(text):
        return False
    here, before = text[at], text[at - 1]
    if here.isascii():
        return here == "\n" and before == "\r"
    return (
        _ZERO_WIDTH_JOINER in {before, here}
        or unicodedata.category(here)[0] == "M"  # accents, and what chooses a form of an emoji
        or "\U0001f3fb" <= here <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= here <= "\U000e007f"  # tags, of which some flags are made
        or "\u1160" <= here <= "\u11ff"  # later parts of a Hangul syllable
        or (_is_half_flag(here) and _half_flags(text, at, floor) % 2 == 1)
    )


def _is_half_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _half_flags(text: str, at: int, floor: int) -> int:
    """Return how many halves of flags stand directly before `at`, from `floor` on."""
    begin = at
    while begin > floor and _is_half_flag(text[begin - 1]):
        begin -= 1
    return at - begin
