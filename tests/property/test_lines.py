"""Lines of JSON, however the network cuts them."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_gateway.providers.ollama.lines import LineParser
from everturn_gateway.providers.transport.sse import EVENT_LIMIT_BYTES, EventTooLargeError

values = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), min_size=1))


@given(values, st.lists(st.integers(1, 40)), st.booleans())
def test_every_cut_gives_the_same_lines(
    sent: list[dict[str, str]],
    cuts: list[int],
    ended: bool,
) -> None:
    """A line that came in two packets, or two lines in one, must not change what is read."""
    data = b"\n".join(orjson.dumps(value) for value in sent) + (b"\n" if ended else b"")
    parser, read, at = LineParser(), list[bytes](), 0
    for cut in [*cuts, len(data)]:
        read += [line for _, line in parser.feed(data[at : at + cut])]
        at += cut
    read += [line for _, line in parser.finish()]

    assert [orjson.loads(line) for line in read] == sent


@table("tail", [b"", b"  ", b'{"done":tr', b'{"done"'])
def test_a_line_that_was_cut_is_not_read(tail: bytes) -> None:
    """Half a line is a stream that broke off, not a chunk that does not parse."""
    parser = LineParser()

    assert parser.feed(b'{"a":1}\n\n' + tail) == [(b"", b'{"a":1}')]
    assert parser.finish() == []


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    """A server that sends for ever must not take the gateway down."""
    parser = LineParser()
    with pytest.raises(EventTooLargeError):
        for _ in range(EVENT_LIMIT_BYTES // 65_536 + 2):
            parser.feed(b"x" * 65_536)
