"""Logs for the suites: sessions as they could have happened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from everturn_actors.events import (
    Body,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import ConversationKey, Usage
from everturn_actors.ports import SessionStore
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState

SESSION_ID: Final = "20261121T224956123-3f9a2c1b"
OTHER_ID: Final = "20261121T225001456-00c0ffee"
KEY: Final = ConversationKey(channel="http", chat="c1", agent="assistant")
STARTED_AT: Final = datetime(2026, 11, 21, 22, 49, 56, 123456, tzinfo=UTC)
NO_IDS: Final = ("", "nope", "../../etc/passwd", f"{SESSION_ID}/x", f"{SESSION_ID}\n", "x" * 5000)


def moment(after_us: int) -> datetime:
    """Return a time so many microseconds after the session began."""
    return STARTED_AT + timedelta(microseconds=after_us)


def replay(events: tuple[Event, ...]) -> SessionState:
    """Return the state after all of `events`."""
    state: SessionState | None = None
    for event in events:
        state = apply(state, event)
    assert state is not None
    return state


def started(session_id: str = SESSION_ID, *, key: ConversationKey = KEY) -> Event:
    """Return the first event of a session."""
    return Event(seq=1, at=STARTED_AT, body=SessionStarted(session_id=session_id, key=key))


def next_event(last_seq: int) -> Event:
    """Return an event that may follow the one of this number."""
    return Event(seq=last_seq + 1, at=moment(10**9), body=Received(text="and more"))


async def state_in(store: SessionStore, session_id: str = SESSION_ID) -> SessionState:
    """Return what a restart would bring back."""
    loaded = await store.load(session_id)
    assert loaded is not None
    recovered = recover(loaded.snapshot, loaded.events)
    assert recovered is not None
    return recovered.state


def simple_log(turns: int, *, session_id: str = SESSION_ID) -> tuple[Event, ...]:
    """Return the log of a session with so many answered turns: 1 + 5 events each."""
    events: list[Event] = []

    def add(body: Body) -> None:
        seq = len(events) + 1
        events.append(Event(seq=seq, at=moment(seq * 1_000_000), body=body))

    add(SessionStarted(session_id=session_id, key=KEY))
    for turn in range(1, turns + 1):
        _add_turn(add, turn, len(events) + 1)
    return tuple(events)


def _add_turn(add: Callable[[Body], None], turn: int, seq: int) -> None:
    add(Received(text=f"question {turn}", sender="alice", idempotency_key=f"key-{turn}"))
    add(TurnStarted(turn=turn, received=(seq,), window_messages=1000))
    add(StepStarted(turn=turn, step=1, model="test-model"))
    add(ModelReplied(text=f"answer {turn}", usage=Usage(input_tokens=9, output_tokens=3)))
    add(TurnFinished(turn=turn, outcome="answered"))


LOG: Final = simple_log(3)
"16 events."
