"""How a tool hands on what others wrote: in pages, and as a quote. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from everturn_gateway.tools.recall.pages import PageSize, page_end

PAGE_TOKENS: Final = 6_000  # below a result's usual cap of 8,000, with room for a heading
_CHARACTERS_PER_TOKEN = 4
_MARK_DIGITS = 10


def pages_of(text: str, limit_tokens: int) -> tuple[str, ...]:
    """Return the pages of a text, at least one; put together they are the text.

    A page has at most `limit_tokens`, estimated, and four times as many characters. It ends after
    a line or a word where one is near. A text of 500,000 characters takes some hundredths of a
    second.
    """
    pages: list[str] = []
    begin = 0
    limit = PageSize(tokens=limit_tokens, characters=limit_tokens * _CHARACTERS_PER_TOKEN)
    while begin < len(text) or not pages:
        end = page_end(text, begin, limit)
        pages.append(text[begin:end])
        begin = end
    return tuple(pages)


class Page(Struct, frozen=True, kw_only=True):
    """One page of a text."""

    text: str
    number: int
    "From 1."
    total: int


def page_of(text: str, number: int, limit_tokens: int) -> Page | None:
    """Return one page of a text, see `pages_of`; None where there is none of this number."""
    pages = pages_of(text, limit_tokens)
    if not 1 <= number <= len(pages):
        return None
    return Page(text=pages[number - 1], number=number, total=len(pages))


def quoted(head: Sequence[str], text: str) -> str:
    """Return `text` below the lines of `head`, between two marks that do not stand in it."""
    mark = _mark(text)
    return "\n".join([*head, f"<quote-{mark}>", text, f"</quote-{mark}>"])


def _mark(text: str) -> str:
    """Return a name that stands nowhere in `text`, and is the same for the same text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    while (name := digest.hexdigest()[:_MARK_DIGITS]) in text:
        digest.update(b"\n")
    return name
