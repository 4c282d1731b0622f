"""Whatever a plug-in writes, and however the pipe cuts it."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from everturn_channels.plugin import reading
from everturn_channels.plugin.process import Lines
from everturn_channels.plugin.protocol import BadLineError, Complaint, write_line
from everturn_channels.plugin.reading import Hands, read_line


async def _get(_limit: int) -> bytes:
    return b""


async def _say(_text: str) -> None:
    pass


HANDS = Hands(
    fetch=lambda _file: _get,
    answer=lambda _number: _say,
    now=lambda: datetime(2026, 11, 5, tzinfo=UTC),
)
KINDS = [str(kind.__struct_config__.tag) for kind in get_args(reading._AnyLine)]
FIELDS = """
type id message_id place chat topic title sender name is_bot text at is_addressed files file
size_bytes data request outcome why count value kind account findings capabilities unit protocol
chunk_units typing_s preview_s edits idle_s retry_after_s
"""
NAMES = st.sampled_from(FIELDS.split())
WORDS = st.one_of(st.sampled_from([*KINDS, "dm", "done", "m1"]), st.text(max_size=5))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=6),
    max_leaves=12,
)


@examples(15)
@given(st.sampled_from(KINDS), st.dictionaries(NAMES, VALUES, max_size=8), st.data())
def test_any_line_is_read_or_refused(
    kind: str, line: dict[str, object], data: st.DataObject
) -> None:
    """No program may end the gateway by what it says; and a refusal can be told it."""
    if data.draw(st.booleans()):
        line = {"chat": {"id": "c"}, "id": 1, "message_id": "m", **line}
    raw = json.dumps({**line, "type": kind}).encode()
    refused: Complaint | None = None
    try:
        read_line(raw, HANDS)
    except BadLineError as error:
        refused = error.complaint

    assert refused is None or json.loads(write_line(refused))["why"]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Nor by what is no JSON."""
    with suppress(BadLineError):
        read_line(raw, HANDS)


@given(st.lists(st.binary(max_size=30)), st.lists(st.integers(1, 20)))
def test_every_cut_gives_the_same_lines(parts: list[bytes], cuts: list[int]) -> None:
    """Lines are cut to the limit and one more byte, so that too long ones can be told."""
    sent = [part.replace(b"\n", b"") for part in parts]
    data, lines, at, found = b"".join(part + b"\n" for part in sent), Lines(10), 0, list[bytes]()
    for cut in [*cuts, len(data)]:
        found += lines.feed(data[at : at + cut])
        at += cut

    assert found == [part[:11] for part in sent]
