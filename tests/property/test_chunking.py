"""Any text, any unit, any limit."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples

from everturn_channels.chunks import LIMIT_LEAST, Unit, measure, split_text

units = st.sampled_from(["utf16", "characters", "bytes"])
limits = st.integers(LIMIT_LEAST, 120)
words = st.text(alphabet="ab é\u0301🔥👍🏽\u200d🇩🇪\n\t ", min_size=0, max_size=40)
marks = st.sampled_from(["```\n", "```py\n", "````\n", "~~~\n", "\n```\n", "\n~~~\n", "  ```  \n"])
texts = st.lists(st.one_of(words, marks), max_size=30).map("".join)
blocks = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 60)), min_size=1, max_size=4)


def bare(text: str) -> str:
    """Return a text without blanks: those are left out at a cut."""
    return re.sub(r"\s", "", text)


@example("🔥" * 40, 33, "utf16")  # nowhere a blank to cut at
@example("```\n" + "é" * 90 + "\n```", 40, "bytes")
# Four milliseconds each: with few of them the room for an opened fence may be forgotten.
@examples(200)
@given(texts, limits, units)
def test_pieces_fit_and_hold_something(text: str, limit: int, unit: Unit) -> None:
    """A platform refuses what is too long, and what is empty."""
    for is_plain in (False, True):
        for piece in split_text(text, limit, unit, is_plain=is_plain):
            assert measure(piece, unit) <= limit
            assert piece.strip()


@examples(60)
@given(texts, limits, units)
def test_plain_pieces_join_to_the_text(text: str, limit: int, unit: Unit) -> None:
    """Nothing of a reply may get lost, and nothing be said twice."""
    pieces = split_text(text, limit, unit, is_plain=True)

    assert bare("".join(pieces)) == bare(text)


@examples(60)
@given(blocks, limits)
def test_code_stays_code_and_text_stays_text(blocks: list[tuple[int, int]], limit: int) -> None:
    """A fence that is open at the end of a message turns the next one inside out."""
    text = "\n\n".join(
        f"say {'word ' * long}\n```py\n" + "\n".join(f"code_{n}" for n in range(lines)) + "\n```"
        for lines, long in blocks
    )
    said, code = list[str](), list[str]()
    for piece in split_text(text, limit, "characters"):
        within = False
        for line in piece.split("\n"):
            if line.startswith("```"):
                within = not within
            else:
                (code if within else said).append(line)

        assert not within, piece
    assert code == [f"code_{n}" for lines, _ in blocks for n in range(lines)]
    assert bare("".join(said)) == "".join("say" + "word" * long for _, long in blocks)
