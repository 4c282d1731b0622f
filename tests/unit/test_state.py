"""The one transition function: what it refuses, and what it keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.conversations import KEY, STARTED, Log, simple_turn

from everturn_actors.errors import CorruptJournalError
from everturn_actors.events import (
    Body,
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Received,
    SessionEnded,
    SessionStarted,
    StatusChanged,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import Reply, Step, ToolCall, ToolResult, Usage, UserMessage
from everturn_actors.state import SEEN_KEYS, SessionState, apply

RECEIVED = Received(text="hi")
TURN = TurnStarted(turn=1, received=(2,), window_messages=1000)
STEP = StepStarted(turn=1, step=1, model="m")
CALLS = (ToolCall(call_id="a", name="bash"), ToolCall(call_id="b", name="web"))
REPLIED = ModelReplied(text="wait", calls=CALLS)
ENDED = TurnFinished(turn=1, outcome="answered")


def after(*bodies: Body) -> SessionState:
    """Return the state of a new session after these events."""
    log = Log()
    for body in bodies:
        log.add(body)
    return of(log)


def of(log: Log) -> SessionState:
    """Return the state after a whole log."""
    state: SessionState | None = None
    for event in log.events:
        state = apply(state, event)
    assert state is not None
    return state


def finish(call_id: str) -> CallFinished:
    """Return a result."""
    return CallFinished(call_id=call_id, text=f"result {call_id}")


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param((SessionStarted(session_id="s1", key=KEY),), id="a second start"),
        pytest.param((TURN,), id="a turn without a message"),
        pytest.param(
            (RECEIVED, TurnStarted(turn=1, received=(), window_messages=9)), id="a turn for nothing"
        ),
        pytest.param((RECEIVED, replace(TURN, received=(3,))), id="a turn for an unknown message"),
        pytest.param((RECEIVED, replace(TURN, received=(2, 2))), id="one message twice"),
        pytest.param((RECEIVED, replace(TURN, turn=2)), id="a turn number left out"),
        pytest.param(
            (RECEIVED, TURN, RECEIVED, replace(TURN, turn=2, received=(4,))), id="a turn in a turn"
        ),
        pytest.param((RECEIVED, TURN, ENDED, replace(TURN, turn=2)), id="a message answered twice"),
        pytest.param((STEP,), id="a step without a turn"),
        pytest.param((RECEIVED, TURN, replace(STEP, turn=2)), id="a step of another turn"),
        pytest.param((RECEIVED, TURN, replace(STEP, step=2)), id="a step number left out"),
        pytest.param((RECEIVED, TURN, STEP, STEP), id="a step in a step"),
        pytest.param((RECEIVED, TURN, REPLIED), id="a reply without a step"),
        pytest.param((RECEIVED, TURN, STEP, REPLIED, REPLIED), id="a second reply"),
        pytest.param(
            (RECEIVED, TURN, STEP, replace(REPLIED, calls=CALLS[:1] * 2)), id="a call id twice"
        ),
        pytest.param((RECEIVED, TURN, CallStarted(call_id="a")), id="a call without a step"),
        pytest.param(
            (RECEIVED, TURN, STEP, CallStarted(call_id="a")), id="a call before the reply"
        ),
        pytest.param(
            (RECEIVED, TURN, STEP, REPLIED, CallStarted(call_id="x")), id="a call not made"
        ),
        pytest.param((RECEIVED, TURN, STEP, REPLIED, finish("x")), id="a result of no call"),
        pytest.param((RECEIVED, TURN, STEP, REPLIED, finish("a"), finish("a")), id="two results"),
        pytest.param(
            (RECEIVED, TURN, STEP, REPLIED, finish("a"), CallStarted(call_id="a")),
            id="a call started after its result",
        ),
        pytest.param(
            (RECEIVED, TURN, STEP, REPLIED, finish("a"), STEP), id="a step with half a step"
        ),
        pytest.param((RECEIVED, TURN, STEP, REPLIED, ENDED), id="an end with open calls"),
        pytest.param((RECEIVED, TURN, replace(ENDED, turn=2)), id="the end of another turn"),
        pytest.param((ENDED,), id="an end without a turn"),
        pytest.param((RECEIVED, TURN, SessionEnded(reason="reset")), id="ended in a turn"),
        pytest.param((SessionEnded(reason="reset"), RECEIVED), id="a message after the end"),
        pytest.param((SessionEnded(reason="reset"), StatusChanged(status="active")), id="revived"),
        pytest.param((StatusChanged(status="ended"),), id="ended without a reason"),
    ],
)
def test_an_event_that_cannot_follow_is_refused(bodies: tuple[Body, ...]) -> None:
    """A log that no version could have written must stop here, not become a wrong state."""
    *before, last = bodies
    state = after(*before)
    event = Event(seq=state.last_seq + 1, at=STARTED, body=last)

    with pytest.raises(CorruptJournalError, match=f"event {state.last_seq + 1} .* cannot stand"):
        apply(state, event)


def test_a_log_begins_with_its_session() -> None:
    """The head of a log that was cut off must not pass for a new session."""
    log = Log()
    received = log.add(RECEIVED)

    with pytest.raises(CorruptJournalError, match="begins with session_started"):
        apply(None, received)
    with pytest.raises(CorruptJournalError, match="begins with session_started"):
        apply(None, replace(log.events[0], seq=2))


@pytest.mark.parametrize("seq", [1, 2, 4])
def test_a_hole_or_a_repeat_in_the_numbers_is_refused(seq: int) -> None:
    """A missing event may be somebody's message; going on would hide the loss."""
    log = Log()
    log.add(RECEIVED)
    event = replace(log.add(RECEIVED), seq=seq)
    state = after(RECEIVED)

    with pytest.raises(CorruptJournalError, match="event 3 is missing"):
        apply(state, event)


def test_a_turn_goes_from_message_to_answer() -> None:
    """The whole path once: what was said, called and answered stands in one turn."""
    state = after(
        Received(text="hi", sender="ann"),
        TURN,
        STEP,
        REPLIED,
        CallStarted(call_id="a"),
        CallStarted(call_id="b"),
        finish("b"),
        finish("a"),
        replace(STEP, step=2),
        ModelReplied(text="done", usage=Usage(input_tokens=3)),
        ENDED,
    )
    (turn,) = state.pending

    assert turn.users == (UserMessage(seq=2, text="hi", sender="ann"),)
    assert turn.steps == (
        Step(
            reply=Reply(seq=5, text="wait", calls=CALLS),
            results=(
                ToolResult(seq=9, call_id="a", name="bash", text="result a"),
                ToolResult(seq=8, call_id="b", name="web", text="result b"),
            ),
        ),
        Step(reply=Reply(seq=11, text="done", usage=Usage(input_tokens=3))),
    )
    assert (turn.text, turn.outcome, state.open_turn) == ("done", "answered", None)
    assert (state.logged_messages, state.pending_messages, state.turns) == (5, 5, 1)
    assert not state.has_work


def test_messages_that_arrive_in_a_turn_wait_for_the_next_one() -> None:
    """Every accepted message is in exactly one turn, in the order of arrival."""
    before = (RECEIVED, RECEIVED, TURN, RECEIVED, RECEIVED)
    waiting = after(*before)
    joined = after(*before, ENDED, TurnStarted(turn=2, received=(3, 5), window_messages=7))

    assert [message.seq for message in waiting.waiting] == [3, 5, 6]
    assert joined.open_turn is not None
    assert [message.seq for message in joined.open_turn.users] == [3, 5]
    assert [message.seq for message in joined.waiting] == [6]
    assert joined.window_messages == 7


def test_a_turn_may_fail_before_its_reply() -> None:
    """A model that never answers must not leave the turn open for ever."""
    state = after(RECEIVED, TURN, STEP, replace(ENDED, outcome="failed", error="no key"))

    assert state.pending[0].steps == ()
    assert (state.pending[0].outcome, state.pending[0].error) == ("failed", "no key")


def test_a_call_may_get_its_result_without_having_begun() -> None:
    """Cancelled and skipped calls never run, and still need their result."""
    state = after(RECEIVED, TURN, STEP, replace(REPLIED, calls=CALLS[:1]), finish("a"))

    assert state.open_turn is not None
    assert state.open_turn.step is None
    assert len(state.open_turn.steps) == 1


def test_pending_turns_become_checkpointed_after_fifty_events() -> None:
    """A snapshot holds only what is checkpointed: without a roll, a log grows for ever."""
    log = Log()
    for number in range(1, 10):  # five events each
        log.run(simple_turn(number))
    before = of(log)
    log.run(simple_turn(10))
    rolled = of(log)

    assert (before.checkpointed, before.checkpoint_seq, before.pending_messages) == ((), 0, 18)
    assert (rolled.pending, rolled.pending_messages, rolled.checkpointed_messages) == ((), 0, 20)
    assert rolled.checkpoint_seq == rolled.last_seq == 51
    assert rolled.held_turns == (*before.pending, rolled.checkpointed[-1])


@pytest.mark.parametrize(("messages", "pending"), [(48, 49), (49, 0)])
def test_fifty_pending_messages_become_checkpointed(messages: int, pending: int) -> None:
    """One turn may answer many messages that came long before: few events, and yet a roll."""
    log = Log()
    received = tuple(log.add(RECEIVED).seq for _ in range(messages))
    log.add(StatusChanged(status="paused"))
    log.add(TurnStarted(turn=1, received=received, window_messages=1000))
    for body in (STEP, ModelReplied(text="all"), ENDED):
        log.add(body)
    state = of(log)

    assert state.pending_messages == pending
    assert state.checkpointed_messages == messages + 1 - pending


def test_the_oldest_whole_turns_leave_the_window() -> None:
    """Memory stays bounded; how much has gone is known, because the model is told."""
    log = Log()
    for number in range(1, 31):
        log.run(simple_turn(number, calls=(2, 0)), window_messages=100)  # five messages each
    state = of(log)

    assert [turn.number for turn in state.held_turns] == list(range(11, 31))
    assert state.logged_messages == 150
    assert state.conversation.left_messages == 50


def test_a_running_turn_counts_in_the_window_and_is_never_cut() -> None:
    """A turn of many steps lets old turns go, and stays whole itself."""
    log = Log()
    for number in range(1, 26):
        log.run(simple_turn(number), window_messages=50)
    log.add(StatusChanged(status="active"))
    received = log.add(RECEIVED).seq
    log.add(TurnStarted(turn=26, received=(received,), window_messages=50))
    for step in range(1, 71):
        log.add(StepStarted(turn=26, step=step, model="m"))
        log.add(ModelReplied(text="", calls=CALLS[:1]))
        log.add(finish("a"))
    state = of(log)

    assert state.checkpointed == ()
    assert state.conversation.left_messages == 50
    assert state.open_turn is not None
    assert len(state.open_turn.steps) == 70


def test_an_open_step_is_not_counted_as_left() -> None:
    """A reply whose calls still run is not missing, it is on its way."""
    state = after(RECEIVED, TURN, STEP, REPLIED, finish("a"))

    assert (state.logged_messages, state.conversation.left_messages) == (3, 0)


def test_usage_adds_up_over_the_session() -> None:
    """Cost is read from here; a turn that failed has cost as well."""
    used = Usage(input_tokens=10, output_tokens=2, cached_tokens=4)
    first = (STEP, ModelReplied(text="a", usage=used), replace(ENDED, outcome="failed"))
    state = after(
        RECEIVED,
        TURN,
        *first,
        RECEIVED,
        replace(TURN, turn=2, received=(7,)),
        replace(STEP, turn=2),
        ModelReplied(text="b", usage=used),
    )

    assert state.usage == Usage(input_tokens=20, output_tokens=4, cached_tokens=8)


def test_the_latest_idempotency_keys_are_remembered() -> None:
    """A repeat is a repeat also long after; but the memory of keys is bounded."""
    log = Log()
    for number in range(SEEN_KEYS + 5):
        log.add(Received(text="hi", idempotency_key=f"k{number}"))
    log.add(Received(text="no key"))
    seen = of(log).seen

    assert len(seen) == SEEN_KEYS
    assert next(iter(seen)) == "k5"
    assert seen[f"k{SEEN_KEYS + 4}"] == SEEN_KEYS + 6
    assert "" not in seen


def test_a_paused_session_keeps_its_turn_and_goes_on() -> None:
    """A pause is a status, nothing is lost by it; and each change is a checkpoint."""
    paused = after(RECEIVED, TURN, STEP, StatusChanged(status="paused"))
    active = after(
        RECEIVED, TURN, STEP, StatusChanged(status="paused"), StatusChanged(status="active")
    )

    assert (paused.status, paused.checkpoint_seq, paused.has_work) == ("paused", 5, True)
    assert (active.status, active.checkpoint_seq) == ("active", 6)
    assert active.open_turn == paused.open_turn is not None


def test_an_ended_session_has_nothing_left_to_do() -> None:
    """It must not be woken again for messages that nobody will answer."""
    state = after(RECEIVED, TURN, ENDED, RECEIVED, SessionEnded(reason="expired"))

    assert (state.status, state.ended_reason, state.has_work) == ("ended", "expired", False)
    assert state.waiting == ()
    assert state.checkpoint_seq == state.last_seq
    assert [turn.number for turn in state.checkpointed] == [1]


def test_the_callers_instructions_reach_the_conversation() -> None:
    """They belong to the session, so a restart must not lose them."""
    log = Log()
    started = SessionStarted(session_id="s1", key=KEY, instructions="Speak French.")
    state = apply(None, replace(log.events[0], body=started))

    assert state.conversation.instructions == "Speak French."
    assert (state.created_at, state.key) == (log.events[0].at, KEY)
    assert state.created_at > STARTED
