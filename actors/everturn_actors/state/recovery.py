"""Bringing a session back: replay, and the events that close what a crash cut short. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import Struct

from everturn_actors.errors import CorruptJournalError, NothingToRetryError
from everturn_actors.events import Body, CallFinished, Event, StepStarted, TurnFinished
from everturn_actors.model import OpenStep, OpenTurn, Outcome, ToolCall
from everturn_actors.spec import AgentSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState

INTERRUPTED = "interrupted by a restart, outcome unknown"
UNANSWERED = "; what it asked a person went with it, and an answer reached nobody"
PAUSED = "interrupted when nobody waited for the answer any more, outcome unknown"
CANCELLED = "cancelled before it finished"


class Recovered(Struct, frozen=True, kw_only=True):
    """A session as it was before the process ended."""

    state: SessionState
    checkpoint: SessionState | None
    "The state at its last checkpoint: what a snapshot holds. None before the first."


def recover(snapshot: SessionState | None, events: Iterable[Event]) -> Recovered | None:
    """Replay `events`, oldest first, on top of `snapshot`.

    Events that the snapshot already holds are passed over. None where there is nothing at all.

    Raises:
        CorruptJournalError: The events do not follow each other or the snapshot.
    """
    state, checkpoint = snapshot, snapshot
    for event in events:
        if state is not None and event.seq <= state.last_seq:
            continue
        try:
            state = apply(state, event)
        except CorruptJournalError as error:
            raise _cannot_stand(state, error) from error
        if state.checkpoint_seq == state.last_seq:
            checkpoint = state
    return None if state is None else Recovered(state=state, checkpoint=checkpoint)


def _cannot_stand(state: SessionState | None, error: CorruptJournalError) -> CorruptJournalError:
    """Return the error of an event that is whole and makes no sense, with the way out."""
    log = f"the log of session {state.session_id}" if state else "the log"
    return CorruptJournalError(
        f"{log}: {error}. Nothing was changed; `everturn doctor --repair` sets it aside and"
        " rebuilds the session from what is good"
    )


def is_expired(state: SessionState, ttl_hours: float, now: datetime) -> bool:
    """Whether nothing was said for longer than `ttl_hours` (0 = for ever), and nothing is open."""
    if state.status == "ended" or (state.has_work and state.status == "active"):
        return False
    return 0 < ttl_hours * 3600 < (now - state.updated_at).total_seconds()


def close_interrupted(
    turn: OpenTurn, is_repeatable: Callable[[ToolCall], bool], text: str = INTERRUPTED
) -> list[Body]:
    """Return the results that an interruption owes, for calls that had begun: all is lost of them.

    A repeatable call gets none: it is run again. `text` tells the model what happened.
    """
    step = turn.step
    if step is None or step.reply is None:
        return []
    return [
        CallFinished(call_id=call.call_id, text=text + _unanswered(step, call), is_error=True)
        for call in step.reply.calls
        if call.call_id in step.started
        and call.call_id not in step.results
        and not is_repeatable(call)
    ]


def _unanswered(step: OpenStep, call: ToolCall) -> str:
    """Return what is told besides of a call that waited for a person in its middle."""
    approval = step.approvals.get(call.call_id)
    waited = approval is not None and approval.inquiry is not None and approval.resolution is None
    return UNANSWERED if waited else ""


def why_no_retry(state: SessionState) -> NothingToRetryError | None:
    """Return why no turn can be asked again now; None where the newest one can."""
    newest = state.newest_turn
    if state.open_turn is not None:
        why = "a turn is under way; it has to end first"
    elif state.is_asked:
        why = "a newer message waits for its turn"
    elif newest is None:
        why = "nothing was asked here yet"
    elif newest.outcome == "answered":
        why = "the newest message was answered"
    elif newest.outcome == "cancelled":
        why = "the newest turn was cancelled, and did not fail; send the message again"
    else:
        return None
    return NothingToRetryError(f"there is nothing to ask again: {why}")


def first_step(turn: OpenTurn, spec: AgentSpec) -> StepStarted:
    """Return the event that begins the next step of `turn`."""
    return StepStarted(turn=turn.number, step=len(turn.steps) + 1, model=spec.model.name)


def close_turn(
    turn: OpenTurn,
    outcome: Outcome,
    error: str,
    by: str = "",
    text: str = CANCELLED,
    partial: str = "",
) -> list[Body]:
    """Return the events that end `turn` here: first a result, `text`, for every call without."""
    bodies: list[Body] = []
    step = turn.step
    if step is not None and step.reply is not None:
        bodies += [
            CallFinished(call_id=call.call_id, text=text, is_error=True)
            for call in step.reply.calls
            if call.call_id not in step.results
        ]
    end = TurnFinished(turn=turn.number, outcome=outcome, error=error, by=by, partial=partial)
    return [*bodies, end]
