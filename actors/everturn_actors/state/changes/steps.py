"""From one state to the next: what all events have in common. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from everturn_actors.context.estimation.window import let_go
from everturn_actors.errors import CorruptJournalError
from everturn_actors.events import Event
from everturn_actors.model import OpenTurn, UserMessage
from everturn_actors.state.session_state import SessionState

ANNOUNCED_S = 30 * 86_400  # so long an announcement waits for a turn that is told of it


_END = datetime.max.replace(tzinfo=UTC)


OVERTAKEN = -1  # in `PromptFingerprint.messages`: a summary came while the model was answering


def after(event: Event, seconds: float) -> datetime:
    """Return when so many seconds have passed since an event; at the latest when time ends."""
    try:
        return event.at + timedelta(seconds=seconds)
    except OverflowError:
        return _END


def impossible(event: Event, why: str) -> CorruptJournalError:
    """Return the error of an event that cannot follow."""
    kind = type(event.body).__name__
    return CorruptJournalError(f"event {event.seq} ({kind}) cannot stand here: {why}")


def advance(state: SessionState, event: Event, **changes: object) -> SessionState:
    """Return the state with some fields changed, at the moment of an event."""
    return replace(state, last_seq=event.seq, updated_at=event.at, **changes)


def needed_messages(
    state: SessionState, event: Event, received: tuple[int, ...]
) -> tuple[UserMessage, ...]:
    """Return the messages with these numbers, which must all wait."""
    users = tuple([m for m in state.waiting if m.seq in received])
    if len(users) != len(received) or not users:
        raise impossible(event, "it names messages that do not wait")
    return users


def needed_turn(state: SessionState, event: Event) -> OpenTurn:
    """Return the open turn, without which an event cannot be."""
    if state.open_turn is None:
        raise impossible(event, "no turn is open")
    return state.open_turn


def is_overtaken(state: SessionState) -> bool:
    """Whether a summary came while the model was answering."""
    return state.fingerprint.messages == OVERTAKEN


def with_checkpoint(state: SessionState) -> SessionState:
    """Make all pending turns checkpointed."""
    return within_window(
        replace(
            state,
            checkpoint_seq=state.last_seq,
            checkpointed=state.checkpointed + state.pending,
            checkpointed_messages=state.checkpointed_messages + state.pending_messages,
            pending=(),
            pending_messages=0,
        )
    )


def within_window(state: SessionState) -> SessionState:
    """Let whole turns leave the old end until the messages fit the window."""
    held = state.held_messages
    if held <= state.window_messages or not state.checkpointed:
        return state
    turns, messages = let_go(
        state.checkpointed, held_messages=held, limit_messages=state.window_messages
    )
    return replace(
        state,
        checkpointed=state.checkpointed[turns:],
        checkpointed_messages=state.checkpointed_messages - messages,
    )
