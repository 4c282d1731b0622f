"""Replay, and what a restart owes to a turn that was cut short."""

from __future__ import annotations

import pytest
from support.conversations import Log, simple_turn
from support.tables import table

from everturn_actors.errors import CorruptJournalError
from everturn_actors.events import (
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Received,
    StatusChanged,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import OpenTurn, Outcome, ToolCall
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import (
    CANCELLED,
    INTERRUPTED,
    close_interrupted,
    close_turn,
    recover,
)
from everturn_actors.state.session_state import SessionState

CALLS = tuple(ToolCall(call_id=call_id, name=f"tool_{call_id}") for call_id in "abcd")


def opened(log: Log, number: int = 1) -> None:
    """Begin a turn."""
    received = log.add(Received(text="go")).seq
    log.add(TurnStarted(turn=number, received=(received,), window_messages=1000))


def cut_short() -> Log:
    """Return a log that ends with a finished, two begun and one call that has not begun."""
    log = Log()
    opened(log)
    log.add(StepStarted(turn=1, step=1, model="m"))
    log.add(ModelReplied(text="", calls=CALLS))
    for call_id in "abc":
        log.add(CallStarted(call_id=call_id))
    log.add(CallFinished(call_id="a", text="done"))
    return log


def recovered(log: Log) -> SessionState:
    """Return the state of a log."""
    found = recover(None, log.events)
    assert found is not None
    return found.state


def running(log: Log) -> OpenTurn:
    """Return the open turn of a log."""
    turn = recovered(log).open_turn
    assert turn is not None
    return turn


def test_a_call_whose_outcome_is_lost_is_closed() -> None:
    """It may have run: it must not run again, and it must not stay without a result."""
    bodies = close_interrupted(running(cut_short()), lambda _: False)

    assert bodies == [
        CallFinished(call_id="b", text=INTERRUPTED, is_error=True),
        CallFinished(call_id="c", text=INTERRUPTED, is_error=True),
    ]


def test_a_repeatable_call_is_left_to_run_again() -> None:
    """Reading twice does no harm, and the model gets the answer it asked for."""
    bodies = close_interrupted(running(cut_short()), lambda call: call.name == "tool_b")

    assert bodies == [CallFinished(call_id="c", text=INTERRUPTED, is_error=True)]


def test_nothing_is_owed_while_a_reply_is_awaited() -> None:
    """A model call without reply is made again; there is nothing to close."""
    log = Log()
    opened(log)

    assert close_interrupted(running(log), lambda _: False) == []
    log.add(StepStarted(turn=1, step=1, model="m"))
    assert close_interrupted(running(log), lambda _: False) == []


def test_recovery_appends_its_results_once() -> None:
    """A crash right after recovery must not add a second result to the same call."""
    log = cut_short()
    for body in close_interrupted(running(log), lambda _: False):
        log.add(body)

    assert close_interrupted(running(log), lambda _: False) == []
    assert [c.call_id for c in CALLS if c.call_id not in running_results(log)] == ["d"]


def running_results(log: Log) -> set[str]:
    """Return the ids of the calls of the open step that have a result."""
    step = running(log).step
    assert step is not None
    return set(step.results)


@table("outcome", ["failed", "cancelled", "interrupted"])
def test_a_turn_can_be_closed_with_calls_open(outcome: Outcome) -> None:
    """Every call gets its result first: half a step can never be sent to a model again."""
    log = cut_short()
    bodies = close_turn(running(log), outcome, "why")
    for body in bodies:
        log.add(body)
    state = recovered(log)

    assert bodies[:-1] == [
        CallFinished(call_id=call_id, text=CANCELLED, is_error=True) for call_id in "bcd"
    ]
    assert bodies[-1] == TurnFinished(turn=1, outcome=outcome, error="why")
    assert [r.text for r in state.pending[0].steps[0].results] == ["done", *[CANCELLED] * 3]


def test_a_turn_without_a_reply_can_be_closed() -> None:
    """A cancel may come at any moment."""
    log = Log()
    opened(log)
    log.add(StepStarted(turn=1, step=1, model="m"))

    assert close_turn(running(log), "cancelled", "") == [TurnFinished(turn=1, outcome="cancelled")]


def test_nothing_recovers_to_nothing() -> None:
    """A session that was never written does not exist."""
    assert recover(None, []) is None


def test_a_log_without_snapshot_recovers_with_its_checkpoint() -> None:
    """The snapshot that a crash prevented is written after the replay instead."""
    log = Log()
    for number in range(1, 27):
        log.run(simple_turn(number))
    found = recover(None, log.events)

    assert found is not None
    assert found.state.turns == 26
    assert found.checkpoint is not None
    assert found.checkpoint.turns == 20
    assert found.checkpoint.checkpoint_seq == found.checkpoint.last_seq


def test_a_snapshot_and_later_events_give_the_same_state() -> None:
    """Promise 4: snapshot and log replay to the same state."""
    log = Log()
    for number in range(1, 27):
        log.run(simple_turn(number))
    whole = recover(None, log.events)
    assert whole is not None
    snapshot = whole.checkpoint
    assert snapshot is not None
    later = [event for event in log.events if event.seq > snapshot.last_seq]

    assert recover(snapshot, later) == whole
    assert recover(snapshot, log.events) == whole  # the log may still hold what is behind it
    assert recover(snapshot, []) == recover(None, log.events[: snapshot.last_seq])


def test_a_log_that_does_not_reach_the_snapshot_is_refused() -> None:
    """A hole between snapshot and log is lost events, not an old log."""
    log = Log()
    opened(log)
    log.add(StatusChanged(status="paused"))
    snapshot = recovered(log)
    first = log.add(StatusChanged(status="active"))
    second = log.add(StatusChanged(status="paused"))

    assert apply(apply(snapshot, first), second).status == "paused"
    with pytest.raises(CorruptJournalError, match="event 5 is missing"):
        recover(snapshot, [second])


def test_before_the_first_checkpoint_there_is_no_snapshot() -> None:
    """A short session is only its log."""
    events: list[Event] = cut_short().events
    found = recover(None, events)

    assert found is not None
    assert found.checkpoint is None
