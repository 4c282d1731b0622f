"""Markdown as Telegram shows it: text with entities, cut into messages that fit. Pure.

A payload is a JSON object with `text` and `entities`. Telegram counts in UTF-16 units, so offsets,
lengths and limits here do.
"""

from __future__ import annotations

import dataclasses
import json
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, takewhile
from typing import Final, cast

import pyromark
from telegramify_markdown import MessageEntity, RenderConfig, convert
from telegramify_markdown.converter import STANDARD_OPTIONS

from everturn_channels.ingestion.json_fields import object_of, text_of
from everturn_channels.languages import marked, said

TEXT_UNITS: Final = 4096
"""The longest text of a message.

Source: https://core.telegram.org/bots/api#sendmessage, "1-4096 characters after entities parsing".
"""
ENTITIES_MAX: Final = 100
"""Telegram formats no more of a message than this, and leaves the rest as it is.

Source: MAX_MESSAGE_ENTITIES of docs.python-telegram-bot.org, found by experiment; read 2026-11-22.
"""
REPEAT_LABEL: Final = marked("(This may be a repeat.)")
LABEL_UNITS: Final = 60  # that it may have in any language
"What stands above a message that may be there already."
CHUNK_UNITS: Final = TEXT_UNITS - LABEL_UNITS - 1
"The longest chunk: the label and its line end always fit above it."

# Beyond these a text goes as it stands: converting it would hold up everybody else.
_MARKDOWN_CHARS_MAX: Final = 60_000
_MARKS_MAX: Final = 10_000  # about 25 ms of work
_LATEX_MAX: Final = 100  # brackets that are never closed cost the square of their number
_GROWTH_MAX: Final = 4  # deep lists become indentation, the square of their depth
_LIST_DEPTH: Final = re.compile(r"^[ \t]*(?:(?:[-*+>]|\d{1,9}[.)])[ \t]*){40}", re.MULTILINE)
_DEEP_INDENT: Final = re.compile(r"^[ \t]{80,}(?:[-*+>]|\d{1,9}[.)])", re.MULTILINE)
_MARKS: Final = re.compile(r"[*_~`|\[\]<>$#\\!]")

_SPECIAL: Final = re.compile(r"[\\`*_~\[\]<>$]")
_LINK: Final = re.compile(r"(?:https?|tg|mailto|tel|ftp)://?|(?:mailto|tel):", re.IGNORECASE)
_CODES: Final = frozenset(("code", "pre"))
_CLUSTER_MAX: Final = 64  # characters; nothing that people write as one sign is longer
_ZWJ: Final = "\u200d"


def _symbols() -> RenderConfig:
    config = RenderConfig.isolated()
    symbol = config.markdown_symbol
    symbol.heading_level_1 = symbol.heading_level_2 = ""
    symbol.heading_level_3 = symbol.heading_level_4 = ""
    symbol.task_uncompleted = "\N{BALLOT BOX}"
    symbol.unordered_list_item = "\N{BULLET}"
    config.cite_expandable = False
    return config


_CONFIG: Final = _symbols()


def units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    if text.isascii():
        return len(text)
    return len(text) + sum(char > "\uffff" for char in text)


def clean(text: str) -> str:
    """Return a text without what no message can hold: halves of characters and NUL."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


def render(markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
    """Return a text as payloads, each within Telegram's limits, formatting intact in each.

    What cannot be read as Markdown, or would take long, goes as it stands. Blank gives none.
    """
    source = clean(markdown)
    text, entities = (source, []) if is_plain else _read(source)
    return tuple(
        json.dumps(
            {"text": piece, "entities": [_as_dict(e) for e in parts]},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        for piece, parts in cut(text, entities, CHUNK_UNITS)
    )


def labelled(
    text: str, entities: Sequence[dict[str, object]]
) -> tuple[str, list[dict[str, object]]]:
    """Return a chunk with the line above it that says that it may be a repeat."""
    line = f"{said(REPEAT_LABEL)}\n"
    return line + text, [{**e, "offset": cast("int", e["offset"]) + len(line)} for e in entities]


def tail(text: str, limit_units: int) -> str:
    """Return the end of a text, of at most so many units, and whether there was more."""
    text = clean(text)
    if units(text) <= limit_units:
        return text
    offsets = _offsets(text)
    start = bisect_right(offsets, offsets[-1] - limit_units + 2)
    while start < len(text) and _joins(text, start):
        start += 1
    return "\N{HORIZONTAL ELLIPSIS}" + text[start:]


def head(text: str, limit_units: int) -> str:
    """Return the start of a text, of at most so many units."""
    text = clean(text)
    if units(text) <= limit_units:
        return text
    end = bisect_right(_offsets(text), limit_units - 1) - 1
    return text[: _cluster_start(text, end, 0)] + "\N{HORIZONTAL ELLIPSIS}"


# --- reading Markdown ----------------------------------------------------------------------------


def _read(markdown: str) -> tuple[str, list[MessageEntity]]:
    if _is_bomb(markdown):
        return markdown, []
    latex = markdown.count("\\[") + markdown.count("\\(") <= _LATEX_MAX
    try:
        source = _shown_links(_shown_images(_shown_html(markdown)))
        text, entities = convert(source, latex_escape=latex, config=_CONFIG)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return markdown, []  # a fault of the library: the words matter more than their looks
    most = _GROWTH_MAX * len(markdown) + 1_000
    if not text.strip() or len(text) > most:
        return markdown, []  # it consisted of mark-up alone, or swells
    text, entities = _with_addresses(text, entities)
    return (text, entities) if len(text) <= most else (markdown, [])


def _is_link(entity: MessageEntity) -> bool:
    return _LINK.match(entity.url or "") is not None


def _with_addresses(text: str, entities: list[MessageEntity]) -> tuple[str, list[MessageEntity]]:
    """Write the address of a link behind it where Telegram would drop it, or the code in the link.

    Links of a document to its neighbours (`docs/usage.md`) lead nowhere in a chat, and are text.

    Source: https://core.telegram.org/bots/api#formatting-options, "pre and code entities can't
    contain any other entities", read 2026-11-26.
    """
    codes = sorted((e.offset, e.offset + e.length) for e in entities if e.type in _CODES)
    ends = [end for _, end in codes]

    def holds_code(link: MessageEntity) -> bool:
        first = bisect_right(ends, link.offset)  # codes do not overlap each other
        return first < len(codes) and codes[first][0] < link.offset + link.length

    links = [e for e in entities if e.type == "text_link"]
    clashing = [e for e in links if holds_code(e) or not _is_link(e)]
    if not clashing:
        return text, entities
    clashing.sort(key=lambda e: e.offset + e.length)
    places = [e.offset + e.length for e in clashing]
    data = text.encode("utf-16-le", "surrogatepass")

    def shown(link: MessageEntity) -> str:
        words = data[2 * link.offset : 2 * (link.offset + link.length)]
        is_said = words.decode("utf-16-le", "surrogatepass") == link.url
        return "" if is_said or not link.url else f" ({link.url})"

    added = [shown(each) for each in clashing]
    grown = [0, *accumulate(map(units, added))]
    pieces = [
        data[2 * begin : 2 * end].decode("utf-16-le", "surrogatepass")
        for begin, end in pairwise((0, *places, len(data)))
    ]
    dropped = set(map(id, clashing))
    kept = [
        dataclasses.replace(
            each,
            offset=each.offset + grown[bisect_right(places, each.offset)],
            length=each.length
            + grown[bisect_left(places, each.offset + each.length)]
            - grown[bisect_right(places, each.offset)],
        )
        for each in entities
        if id(each) not in dropped
    ]
    kept += [
        dataclasses.replace(link, offset=place + before + 2, length=units(words) - 3)
        for link, place, before, words in zip(clashing, places, grown, added, strict=False)
        if words and _is_link(link)
    ]
    return "".join(part for pair in zip(pieces, [*added, ""], strict=True) for part in pair), kept


def _is_bomb(markdown: str) -> bool:
    return (
        len(markdown) > _MARKDOWN_CHARS_MAX
        or sum(1 for _ in _MARKS.finditer(markdown)) > _MARKS_MAX
        or _LIST_DEPTH.search(markdown) is not None
        or _DEEP_INDENT.search(markdown) is not None
    )


def _shown_html(markdown: str) -> str:
    """Escape the HTML of a document, which would be left out otherwise.

    Escaping one piece may show that the next is HTML as well, so it is read again a few times.
    """
    for _ in range(5):
        starts = _html_starts(markdown) if "<" in markdown else ()
        if not starts:
            break
        data = markdown.encode()
        bounds = (0, *starts, len(data))
        pieces = (data[a:b] for a, b in pairwise(bounds))
        markdown = b"\\".join(pieces).decode()
    return markdown


def _events(markdown: str) -> Iterable[tuple[object, dict[str, int]]]:
    """Return what a text is made of, and from which byte to which."""
    found = pyromark.events_with_range(markdown, options=STANDARD_OPTIONS)
    return cast("Iterable[tuple[object, dict[str, int]]]", found)


def _html_starts(markdown: str) -> tuple[int, ...]:
    found: set[int] = set()
    data = markdown.encode()
    for payload, where in _events(markdown):
        if isinstance(payload, dict) and ("Html" in payload or "InlineHtml" in payload):
            piece = data[where["start"] : where["end"]]
            found.update(where["start"] + m.start() for m in re.finditer(rb"(?<!\\)<", piece))
    return tuple(sorted(found))


def _shown_images(markdown: str) -> str:
    """Write the address of an image without words in their place: it would be left out."""
    if "![]" not in markdown:
        return markdown
    data, found, at = markdown.encode(), list[bytes](), 0
    for payload, where in _events(markdown):
        address = text_of(object_of(payload, "Start", "Image"), "dest_url")
        start = where["start"]
        if address and data[start : start + 3] == b"![]":
            shown = _SPECIAL.sub(r"\\\g<0>", address.replace("|", "%7C"))
            found += [data[at : start + 2], shown.encode()]
            at = start + 2
    return b"".join((*found, data[at:])).decode()


def _shown_links(markdown: str) -> str:
    """Write the address of a link in a table beside it: tables are shown as code, without links."""
    if "|" not in markdown or "[" not in markdown:
        return markdown
    data, found, at = markdown.encode(), list[bytes](), 0
    for start, end, inner, address in _table_links(markdown):
        words = data[inner[0] : inner[1]]
        shown = _SPECIAL.sub(r"\\\g<0>", address.replace("|", "%7C")).encode()
        found += [data[at:start], words, b"" if words == shown else b" (%b)" % shown]
        at = end
    return b"".join((*found, data[at:])).decode()


def _table_links(markdown: str) -> Iterator[tuple[int, int, tuple[int, int], str]]:
    """Yield where links and images of tables stand, where what they show does, and the address.

    Bytes. What is in a link is not yielded by itself, nor is one that shows its address.
    """
    is_table, depth, address = False, 0, ""
    inner: tuple[int, int] | None = None
    for payload, where in _events(markdown):
        link = object_of(payload, "Start", "Link") or object_of(payload, "Start", "Image")
        ended = text_of(payload, "End")
        if "Table" in object_of(payload, "Start"):
            is_table = True
        elif ended == "Table":
            is_table = False
        elif is_table and ended in {"Link", "Image"}:
            depth -= 1
            if not depth and address:
                start = where["start"]
                yield start, where["end"], inner or (start, start), address
        elif is_table and link and not depth:
            depth, inner = 1, None
            shows_it = text_of(link, "link_type") in {"Autolink", "Email"}
            address = "" if shows_it else text_of(link, "dest_url")
        elif is_table and depth:
            depth += bool(link)
            inner = (inner[0] if inner else where["start"], where["end"])


def _as_dict(entity: MessageEntity) -> dict[str, object]:
    """Return an entity as the Bot API writes it, without what it does not have."""
    return {
        field.name: value
        for field in dataclasses.fields(entity)
        if (value := getattr(entity, field.name)) is not None
    }


# --- cutting -------------------------------------------------------------------------------------


def cut(
    text: str, entities: Sequence[MessageEntity], limit_units: int
) -> list[tuple[str, list[MessageEntity]]]:
    """Return a formatted text in pieces of at most so many units and `ENTITIES_MAX` entities.

    Cuts at a paragraph, a line, a word, a sign, in this order; an entity across a cut is in both.
    """
    offsets = _offsets(text)
    ordered = sorted(entities, key=lambda e: (e.offset, -e.length))
    pieces: list[tuple[str, list[MessageEntity]]] = []
    start = 0
    while start < len(text):
        if text[start] == "\n":  # Telegram takes them away, and would count them
            start += 1
            continue
        ordered = [e for e in ordered if e.offset + e.length > offsets[start]]
        code = _code(ordered, offsets[start] + limit_units)
        end = _end(text, offsets, start, limit_units, code)
        parts = _clipped(ordered, offsets[start], offsets[end])
        if len(parts) > ENTITIES_MAX:
            room = parts[ENTITIES_MAX].offset
            if room > limit_units // 16:
                end = _end(text, offsets, start, room, code)
                parts = _clipped(ordered, offsets[start], offsets[end])
            parts = parts[:ENTITIES_MAX]  # nobody wants a reply in scraps: the rest goes plain
        piece = text[start:end].rstrip()
        if piece:
            pieces.append((piece, _clipped(parts, 0, units(piece))))
        start = end
    return pieces


def _offsets(text: str) -> list[int]:
    """Return where each character begins, in units, and where the last one ends."""
    if text.isascii():
        return list(range(len(text) + 1))
    return list(accumulate((2 if char > "\uffff" else 1 for char in text), initial=0))


def _end(
    text: str, offsets: list[int], start: int, limit_units: int, code: list[tuple[int, int]]
) -> int:
    """Return where the piece that begins at `start` should end."""
    furthest = bisect_right(offsets, offsets[start] + limit_units) - 1
    if furthest >= len(text):
        return len(text)
    least = start + (furthest - start) // 2

    def is_code(at: int) -> bool:
        return any(begin < offsets[at] < end for begin, end in code)

    for mark in ("\n\n", "\n"):
        at = text.rfind(mark, least, furthest)
        while at != -1:
            if not is_code(at + 1):
                return at + len(mark)
            at = text.rfind(mark, least, at)
    for mark in ("\n", " "):
        at = text.rfind(mark, least, furthest)
        if at != -1:
            return at + 1
    return _cluster_start(text, furthest, start)


def _cluster_start(text: str, at: int, start: int) -> int:
    """Return where the sign that `at` stands in begins; `at` itself where that is too far."""
    for earlier in range(at, max(start, at - _CLUSTER_MAX), -1):
        if not _joins(text, earlier, start):
            return earlier
    return at


def _joins(text: str, at: int, start: int = 0) -> bool:
    """Tell whether the character at `at` belongs to the sign before it, in a piece from `start`."""
    if not start < at < len(text):
        return False
    char, before = text[at], text[at - 1]
    if char.isascii():
        return char == "\n" and before == "\r"
    if _ZWJ in {before, char} or unicodedata.category(char) in {"Mn", "Mc", "Me"}:
        return True
    if "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f":
        return True  # colours of skin, and the letters that flags are spelt with
    if _is_flag_letter(char) and _is_flag_letter(before):
        run = 0
        while run < at - start and _is_flag_letter(text[at - 1 - run]):
            run += 1
        return run % 2 == 1
    return False


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _code(ordered: Iterable[MessageEntity], end: int) -> list[tuple[int, int]]:
    """Return from where to where there is code, of what begins before `end`."""
    early = takewhile(lambda e: e.offset < end, ordered)
    return [(e.offset, e.offset + e.length) for e in early if e.type in _CODES]


def _clipped(ordered: Iterable[MessageEntity], begin: int, end: int) -> list[MessageEntity]:
    """Return what of the entities lies between two offsets, counted from the first."""
    found: list[MessageEntity] = []
    for entity in takewhile(lambda e: e.offset < end, ordered):
        first = max(entity.offset, begin)
        last = min(entity.offset + entity.length, end)
        if first < last:
            found.append(dataclasses.replace(entity, offset=first - begin, length=last - first))
    return found
