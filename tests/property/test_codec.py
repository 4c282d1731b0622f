"""Lines of `events.jsonl`: what was written is read, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.histories import delivered_log, histories, line_of_version, outage_log, rich_log
from support.tables import table

from everturn.testing._histories import OTHER_ID, SESSION_ID, simple_log, started
from everturn_actors.checksums import is_whole
from everturn_actors.errors import UnknownFormatError
from everturn_actors.events import Event, Received
from everturn_actors.journal.log.codec import (
    BadLineError,
    check_numbers,
    decode,
    encode,
    owner_of,
    seed,
    seq_of,
    whole_seq,
)

SEED = seed(SESSION_ID)


@given(histories())
@example(rich_log())
@example(delivered_log())
@example(outage_log())
def test_every_event_comes_back_as_it_was_from_a_line_that_people_can_read(
    events: tuple[Event, ...],
) -> None:
    """A value that changes on its way through the log changes history; people grep these lines."""
    lines = encode(SESSION_ID, events).split(b"\n")

    assert lines.pop() == b""
    assert tuple(decode(line, SEED) for line in lines) == events
    for line, event in zip(lines, events, strict=True):
        record = json.loads(line.decode())
        assert (record["v"], record["seq"], list(record)[-1]) == (2, event.seq, "crc")
        assert seq_of(line) == event.seq  # the number at the head, which a bisection reads
        assert whole_seq(line, SEED) == event.seq


@given(histories(max_events=4), st.data())
def test_a_changed_byte_is_noticed(events: tuple[Event, ...], data: st.DataObject) -> None:
    """A bit that flips on the disk must not become a different conversation."""
    line = bytearray(encode(SESSION_ID, events[-1:])[:-1])
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises((BadLineError, UnknownFormatError)):
        decode(bytes(line), SEED)


@table("log", [rich_log, delivered_log, outage_log])
def test_a_line_that_was_cut_short_anywhere_is_noticed(
    log: Callable[[], tuple[Event, ...]],
) -> None:
    """A crash leaves any beginning of a line."""
    for line in encode(SESSION_ID, log()).splitlines():
        for end in range(len(line)):
            assert not is_whole(line[:end], SEED)
            with pytest.raises(BadLineError):
                decode(line[:end], SEED)


def test_a_line_of_another_session_is_refused_and_its_owner_named() -> None:
    """A log that was copied into the wrong folder must not be read as this conversation."""
    line = encode(OTHER_ID, [started(OTHER_ID)])[:-1]

    assert not is_whole(line, SEED)
    assert owner_of(line) == OTHER_ID
    with pytest.raises(BadLineError, match="belongs to another log"):
        decode(line, SEED)


@table(
    "line",
    [
        pytest.param(b'{"v":3,"seq":1,"sum":"other"}', id="protected in a way of its own"),
        pytest.param(b'{"v":3,"seq":1,"at":"x","type":"received"}', id="not protected"),
        pytest.param(line_of_version(3, started())[:-1], id="all else looks familiar"),
    ],
)
def test_a_later_version_is_told_from_damage(line: bytes) -> None:
    """A log of tomorrow's version is not broken; the operator has to upgrade, not to repair."""
    with pytest.raises(UnknownFormatError, match=r"event format 3"):
        decode(line, SEED)


@table("text", ["[]", "5", "null", '"x"', ""])
def test_json_that_is_no_event_names_no_owner(text: str) -> None:
    """The search for the owner of a foreign log meets whatever stands there."""
    assert owner_of(text.encode()) == ""
    assert seq_of(text.encode()) is None


def test_a_surrogate_pair_comes_back_as_the_character_it_means() -> None:
    """The one text that JSON cannot keep apart; it must not become anything worse."""
    event = Event(seq=1, at=started().at, body=Received(text="\ud83d\ude00"))

    line = encode(SESSION_ID, [event])[:-1]

    assert decode(line, SEED).body == Received(text="\U0001f600")


def test_events_with_a_hole_are_a_bug_of_the_caller() -> None:
    """Written, they would make the session unreadable at the next start."""
    events = simple_log(1)

    check_numbers(events, 0)
    check_numbers(events[2:], 2)
    with pytest.raises(ValueError, match="event 3 cannot follow event 1"):
        check_numbers((events[0], events[2]), 0)
