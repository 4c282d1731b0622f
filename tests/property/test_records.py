"""Events as plain dicts: nothing is lost on the way, and nothing unknown comes in."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from support.conversations import KEY, STARTED

from everturn_actors.errors import UnknownFormatError
from everturn_actors.events import Body, Event, ModelReplied, Received, SessionStarted, TurnStarted
from everturn_actors.model import ConversationKey, ToolCall, Usage
from everturn_actors.records import FORMAT_VERSION, from_record, to_record, type_name

instants = st.integers(0, 10**16).map(
    lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
)
bodies = st.one_of(*[st.from_type(kind) for kind in get_args(Body)])
events = st.builds(Event, seq=st.integers(1, 2**53), at=instants, body=bodies)


@given(events)
def test_an_event_survives_being_written_as_json(event: Event) -> None:
    """The log is the truth: what is read back is what happened."""
    text = json.dumps(to_record(event))

    assert from_record(json.loads(text)) == event


@pytest.mark.parametrize("kind", get_args(Body), ids=lambda kind: str(kind.__name__))
def test_every_type_of_event_has_a_name_and_comes_back(kind: type[Body]) -> None:
    """A type that was forgotten would be found by the first person who restarts."""

    @given(st.builds(Event, seq=st.integers(1, 99), at=instants, body=st.from_type(kind)))
    def round_trip(event: Event) -> None:
        record = to_record(event)

        assert record["type"] == type_name(event.body)
        assert isinstance(from_record(record).body, kind)
        assert from_record(record) == event

    round_trip()


def test_a_record_can_be_read_by_a_person() -> None:
    """The format is documented and diffed: names, order and time do not change by accident."""
    event = Event(
        seq=7,
        at=STARTED,
        body=ModelReplied(
            text="wait",
            calls=(ToolCall(call_id="a", name="bash"),),
            usage=Usage(input_tokens=5),
        ),
    )

    assert to_record(event) == snapshot(
        {
            "seq": 7,
            "at": "2026-11-21T22:49:56.123456Z",
            "type": "model_replied",
            "text": "wait",
            "calls": [{"call_id": "a", "name": "bash", "arguments": "{}"}],
            "usage": {"input_tokens": 5, "output_tokens": 0, "cached_tokens": 0},
        }
    )


def test_fields_that_hold_their_default_are_left_out() -> None:
    """Most events are small, and there are many."""
    assert to_record(Event(seq=2, at=STARTED, body=Received(text=""))) == {
        "seq": 2,
        "at": "2026-11-21T22:49:56.123456Z",
        "type": "received",
        "text": "",
    }


GOOD: dict[str, Any] = to_record(Event(seq=3, at=STARTED, body=Received(text="hi")))
STARTED_RECORD = to_record(Event(seq=1, at=STARTED, body=SessionStarted(session_id="s", key=KEY)))
REPLIED = to_record(Event(seq=5, at=STARTED, body=ModelReplied(text="")))


@pytest.mark.parametrize(
    ("record", "named"),
    [
        pytest.param({**GOOD, "type": "approval_asked"}, "approval_asked", id="type"),
        pytest.param({**GOOD, "type": ["received"]}, "type", id="type of another kind"),
        pytest.param({**GOOD, "attachments": []}, "attachments", id="field"),
        pytest.param({**GOOD, "text": 5}, "text", id="number for text"),
        pytest.param({**GOOD, "text": None}, "text", id="null for text"),
        pytest.param({**GOOD, "seq": "3"}, "seq", id="text for seq"),
        pytest.param({**GOOD, "seq": True}, "seq", id="truth for seq"),
        pytest.param({**GOOD, "at": "yesterday"}, "at", id="no time"),
        pytest.param({**GOOD, "at": "2026-11-21T22:49:56"}, "at", id="time without zone"),
        pytest.param({**GOOD, "at": 5}, "at", id="number for time"),
        pytest.param({k: v for k, v in GOOD.items() if k != "text"}, "text", id="field missing"),
        pytest.param({k: v for k, v in GOOD.items() if k != "at"}, "at", id="time missing"),
        pytest.param({k: v for k, v in GOOD.items() if k != "type"}, "type", id="type missing"),
        pytest.param({k: v for k, v in GOOD.items() if k != "seq"}, "seq", id="seq missing"),
        pytest.param({**STARTED_RECORD, "key": "c1"}, "key", id="text for key"),
        pytest.param({**STARTED_RECORD, "key": {"chat": "c"}}, "channel", id="part of a key"),
        pytest.param({**REPLIED, "calls": "bash"}, "calls", id="text for calls"),
        pytest.param({**REPLIED, "calls": [{"id": "a"}]}, "id", id="unknown field of a call"),
        pytest.param({**REPLIED, "usage": {"input_tokens": "5"}}, "input_tokens", id="usage"),
        pytest.param(
            {"seq": 9, "at": GOOD["at"], "type": "turn_finished", "turn": 1, "outcome": "won"},
            "outcome",
            id="unknown outcome",
        ),
        pytest.param(
            {"seq": 9, "at": GOOD["at"], "type": "status_changed", "status": "asleep"},
            "status",
            id="unknown status",
        ),
        pytest.param(
            {
                "seq": 9,
                "at": GOOD["at"],
                "type": "turn_started",
                "turn": 1,
                "received": ["2"],
                "window_messages": 100,
            },
            "received",
            id="text in a list of numbers",
        ),
    ],
)
def test_what_this_version_does_not_know_is_refused_by_name(
    record: dict[str, Any], named: str
) -> None:
    """Read as far as it goes, a log of another version would lose what it does not understand."""
    with pytest.raises(UnknownFormatError) as caught:
        from_record(record)

    assert f"event format {FORMAT_VERSION}" in str(caught.value)
    assert named in str(caught.value)
    assert f"event {record.get('seq')}" in str(caught.value)


def test_lists_come_back_as_tuples() -> None:
    """Values are frozen, and a list in one would make two equal states differ."""
    event = Event(seq=4, at=STARTED, body=TurnStarted(turn=1, received=(2, 3), window_messages=100))
    body = from_record(json.loads(json.dumps(to_record(event)))).body

    assert isinstance(body, TurnStarted)
    assert body.received == (2, 3)


def test_a_topic_is_part_of_the_key() -> None:
    """Two topics of one chat are two conversations."""
    key = ConversationKey(channel="telegram", chat="1", agent="a", topic="7")
    event = Event(seq=1, at=STARTED, body=SessionStarted(session_id="s", key=key))

    assert from_record(to_record(event)) == event
