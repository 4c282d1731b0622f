"""What is kept of any output, however it arrives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from everturn_gateway.tools.shell.output import HeadAndTail

_PARTS = st.lists(st.binary(max_size=60), max_size=30)


def _taken(parts: list[bytes], limit_bytes: int) -> HeadAndTail:
    output = HeadAndTail(limit_bytes)
    for part in parts:
        output.add(part)
    return output


@given(_PARTS, st.integers(1, 100))
def test_memory_stays_within_bounds(parts: list[bytes], limit_bytes: int) -> None:
    """A flood must not take the gateway's memory."""
    output = HeadAndTail(limit_bytes)
    for part in parts:
        output.add(part)

        assert output.held_bytes <= 3 * limit_bytes


@given(_PARTS, st.integers(1, 100))
def test_how_it_arrives_makes_no_difference(parts: list[bytes], limit_bytes: int) -> None:
    """The same output has to read the same, whatever the pipe made of it."""
    whole = b"".join(parts)

    assert _taken(parts, limit_bytes).text() == _taken([whole], limit_bytes).text()


@given(st.lists(st.text("ab é🙂\n", max_size=20), max_size=20), st.integers(1, 100))
def test_what_fits_is_kept_whole_and_the_rest_by_its_ends(
    parts: list[str], limit_bytes: int
) -> None:
    """The beginning says what went on, the end how it came out."""
    whole = "".join(parts)
    text, left_out_bytes = _taken([part.encode() for part in parts], limit_bytes).text()

    if len(whole.encode()) <= limit_bytes:
        assert (text, left_out_bytes) == (whole, 0)
    else:
        mark = f"\n\n[... {left_out_bytes:,} bytes are left out here ...]\n\n"
        head, _, tail = text.partition(mark)
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len((head + tail).encode()) + left_out_bytes == len(whole.encode())
        assert len((head + tail).encode()) <= limit_bytes
