"""Pages and edits of texts: nothing is lost, and nothing changed that was not meant."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.files.editing import edit
from everturn_gateway.tools.files.reading import PAGE_TOKENS, LineRange, decode, page

pieces = st.sampled_from(["a", "b", "\n", "\r\n", "x" * 300, "漢" * 200, "é", "👩‍👩‍👧", " ", "\t"])
texts = st.lists(pieces, max_size=80).map("".join)


def edited(text: str, old: str, new: str, *, every: bool = False) -> str:
    """Return the text after an edit."""
    return edit("a.md", text, old, new, every=every).text


# --- pages ---


def read_whole(text: str, lines: int = 800) -> str:
    """Return what a reader gets who goes on where each page says."""
    read, offset, column = "", 1, 1
    for _ in range(2000):
        shown = page("a", text, LineRange(line=offset, lines=lines, column=column))
        rows = shown.split("\n")[1:]
        ends = re.fullmatch(
            r"\((?:goes on|this line goes on): offset=(\d+)(?:, column=(\d+))?\)", rows[-1]
        )
        rows = rows[:-1] if ends else rows
        read += "\n".join(row.partition("\t")[2] for row in rows)
        if not ends:
            return read
        offset, column = int(ends[1]), int(ends[2] or 1)
        read += "" if ends[2] else "\n"
    raise AssertionError(read)


@given(texts.filter(bool), st.integers(1, 5))
def test_pages_put_together_are_the_text(text: str, lines: int) -> None:
    """A file that is read page by page is read whole, long lines included."""
    plain = text.replace("\r\n", "\n").removesuffix("\n")

    assert read_whole(text, lines) == plain


@table("script", ["a", "A", "0", "漢", "🔥", "{"])
def test_a_page_is_below_the_cap_of_a_result_in_every_script(script: str) -> None:
    """What the policy cuts again cannot be gone on with where the page says."""
    text = "\n".join(script * 60 for _ in range(5000))
    shown = page("a", text, LineRange())

    assert text_units(shown) <= (PAGE_TOKENS + 2500) * UNITS_PER_TOKEN


def test_a_page_holds_whole_lines_and_characters_of_the_file() -> None:
    """As far as it has room for them, and says what it shows."""
    # Lines are numbered as in the file. An error message names a line; the model has to find it.
    assert page("a", "one\ntwo\nthree\n", LineRange(line=2, lines=1)) == (
        "a, line 2 of 3:\n2\ttwo\n(goes on: offset=3)"
    )

    # An empty file is told. Nothing would look like a failure.
    assert page("a", "", LineRange()) == "a is empty"

    # A long line is read in pieces. Minified files have one line; a page that ended only after
    # lines could not hold it.
    text = "".join(f"word{n} " for n in range(20_000))

    assert read_whole(text) == text
    assert "(this line goes on: offset=1, column=" in page("a", text, LineRange())

    # A page never parts a character. Half an emoji, or a letter without its accent, is another
    # character.
    family = "👩‍👩‍👧"
    shown = page("a", family * 8000, LineRange())

    assert shown.split("\n")[1].endswith(family)


@table(
    ("wanted", "why"),
    [(LineRange(line=4), "a has 3 lines"), (LineRange(column=5), "line 1 has 3 characters")],
)
def test_what_is_beyond_the_end_is_told(wanted: LineRange, why: str) -> None:
    """An empty page would be taken for an empty file."""
    with pytest.raises(ToolFailedError, match=why):
        page("a", "one\ntwo\nend", wanted)


def test_binary_is_told_and_half_text_is_shown() -> None:
    """One odd byte must not hide a text; a picture is none."""
    with pytest.raises(ToolFailedError, match="binary"):
        decode("a", b"\x89PNG\0\0")
    with pytest.raises(ToolFailedError, match="UTF-16"):
        decode("a", "hé".encode("utf-16"))

    assert decode("a", "caf\xe9".encode("latin-1")) == ("caf\\xe9", False)
    assert decode("a", b"\xef\xbb\xbfhi") == ("hi", True)


# --- edits ---


@given(texts, st.data())
def test_an_edit_changes_the_place_and_nothing_else(text: str, data: st.DataObject) -> None:
    """Whatever stands before and after has to stand there still, byte for byte."""
    if not text:
        return
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    old = text[begin:end]
    if text.find(old, text.find(old) + 1) >= 0:
        with pytest.raises(ToolFailedError, match="times"):
            edited(text, old, "NEW")
        return

    assert edited(text, old, "NEW") == text[:begin] + "NEW" + text[end:]


def test_an_edit_guesses_at_nothing() -> None:
    """Neither at the place nor at line ends."""
    # A text in several places is not guessed at. Changing the wrong one is worse than asking.
    with pytest.raises(ToolFailedError, match=r"stands 3 times in a.md \(lines 1, 2, 4\)"):
        edited("x\nx\n\nx", "x", "y")

    assert edited("x\nx\n\nx", "x", "y", every=True) == "y\ny\n\ny"

    # Line ends of the file are kept. A model is shown and writes plain ones; a mixed file is a
    # broken one.
    assert edited("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2") == "1\r\n2\r\nthree\r\n"


@table(
    ("old", "why"),
    [
        ("1\tone\n2\ttwo", "leave out the line numbers"),
        ("if x :", "nearest is line 3: 'if  x :'"),
        ("def functoin():", "nearest is line 4: 'def function\\(\\):'"),
        ("something else entirely", "read the file"),
        ("", "old_text: is empty"),
        ("one", "new_text: is the same"),
    ],
)
def test_what_is_wrong_with_an_edit_is_told(old: str, why: str) -> None:
    """A small model tries the same thing again, unless it is told what differs."""
    with pytest.raises(ToolFailedError, match=why):
        edited("one\ntwo\nif  x :\ndef function():\n", old, "one")


def test_a_hint_takes_no_time_in_a_large_file() -> None:
    """Comparing every line of a large file with care would take minutes."""
    lines = "\n".join(f"line number {n} of many that are alike" for n in range(50_000))
    with pytest.raises(ToolFailedError, match="nearest is line"):
        edited(lines, "line numbr 77 of many that are alike", "x")
