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
from support.tables import table

from everturn_actors.errors import UnknownFormatError
from everturn_actors.events import (
    AmbientStored,
    Body,
    ContextReduced,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    Summarised,
    TurnStarted,
)
from everturn_actors.model import (
    CallOptions,
    ConversationKey,
    PromptFingerprint,
    Replaced,
    ToolCall,
    ToolDefinition,
    Usage,
)
from everturn_actors.state.serialization import (
    FORMAT_VERSION,
    decode_event,
    encode_event,
    from_record,
    to_record,
    type_name,
)

instants = st.integers(0, 10**16).map(
    lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
)
objects = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=5,
    ),
    max_size=3,
)
shares = st.none() | st.floats(0, 1)
st.register_type_strategy(
    CallOptions,
    st.builds(
        CallOptions,
        tools=st.lists(
            st.builds(ToolDefinition, name=st.text(), description=st.text(), parameters=objects),
            max_size=2,
        ).map(tuple),
        response_format=objects,
        temperature=shares,
        top_p=shares,
        presence_penalty=shares,
        frequency_penalty=shares,
    ),
)
# JSON has no others, and none is let in: `sound_seconds`.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


@table("kind", get_args(Body))
def test_every_type_of_event_has_a_name_and_comes_back(kind: type[Body]) -> None:
    """A type that was forgotten would be found by the first person who restarts."""

    @given(st.builds(Event, seq=st.integers(1, 2**53), at=instants, body=st.from_type(kind)))
    def round_trip(event: Event) -> None:
        record = json.loads(json.dumps(to_record(event)))

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
            fingerprint=PromptFingerprint(prefix="9f86d081", messages=3, units=4_700),
        ),
    )

    assert to_record(event) == snapshot(
        {
            "seq": 7,
            "at": "2026-11-21T22:49:56.123456Z",
            "type": "model_replied",
            "text": "wait",
            "calls": [{"call_id": "a", "name": "bash", "arguments": "{}"}],
            "usage": {"input_tokens": 5},
            "fingerprint": {"prefix": "9f86d081", "messages": 3, "units": 4700},
        }
    )

    # Most events are small, and there are many.
    assert to_record(Event(seq=2, at=STARTED, body=Received(text=""))) == {
        "seq": 2,
        "at": "2026-11-21T22:49:56.123456Z",
        "type": "received",
        "text": "",
    }


def test_what_was_hidden_can_be_read_by_a_person() -> None:
    """Whoever asks why the model did not know finds the answer in the log."""
    reduced = ContextReduced(
        stage="clear",
        cut_turn=3,
        dropped=(12, 13),
        replaced=(Replaced(seq=9, disposition="shortened", text="a", arguments=("{}",)),),
        messages=5,
        tokens_before=900,
        tokens_after=12,
    )
    summarised = Summarised(last_turn=2, messages=4, text="They met.", source="digest", error="no")

    assert to_record(Event(seq=14, at=STARTED, body=reduced)) == snapshot(
        {
            "seq": 14,
            "at": "2026-11-21T22:49:56.123456Z",
            "type": "context_reduced",
            "stage": "clear",
            "cut_turn": 3,
            "dropped": [12, 13],
            "replaced": [{"seq": 9, "disposition": "shortened", "text": "a", "arguments": ["{}"]}],
            "messages": 5,
            "tokens_before": 900,
            "tokens_after": 12,
        }
    )
    assert to_record(Event(seq=15, at=STARTED, body=summarised)) == snapshot(
        {
            "seq": 15,
            "at": "2026-11-21T22:49:56.123456Z",
            "type": "summarised",
            "last_turn": 2,
            "messages": 4,
            "text": "They met.",
            "source": "digest",
            "error": "no",
        }
    )


GOOD: dict[str, Any] = to_record(Event(seq=3, at=STARTED, body=Received(text="hi")))
STARTED_RECORD = to_record(Event(seq=1, at=STARTED, body=SessionStarted(session_id="s", key=KEY)))
REPLIED = to_record(Event(seq=5, at=STARTED, body=ModelReplied(text="")))
REDUCED = to_record(Event(seq=6, at=STARTED, body=ContextReduced(stage="clear")))
REPLACED = {"seq": 2, "disposition": "cleared", "text": "t"}
SUMMARISED = to_record(Event(seq=7, at=STARTED, body=Summarised(last_turn=1, messages=2, text="")))


@table(
    ("record", "named"),
    [
        pytest.param({**GOOD, "type": "moved"}, "moved", id="type"),
        pytest.param({**GOOD, "type": ["received"]}, "type", id="type of another kind"),
        pytest.param({**GOOD, "mood": []}, "mood", id="field"),
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
        pytest.param({**REPLIED, "calls": [{"id": "a"}]}, "calls[0].id", id="field of a call"),
        pytest.param({**REPLIED, "calls": ["bash"]}, "calls[0] must be object", id="call"),
        pytest.param({**REPLIED, "usage": {"input_tokens": "5"}}, "usage.input_", id="usage"),
        pytest.param(
            {**REPLIED, "fingerprint": "9f86"}, "fingerprint must be object", id="text for sent"
        ),
        pytest.param(
            {**REPLIED, "fingerprint": {"units": 1.5}}, "fingerprint.units must be int", id="sent"
        ),
        pytest.param(
            {**REPLIED, "fingerprint": {"is_cache_miss": 1}},
            "fingerprint.is_cache_miss must be bool",
            id="drift",
        ),
        pytest.param({**REDUCED, "dropped": 5}, "dropped must be array", id="dropped"),
        pytest.param({**REDUCED, "dropped": [5, "6"]}, "dropped[1] must be int", id="of dropped"),
        pytest.param({**REDUCED, "replaced": REPLACED}, "replaced must be array", id="replaced"),
        pytest.param(
            {**REDUCED, "replaced": [REPLACED, {**REPLACED, "disposition": "eaten"}]},
            "replaced[1].disposition is 'eaten', which is none of",
            id="disposition",
        ),
        pytest.param(
            {**REDUCED, "replaced": [{"seq": 2, "text": "t"}]},
            "replaced[0].disposition is missing",
            id="none",
        ),
        pytest.param(
            {**REDUCED, "replaced": [{**REPLACED, "arguments": "{}"}]},
            "replaced[0].arguments must be array",
            id="text for arguments",
        ),
        pytest.param(
            {**REDUCED, "replaced": [{**REPLACED, "arguments": ["{}", {}]}]},
            "replaced[0].arguments[1] must be str",
            id="object for an argument",
        ),
        pytest.param({**SUMMARISED, "source": "me"}, "source is 'me', which", id="source"),
        pytest.param({**SUMMARISED, "first_turn": 1}, "first_turn is a field that", id="first"),
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


def test_what_is_read_equals_what_was_written() -> None:
    """By an older version as well, and in the types that states are compared with."""
    # A log is never written again: what an older version called otherwise stays in it.
    event = Event(seq=4, at=STARTED, body=AmbientStored(text='a "type":"silent_message"'))
    line, record = encode_event(event), to_record(event)

    assert record["type"] == "ambient_stored"
    assert decode_event(line.replace(b"ambient_stored", b"silent_message", 1)) == event
    assert from_record({**record, "type": "silent_message"}) == event

    # Values are frozen, and a list in one would make two equal states differ.
    event = Event(seq=4, at=STARTED, body=TurnStarted(turn=1, received=(2, 3), window_messages=100))
    body = from_record(json.loads(json.dumps(to_record(event)))).body

    assert isinstance(body, TurnStarted)
    assert body.received == (2, 3)

    # Two topics of one chat are two conversations.
    key = ConversationKey(channel="telegram", chat="1", agent="a", topic="7")
    event = Event(seq=1, at=STARTED, body=SessionStarted(session_id="s", key=key))

    assert from_record(to_record(event)) == event
