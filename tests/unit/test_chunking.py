"""Cutting a reply into messages of a platform's size."""

from __future__ import annotations

import pytest
from support.tables import table

from everturn_channels.chunks import LIMIT_LEAST, Unit, measure, split_text

UNITS: tuple[Unit, ...] = ("characters", "utf16", "bytes")
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
"One character to people: three emoji and two joiners; 8 UTF-16 units, 18 bytes."


def test_a_text_is_cut_where_it_hurts_least() -> None:
    """Between paragraphs, else between lines, else between words, and not at all where it fits."""
    # What fits stays one piece. Most replies are short; they must arrive as they were written.
    assert split_text("Good **morning**.\n\nBye.\n", 100, "characters") == (
        "Good **morning**.\n\nBye.",
    )

    # Paragraphs are kept together where that is possible. A message that ends in the middle of a
    # thought is hard to read.
    first, second = "one " * 15, "two " * 15
    text = f"{first.strip()}\n\n{second.strip()}"

    assert split_text(text, 80, "characters") == (first.strip(), second.strip())

    # A long paragraph is cut between lines then words. The next best places.
    assert split_text("- first item of it\n- second item of it", 32, "characters") == (
        "- first item of it",
        "- second item of it",
    )
    assert split_text("alpha beta gamma delta epsilon zeta", 32, "characters") == (
        "alpha beta gamma delta epsilon",
        "zeta",
    )

    # Indentation after a cut is kept. It is what makes a list a nested one.
    assert split_text("- the first item of it\n  - the one below", 32, "characters") == (
        "- the first item of it",
        "  - the one below",
    )


@table("text", ["", " \n\t\n", "\n" * 500])
def test_a_text_without_anything_to_show_gives_none(text: str) -> None:
    """A platform refuses an empty message."""
    assert split_text(text, 100, "characters") == ()


@table(("unit", "each"), [("characters", 5), ("utf16", 8), ("bytes", 18)])
def test_no_character_is_cut_in_two(unit: Unit, each: int) -> None:
    """Half a family of emoji is three strangers, and half a surrogate pair is refused."""
    pieces = split_text(FAMILY * 20, 40, unit)

    assert "".join(pieces) == FAMILY * 20
    assert all(piece == FAMILY * (40 // each) for piece in pieces[:-1])


def test_flags_and_marks_stay_whole() -> None:
    """As far as a message can hold them."""
    # They are made of several code points without a joiner.
    flags, accents = "\U0001f1e9\U0001f1ea" * 30, "e\u0301" * 50

    assert all(len(piece) % 2 == 0 for piece in split_text(flags, 33, "characters"))
    assert all(piece.startswith("e") for piece in split_text(accents, 33, "characters"))

    # A character larger than a message is cut all the same. A letter with a thousand marks must not
    # stop the reply.
    text = "a" + "\u0301" * 1000

    assert "".join(split_text(text, 40, "characters")) == text


def test_a_block_of_code_that_is_cut_is_code_in_each_piece() -> None:
    """Whatever its fences are like."""
    # Else the rest of it, and all that follows, is shown as text and the other way round.
    code = "\n".join(f"print({number})" for number in range(8))
    text = f"Look:\n\n```python\n{code}\n```\n\nDone."

    pieces = split_text(text, 60, "characters")

    assert pieces == (
        "Look:\n\n```python\nprint(0)\nprint(1)\nprint(2)\nprint(3)\n```",
        "```python\nprint(4)\nprint(5)\nprint(6)\nprint(7)\n```\n\nDone.",
    )

    # A longer fence may hold a shorter one. Markdown about Markdown is common in replies.
    text = "````md\n" + "```\ninside it\n```\n" * 4 + "````"

    for piece in split_text(text, 50, "characters"):
        assert piece.startswith("````md\n")
        assert piece.endswith("\n````")

    # A block may be closed by a longer line than fits. What is left of that line would open a block
    # of its own.
    text = f"```\nab\n{'`' * 40}\nafter it"

    assert split_text(text, 32, "characters") == ("```\nab\n```", "after it")

    # Plain text gets no fences. What is not Markdown is shown as it stands.
    text = "```\n" + "line\n" * 20

    assert all(
        "```" not in piece for piece in split_text(text, 40, "characters", is_plain=True)[1:]
    )


def test_a_limit_without_room_is_refused() -> None:
    """Better than pieces that are larger than was asked for."""
    with pytest.raises(ValueError, match="at least 32"):
        split_text("text", LIMIT_LEAST - 1, "characters")


def test_sizes_are_counted_in_the_unit_of_the_platform() -> None:
    """The same character is one, two or four."""
    assert [measure("\U0001f525", unit) for unit in UNITS] == [1, 2, 4]
