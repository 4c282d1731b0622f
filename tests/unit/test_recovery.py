"""Replay, and what a restart owes to a turn that was cut short."""

from __future__ import annotations

import pytest
from support.conversations import Log, simple_turn

from everturn_actors.errors import CorruptJournalError
from everturn_actors.events import (
    CallFinished,
    CallStarted,
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


def test_a_call_whose_outcome_is_lost_is_closed_once() -> None:
    """It may have run: it must not run again, and it must not stay without a result."""
    bodies = close_interrupted(running(cut_short()), lambda _: False)

    assert bodies == [
        CallFinished(call_id="b", text=INTERRUPTED, is_error=True),
        CallFinished(call_id="c", text=INTERRUPTED, is_error=True),
    ]

    # Reading twice does no harm, and the model gets the answer it asked for.
    bodies = close_interrupted(running(cut_short()), lambda call: call.name == "tool_b")

    assert bodies == [CallFinished(call_id="c", text=INTERRUPTED, is_error=True)]

    # A crash right after recovery must not add a second result to the same call.
    log = cut_short()
    for body in close_interrupted(running(log), lambda _: False):
        log.add(body)

    assert close_interrupted(running(log), lambda _: False) == []
    assert [c.call_id for c in CALLS if c.call_id not in running_results(log)] == ["d"]

    # A model call without reply is made again; there is nothing to close.
    log = Log()
    opened(log)

    assert close_interrupted(running(log), lambda _: False) == []
    log.add(StepStarted(turn=1, step=1, model="m"))
    assert close_interrupted(running(log), lambda _: False) == []


def running_results(log: Log) -> set[str]:
    """Return the ids of the calls of the open step that have a result."""
    step = running(log).step
    assert step is not None
    return set(step.results)


def test_a_turn_can_be_closed_with_calls_open_or_before_its_reply() -> None:
    """Every call gets its result first: half a step can never be sent to a model again."""
    outcomes: tuple[Outcome, ...] = ("failed", "cancelled", "interrupted")
    for outcome in outcomes:
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

    # A cancel may come at any moment.
    log = Log()
    opened(log)
    log.add(StepStarted(turn=1, step=1, model="m"))

    assert close_turn(running(log), "cancelled", "") == [TurnFinished(turn=1, outcome="cancelled")]


def test_a_snapshot_and_later_events_give_the_same_state() -> None:
    """Promise 4: snapshot and log replay to the same state."""
    log = Log()
    for number in range(1, 27):
        log.run(simple_turn(number))
    whole = recover(None, log.events)

    # The snapshot that a crash prevented is written after the replay instead.
    assert whole is not None
    assert whole.state.turns == 26
    snapshot = whole.checkpoint
    assert snapshot is not None
    assert snapshot.turns == 20
    assert snapshot.checkpoint_seq == snapshot.last_seq

    later = [event for event in log.events if event.seq > snapshot.last_seq]
    assert recover(snapshot, later) == whole
    assert recover(snapshot, log.events) == whole  # the log may still hold what is behind it
    assert recover(snapshot, []) == recover(None, log.events[: snapshot.last_seq])

    # A short session is only its log, and one that was never written does not exist.
    short = recover(None, cut_short().events)
    assert short is not None
    assert short.checkpoint is None
    assert recover(None, []) is None


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
