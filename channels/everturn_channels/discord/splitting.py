"""Lines with formatting, packed into messages of bounded size. Pure.

What is cut is the parsed text: each message closes what it leaves open, and the next opens it
again - code blocks with their language, bold text, links, quotes and lists.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

_CLUSTER_CHARS = 32
"No visible character is longer; where one is, it is cut."
_ZERO_WIDTH_JOINER = "\u200d"


class Style(Struct, frozen=True):
    """What stands around formatted text."""

    opens: str
    closes: str


class Span(Struct, frozen=True):
    """Text of one formatting; `styles` from the outside in."""

    text: str
    styles: tuple[Style, ...] = ()


class Fence(Struct, frozen=True, eq=False):
    """A code block; two are never the same one."""

    opens: str
    reopens: str
    "Its first line in a later message."
    closes: str


class Line(Struct, frozen=True):
    """A line of a message."""

    spans: tuple[Span, ...] = ()
    first: str = ""
    "What stands before it: the marks of quotes, lists, headings."
    rest: str = ""
    "The same where it goes on in a later message."
    fence: Fence | None = None
    is_gap: bool = False
    "An empty line, left out at the ends of a message."
    is_boundary: bool = False
    "Whether a message ends well before it."
    begins_fence: bool = False
    "Whether it is the first of its code block."


def units(text: str) -> int:
    """Return the size of a text in UTF-16 units, at least what Discord counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def pack(lines: Iterable[Line], limit_units: int) -> tuple[str, ...]:
    """Return messages of at most so many units that show the lines, in order.

    A message ends between blocks where it is at least half full then, else between lines, else
    between words. `limit_units` is far above the size of marks, fences and styles of one line.
    """
    waiting = deque(lines)
    chunk = _Chunk(limit_units)
    found: list[str] = []
    while waiting:
        line = waiting.popleft()
        if chunk.fits(line):
            chunk.add(line)
            continue
        # A block is not torn where its beginning can go along into the next message.
        moved = chunk.give_back()
        if moved:
            waiting.appendleft(line)
            waiting.extendleft(reversed(moved))
        # A line that fits into a message is not cut for the sake of a fuller one.
        elif chunk.is_half_full and _Chunk(limit_units).fits(line):
            waiting.appendleft(line)
        else:
            head, tail = _cut(line, chunk.room_for(line))
            if head is not None:
                chunk.add(head)
            elif chunk.is_empty:
                return ()  # no room for anything: the caller has to do without formatting
            waiting.appendleft(tail)
        found.append(chunk.text())
        chunk = _Chunk(limit_units)
    found.append(chunk.text())
    return tuple(text for text in found if has_something(text))


def has_something(text: str) -> bool:
    """Whether there is anything to see."""
    return any(c.isprintable() and not c.isspace() for c in text)


class _Chunk:
    """A message that is being filled."""

    def __init__(self, limit_units: int) -> None:
        self._limit = limit_units
        self._lines: list[Line] = []
        self._size = 0
        "Without the end of an open code block."

    @property
    def is_empty(self) -> bool:
        return not self._lines

    @property
    def is_half_full(self) -> bool:
        return self._size >= self._limit // 2

    def fits(self, line: Line) -> bool:
        return self._base(line) + units(render_line(line)) <= self._limit

    def room_for(self, line: Line) -> int:
        """Return the units that are left for a line itself, its marks included."""
        return self._limit - self._base(line)

    def add(self, line: Line) -> None:
        # Discord shows no empty lines at the head of a message.
        if self.is_empty and line.is_gap:
            return
        closing = units(line.fence.closes) + 1 if line.fence else 0
        self._size = self._base(line) + units(render_line(line)) - closing
        self._lines.append(line)

    def _base(self, line: Line) -> int:
        """Return the size of all but the line itself, were it added."""
        size, before = self._size, self._lines[-1] if self._lines else None
        old = before.fence if before else None
        size += 1 if before else 0
        # Each message closes what it opened: a fence does not reach into the next one.
        if old is not line.fence:
            size += units(old.closes) + 1 if old else 0
            size += max(units(line.fence.opens), units(line.fence.reopens)) + 1 if line.fence else 0
        return size + (units(line.fence.closes) + 1 if line.fence else 0)

    def give_back(self) -> list[Line]:
        """Take off the lines after the last boundary in the second half, and return them."""
        size = 0
        best = 0
        for number, line in enumerate(self._lines):
            if line.is_boundary and size >= self._limit // 2:
                best = number
            size += units(render_line(line)) + 1
        moved = self._lines[best:] if best else []
        del self._lines[len(self._lines) - len(moved) :]
        return moved

    def text(self) -> str:
        lines = list(self._lines)
        while lines and lines[-1].is_gap:
            lines.pop()
        shown: list[str] = []
        fence: Fence | None = None
        for line in lines:
            if line.fence is not fence:
                if fence is not None:
                    shown.append(fence.closes)
                fence = line.fence
                if fence is not None:
                    shown.append(fence.opens if line.begins_fence else fence.reopens)
            shown.append(render_line(line))
        if fence is not None:
            shown.append(fence.closes)
        return "\n".join(shown)


def render_line(line: Line) -> str:
    """Return a line with its marks and formatting."""
    parts = [line.first]
    stack: tuple[Style, ...] = ()
    for span in line.spans:
        if not span.text:
            continue
        same = _same(stack, span.styles)
        parts += [s.closes for s in reversed(stack[same:])]
        parts += [s.opens for s in span.styles[same:]]
        parts.append(span.text)
        stack = span.styles
    parts += [s.closes for s in reversed(stack)]
    return "".join(parts)


def _same(one: Sequence[Style], other: Sequence[Style]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _cut(line: Line, room: int) -> tuple[Line | None, Line]:
    """Return as much of a line as has room, and the rest; None where none of it has."""
    room -= units(line.first)
    end = _furthest(line.spans, room)
    # In code blanks mean something: there it is cut where it is full.
    if line.fence is None:
        end = _last_space(line.spans, end) or end
    head, tail = _divide(line.spans, end, is_text=line.fence is None)
    if not any(s.text for s in head):
        return None, line
    rest = replace(line, spans=tail, first=line.rest, begins_fence=False)
    return replace(line, spans=head), rest


def _furthest(spans: Sequence[Span], room: int) -> tuple[int, int]:
    """Return the span and the place in it up to which text has room; styles count for each."""
    for number, span in enumerate(spans):
        around = sum(units(s.opens) + units(s.closes) for s in span.styles)
        size = units(span.text)
        if around + size > room:
            return number, _whole_characters(span.text, room - around)
        room -= around + size
    return len(spans), 0


def _whole_characters(text: str, room: int) -> int:
    """Return how many code points have room; no visible character is cut where that can be."""
    end = max(0, min(len(text), room))
    # Halved, not stepped: a text of emoji has two units for each.
    while end and units(text[:end]) > room:
        end -= max(1, (units(text[:end]) - room) // 2)
    for back in range(min(_CLUSTER_CHARS, end)):
        if not _joins(text, end - back):
            return end - back
    return end


def _joins(text: str, place: int) -> bool:
    """Whether the characters at both sides of a place are shown as one."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    # A family of emoji falls apart into its people.
    if _ZERO_WIDTH_JOINER in (before, after):
        return True
    if unicodedata.category(after) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    # Two letters are a flag: which of a row belong together depends on where the row begins.
    if _is_flag_letter(after) and _is_flag_letter(before):
        start = place
        while start and _is_flag_letter(text[start - 1]):
            start -= 1
        return (place - start) % 2 == 1
    return before == "\r" and after == "\n"


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _last_space(spans: Sequence[Span], end: tuple[int, int]) -> tuple[int, int] | None:
    """Return the last place between words before an end, unless that leaves little."""
    last, place = end
    size = sum(len(s.text) for s in spans[:last]) + place
    seen = 0
    for number in range(min(last, len(spans) - 1), -1, -1):
        text = spans[number].text
        stop = place if number == last else len(text)
        if number == last and stop < len(text) and text[stop].isspace():
            return number, stop
        for at in range(stop - 1, -1, -1):
            seen += 1
            # A message of half its size, for the sake of one word, costs more than a cut word.
            if seen > size // 2:
                return None
            if text[at].isspace():
                return number, at
    return None


def _divide(
    spans: Sequence[Span], end: tuple[int, int], *, is_text: bool
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return spans up to a place, and those behind it; blanks at the cut go."""
    last, place = end
    head, tail = list(spans[:last]), list(spans[last:])
    if tail:
        span = tail[0]
        head.append(replace(span, text=span.text[:place]))
        tail[0] = replace(span, text=span.text[place:])
    if is_text:
        head, tail = _trim_end(head), _trim_start(tail)
    return tuple(s for s in head if s.text), tuple(s for s in tail if s.text)


def _trim_end(spans: list[Span]) -> list[Span]:
    while spans and not spans[-1].text.strip():
        spans.pop()
    if spans:
        spans[-1] = replace(spans[-1], text=spans[-1].text.rstrip())
    return spans


def _trim_start(spans: list[Span]) -> list[Span]:
    while spans and not spans[0].text.strip():
        spans.pop(0)
    if spans:
        spans[0] = replace(spans[0], text=spans[0].text.lstrip())
    return spans
