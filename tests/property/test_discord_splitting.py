"""Splitting for Discord, for any text."""

from __future__ import annotations

import json
import re

from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples

from everturn_channels.discord.markup import LIMIT_UNITS, render
from everturn_channels.discord.splitting import Line, Span, Style, pack, units

_PIECES = st.sampled_from(
    [
        "word ",
        "**bold** ",
        "*em* ",
        "**bold *both* ~~gone~~** ",
        "`code` ",
        "[link](https://e.org/x) ",
        "\n",
        "\n\n",
        "# ",
        "- ",
        "  - ",
        "1. ",
        "> ",
        "\n```py\ncode\n```\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
        "🔥",
        "\\*",
        "é" * 30,
        "x" * 300,
        "**",
        "_",
        "![i](https://e.org/i.png)",
    ]
)


def _texts(markdown: str, *, is_plain: bool = False) -> list[str]:
    return [json.loads(p)["content"] for p in render(markdown, is_plain=is_plain)]


def _bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


@example("\n```py\n" + "a\n" * 2_000 + "```\n", 1)
@example("**" + "word " * 900 + "**", 1)
@examples(15)
@given(st.lists(_PIECES, max_size=60).map("".join), st.integers(1, 8))
def test_every_chunk_fits_shows_something_and_closes_its_code(text: str, times: int) -> None:
    """Discord refuses what is longer, refuses what is empty, and shows open fences to the end."""
    chunks = _texts("begin " + text * times)

    assert "begin" in chunks[0]
    for chunk in chunks:
        assert 0 < units(chunk) <= LIMIT_UNITS
        assert chunk.strip()
        assert chunk.count("```") % 2 == 0


@examples(15)
@given(st.text(max_size=300), st.integers(1, 20))
def test_plain_text_comes_through_whole(text: str, times: int) -> None:
    """A cut may eat the space at which it cuts, nothing else."""
    clean = (text * times).replace("\0", "")
    chunks = _texts(clean, is_plain=True)

    if chunks or any(character.isalnum() for character in clean):  # not where nothing can be seen
        assert _bare("".join(chunks)) == _bare(clean)
    assert all(units(c) <= LIMIT_UNITS for c in chunks)


_STYLES = st.sampled_from([Style("**", "**"), Style("*", "*"), Style("[", "](http://e.org)")])
_SPANS = st.builds(
    Span, st.text("ab 🔥", max_size=40), st.lists(_STYLES, max_size=2, unique=True).map(tuple)
)
_LINES = st.builds(Line, st.lists(_SPANS, max_size=5).map(tuple), st.sampled_from(["", "> ", "- "]))


@examples(15)
@given(st.lists(_LINES, max_size=12))
def test_small_messages_keep_every_word_in_order(lines: list[Line]) -> None:
    """Splitting adds marks and loses nothing, however narrow the message."""
    chunks = pack(lines, 70)
    words = _bare("".join(s.text for line in lines for s in line.spans))
    left = "".join(chunks)
    for mark in ("](http://e.org)", "[", "*", "> ", "- ", "-", ">"):
        left = left.replace(mark, "")

    assert _bare(left) == words
    assert all(units(c) <= 70 for c in chunks)


def test_a_line_is_not_torn_where_the_next_message_has_room_for_it() -> None:
    """People read a line at once; a message that is half full has done its part."""
    first, second = Line((Span("a" * 40, ()),), ""), Line((Span("b " * 30, ()),), "")
    short = Line((Span("a" * 10, ()),), "")

    assert [c.strip() for c in pack([first, second], 70)] == ["a" * 40, ("b " * 30).strip()]
    assert pack([short, second], 70)[0].startswith("a" * 10 + "\nb b ")
