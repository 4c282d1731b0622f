"""Session ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_actors.ids import is_session_id, new_session_id

_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
instants = st.integers(0, 10**10).map(lambda ms: _FIRST + timedelta(milliseconds=ms))
hexes = st.text(alphabet="0123456789abcdef", min_size=8, max_size=8)


def test_an_id_tells_when_its_session_began() -> None:
    """By a clock that is known."""
    # Folders sort by time, and a person sees at a glance which one is meant.
    now = datetime(2026, 11, 22, 1, 49, 56, 123999, tzinfo=timezone(timedelta(hours=3)))

    assert new_session_id(now, "3f9a2c1b") == "20261121T224956123-3f9a2c1b"

    # A time without zone is refused. It would sort wrongly by some hours.
    with pytest.raises(ValueError, match="aware"):
        new_session_id(datetime(2026, 1, 1), "3f9a2c1b")  # noqa: DTZ001 - that is the point


@given(instants, instants, hexes, hexes)
def test_ids_sort_by_time(one: datetime, two: datetime, first: str, second: str) -> None:
    """The newest sessions are found without looking into any."""
    earlier, later = sorted((one, two))
    if later - earlier >= timedelta(milliseconds=1):
        assert new_session_id(earlier, first) < new_session_id(later, second)


@given(instants, hexes)
def test_every_new_id_is_an_id(now: datetime, random_hex: str) -> None:
    """An id that the store refuses would be a session that cannot be written."""
    assert is_session_id(new_session_id(now, random_hex))


@table(
    "text",
    [
        "",
        ".",
        "..",
        "../20261121T224956123-3f9a2c1b",
        "20261121T224956123-3f9a2c1b/..",
        "20261121T224956123-3f9a2c1b\n",
        "20261121T224956123-3F9A2C1B",
        "20261121T224956123-3f9a2c1",
        "\u0662\u0660\u0662\u0666\u0661\u0661\u0662\u0661T224956123-3f9a2c1b",  # Arabic digits
        "20261121T224956123_3f9a2c1b",
        "20261121T224956123-3f9a2c1b\x00",
    ],
)
def test_nothing_else_is_an_id(text: str) -> None:
    """Ids become folder names; whatever could leave the folder is none."""
    assert not is_session_id(text)


@table("random_hex", ["", "3f9a2c1", "3F9A2C1B", "../../..", "3f9a2c1b0"])
def test_an_id_is_not_made_of_anything_else(random_hex: str) -> None:
    """A caller that passes something else made a mistake, and is told so."""
    with pytest.raises(ValueError, match="hex digits"):
        new_session_id(datetime(2026, 1, 1, tzinfo=UTC), random_hex)
