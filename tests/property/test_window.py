"""The message-count window over whole sessions, through the one transition function."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from support.conversations import Log, logs, simple_turn

from everturn_actors.context.estimation.window import let_go
from everturn_actors.events import Event, ModelReplied, TurnFinished, TurnStarted
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState

shapes = st.lists(st.tuples(st.integers(1, 3), st.lists(st.integers(0, 5), max_size=3)))


@given(shapes, st.integers(0, 60), st.integers(0, 60))
@example([], 10, 0)
def test_only_as_many_whole_turns_leave_as_are_needed(
    drawn: list[tuple[int, list[int]]], pending: int, limit: int
) -> None:
    """One turn more would be history lost for nothing, one less a window that does not hold."""
    turns = [
        simple_turn(number, users=users, calls=calls)
        for number, (users, calls) in enumerate(drawn, 1)
    ]
    held = sum(turn.size_messages for turn in turns) + pending
    gone, messages = let_go(turns, held_messages=held, limit_messages=limit)

    assert messages == sum(turn.size_messages for turn in turns[:gone])
    assert gone == len(turns) or held - messages <= limit
    assert gone == 0 or held - messages + turns[gone - 1].size_messages > limit


def states(events: list[Event]) -> list[SessionState]:
    """Return the state after each event."""
    found: list[SessionState] = []
    for event in events:
        found.append(apply(found[-1] if found else None, event))
    return found


@given(st.integers(1, 120).flatmap(lambda window: logs(window_messages=window)))
def test_the_held_turns_are_the_newest_ones_and_pending_is_never_cut(events: list[Event]) -> None:
    """What is pending is in no snapshot: cut there, it would be gone after a crash."""
    finished: list[int] = []
    since_checkpoint: list[int] = []
    for event, state in zip(events, states(events), strict=True):
        if isinstance(event.body, TurnFinished):
            finished.append(event.body.turn)
            since_checkpoint.append(event.body.turn)
        if state.checkpoint_seq == event.seq:
            since_checkpoint = []
        held = [turn.number for turn in state.held_turns]

        assert held == finished[len(finished) - len(held) :]
        assert [turn.number for turn in state.pending] == since_checkpoint
        assert state.pending_messages < 50


@given(st.integers(1, 120).flatmap(lambda window: logs(window_messages=window)))
def test_the_window_holds_as_soon_as_there_is_something_to_let_go(events: list[Event]) -> None:
    """Memory and snapshot of a session stay bounded, however long people talk."""
    for event, state in zip(events, states(events), strict=True):
        conversation = state.conversation
        held = sum(turn.size_messages for turn in conversation.turns)
        running = conversation.current
        if running is not None:
            held += running.finished("answered", "").size_messages
        trimmed = isinstance(event.body, (TurnStarted, ModelReplied))

        if trimmed or state.checkpoint_seq == event.seq:
            assert held <= state.window_messages or not state.checkpointed
        if running is None or running.step is None:
            assert held + conversation.left_messages == state.logged_messages


@given(st.integers(1, 120).flatmap(lambda window: logs(window_messages=window)), st.data())
def test_a_replay_from_any_checkpoint_gives_the_same_state(
    events: list[Event], data: st.DataObject
) -> None:
    """IN-07: a restart may not change what the model is shown."""
    live = states(events)
    checkpoints = [state for state in live if state.checkpoint_seq == state.last_seq]
    snapshot = data.draw(st.sampled_from([None, *checkpoints]))
    recovered = recover(snapshot, events)

    assert recovered is not None
    assert recovered.state == live[-1]
    assert recovered.checkpoint == (checkpoints[-1] if checkpoints else None)


def test_a_window_below_a_roll_keeps_the_pending_turns() -> None:
    """The total may exceed the limit: pending messages are held until they are checkpointed."""
    log = Log()
    for number in range(1, 10):
        log.run(simple_turn(number), window_messages=1)
    pending = states(log.events)[-1]
    log.run(simple_turn(10), window_messages=1)
    rolled = states(log.events)[-1]

    assert (pending.pending_messages, pending.checkpointed_messages) == (18, 0)
    assert (rolled.pending_messages, rolled.checkpointed_messages) == (0, 0)
    assert rolled.conversation.left_messages == 20
