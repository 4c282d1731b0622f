"""Server-sent events: however a stream is written and cut, the same events come out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_gateway.providers.transport.sse import (
    EVENT_LIMIT_BYTES,
    EventParser,
    EventTooLargeError,
)

LINE_ENDS = (b"\n", b"\r\n", b"\r")

# JSON with text of one to four bytes a character, as models write it; never a raw line break.
data_lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
names = st.sampled_from(["", "error", "message"])
noise = st.sampled_from([": keep-alive", "id: 7", "retry: 10", "data", "strange", "x: y"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return some events, and one of the many ways in which a server may write them."""
    events: list[tuple[bytes, bytes]] = []
    written = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    for _ in range(draw(st.integers(0, 4))):
        name, lines = draw(names), draw(st.lists(data_lines, min_size=1, max_size=3))
        end = draw(st.sampled_from(LINE_ENDS))
        blank = draw(st.sampled_from(["", " "]))
        parts = [f"event:{blank}{name}"] if name else []
        for line in lines:
            # One blank after the colon belongs to the format, a second one to the data.
            parts.append(f"data: {line}" if blank or line.startswith(" ") else f"data:{line}")
            if draw(st.booleans()):
                parts.append(": a comment")
        written += b"".join(part.encode() + end for part in parts) + end
        events.append((name.encode(), "\n".join(lines).encode()))
    return events, written


def pieces(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut a stream at these places."""
    places = [0, *sorted(cuts), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(places)]


def parsed(parts: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return all events of a stream that comes in these pieces."""
    parser = EventParser()
    events = [event for part in parts for event in parser.feed(part)]
    return events + parser.finish()


@given(streams(), st.lists(st.integers(0, 400), max_size=12))
def test_any_cut_gives_the_events_that_were_written(
    made: tuple[list[tuple[bytes, bytes]], bytes], cuts: list[int]
) -> None:
    """The network cuts where it likes: inside a character, between CR and LF, anywhere."""
    events, written = made

    assert parsed(pieces(written, [cut % (len(written) + 1) for cut in cuts])) == events


def test_every_border_of_a_real_stream_gives_the_same_events() -> None:
    """One byte at a time and each single cut: no border is special."""
    stream = (
        b'data: {"choices":[{"delta":{"content":"gr\xc3\xbc\xc3\x9fe \xf0\x9f\x8c\x8d"}}]}\r\n\r\n'
        b": ping\r\n\r\n"
        b'event: error\rdata: {"a":\rdata: 1}\r\r'
        b"data: [DONE]\n\n"
    )
    whole = parsed([stream])

    assert [name for name, _ in whole] == [b"", b"error", b""]
    assert whole[1][1] == b'{"a":\n1}'
    assert parsed([stream[at : at + 1] for at in range(len(stream))]) == whole
    for cut in range(len(stream)):
        assert parsed(pieces(stream, [cut])) == whole


@given(st.lists(noise, max_size=6), st.booleans())
def test_lines_that_are_no_data_give_no_event(lines: list[str], ends: bool) -> None:
    """Keep-alives and fields of later versions of the format must not look like a reply."""
    stream = "".join(f"{line}\n" for line in lines) + ("\n" if ends else "")

    events = parsed([stream.encode()])

    assert [data for _, data in events if data.strip()] == []


def test_a_missing_last_blank_line_loses_nothing_but_a_cut_line_is_not_read() -> None:
    """Some servers leave out the last blank line; half a line is no line."""
    assert parsed([b"data: {}\n"]) == [(b"", b"{}")]
    assert parsed([b'data: {"half":']) == []


@table("unit", [b"x" * 65536, b"data: " + b"y" * 65530 + b"\n"])
def test_an_endless_event_is_refused(unit: bytes) -> None:
    """A server that never ends a line or an event must not fill the memory."""
    parser = EventParser()

    with pytest.raises(EventTooLargeError):
        for _ in range(2 * EVENT_LIMIT_BYTES // len(unit)):
            parser.feed(unit)
