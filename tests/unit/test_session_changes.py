"""What a list says of a session as it changes."""

from __future__ import annotations

from datetime import UTC, datetime

from everturn_actors.events import (
    Body,
    Discarded,
    Edited,
    Event,
    Received,
    SessionStarted,
    TurnStarted,
)
from everturn_actors.model import ConversationKey
from everturn_actors.ports import NullObserver
from everturn_actors.state.apply import apply
from everturn_actors.state.queue import WITHDRAWN
from everturn_actors.state.session_state import SessionState
from everturn_gateway.session_changes import Changes

SESSION = "20261122T000000000-00000000"
KEY = ConversationKey(channel="test", chat="chat", agent="test")
HELLO = ("hello", "hello")


def test_a_list_shows_no_message_that_its_writer_took_back() -> None:
    """Neither as its title nor as what was said last, whoever looks when."""
    changes, state = Changes(NullObserver()), None
    shown = list[tuple[str, str]]()
    bodies: list[Body] = [
        SessionStarted(session_id=SESSION, key=KEY),
        Received(text="my code is 1234"),
        Edited(received=2, text="my code is secret"),
        Discarded(received=(2,), reason=WITHDRAWN),
        Received(text="hello"),
        TurnStarted(turn=1, received=(5,), window_messages=100),
        Received(text="and 5678"),
        Discarded(received=(7,), reason=WITHDRAWN),
    ]
    for seq, body in enumerate(bodies, 1):
        event = Event(seq=seq, at=datetime(2026, 11, 22, tzinfo=UTC), body=body)
        before: SessionState | None = state
        state = apply(state, event)
        changes.durable(before, state, (event,))
        (row,) = changes.since(changes.version - 1)
        shown.append((row.title, row.preview))

    assert shown[1:] == [
        ("my code is 1234", "my code is 1234"),
        ("my code is secret", "my code is secret"),
        ("", ""),
        HELLO,
        HELLO,
        ("hello", "and 5678"),
        HELLO,
    ]
