"""What becomes of commands: the same whatever else comes with them, and nothing by halves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from everturn_actors.errors import CommandFailedError, CorruptJournalError, SessionEndedError
from everturn_actors.events import (
    Body,
    Labelled,
    ModelReplied,
    Received,
    SessionStarted,
    StatusChanged,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    ConversationKey,
    IncomingMessage,
    Labels,
    Queueing,
)
from everturn_actors.protocol.commands import (
    Accepted,
    AnyCommand,
    Cancel,
    ClientDisconnected,
    End,
    GetState,
    Label,
    Pause,
    RecordTurn,
    Resume,
    Retry,
    Share,
    Submit,
    Tick,
)
from everturn_actors.session.decide.decider import decide
from everturn_actors.session.decide.decision import (
    AwaitFollower,
    Context,
    Decision,
    Later,
    Memory,
    ReleaseTurn,
    ScheduleTick,
    StartTurn,
    StopTurn,
)
from everturn_actors.spec import AgentSpec, ModelSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState

NOW = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
KEY = ConversationKey(channel="http", chat="c", agent="a")
CONTEXT = Context(
    session_id="s",
    memory=Memory(),
    begin_with=SessionStarted(session_id="s", key=KEY),
    spec=AgentSpec(name="a", model=ModelSpec(provider="p", name="m")),
    agent_error=None,
    is_repeatable=lambda _: False,
    window_tokens=lambda: 128_000,
    delivers=False,
    is_followed=False,
    resumes=True,
    running=0,
    left=0,
    is_cancelled=False,
)


def said(text: str, key: str = "", debounce_s: float = 0) -> Submit:
    """Return a message to the agent."""
    queueing = Queueing(debounce_s=debounce_s)
    return Submit(IncomingMessage(text=text, key=KEY, idempotency_key=key, queueing=queueing))


def went(
    commands: Sequence[AnyCommand],
    before: Decision | None = None,
    *,
    running: int = 0,
    now: datetime = NOW,
    is_cancelled: bool = False,
) -> Decision:
    """Return what becomes of commands after an earlier decision that is durable."""
    state = before.state if before else None
    memory = before.memory if before else Memory()
    context = replace(CONTEXT, memory=memory, running=running, is_cancelled=is_cancelled)
    return decide(state, context, commands, now)


def kinds(decision: Decision) -> list[type[Body]]:
    """Return of which kinds the events are."""
    return [type(event.body) for event in decision.events]


def known(decision: Decision) -> SessionState:
    """Return the session that a decision led to."""
    assert decision.state is not None
    return decision.state


ANSWERED = RecordTurn((ModelReplied(text="hello"), TurnFinished(turn=1, outcome="answered")))


def test_a_first_message_begins_the_session_and_its_turn_in_one_append() -> None:
    """And begins nothing twice."""
    # A crash leaves all of it or nothing; the work begins when it is durable.
    decision = went([said("hi")])

    assert kinds(decision)[:3] == [SessionStarted, Received, TurnStarted]
    assert [each.seq for each in decision.events] == [1, 2, 3, 4]
    assert decision.effects == [StartTurn(1)]
    answer = decision.answers[0]
    assert isinstance(answer, Accepted)
    assert answer.seq == 2

    # A message that comes twice is kept once. In one batch as in two: its sender hears the same
    # number.
    decision = went([said("hi", "k"), said("hi", "k")])

    first, second = decision.answers
    assert isinstance(first, Accepted)
    assert isinstance(second, Accepted)
    assert (first.seq, first.duplicate, second.seq, second.duplicate) == (2, False, 2, True)


def test_a_turn_begins_when_its_time_has_come() -> None:
    """Nobody has to write once more for it."""
    # A turn that is held begins with the next look. Nothing is lost where the sender writes no
    # more.
    held = went([said("hi", debounce_s=2)])
    begun = went([Tick()], held, now=NOW + timedelta(seconds=2))

    assert held.effects == [ScheduleTick(NOW + timedelta(seconds=2))]
    assert TurnStarted not in kinds(held)
    assert begun.effects == [StartTurn(1)]

    # The next turn begins with the end of the one before. What came meanwhile waits for nobody's
    # next word.
    begun = went([said("hi")])
    came = went([said("and?")], begun, running=1)
    decision = went([ANSWERED], came, running=1)

    assert kinds(came) == [Received]
    assert decision.effects == [ReleaseTurn(), StartTurn(2)]


def test_what_fails_changes_nothing_else() -> None:
    """A failed append or a fault of ours leaves all else as it was; a wrong record is no record."""
    # Deciding does not change what it is decided by. Where the append fails, nothing has happened:
    # the same commands are decided again.
    before = went([])
    once = went([said("hi", debounce_s=2), End("reset")], before)
    again = went([said("hi", debounce_s=2), End("reset")], before)

    assert once == again
    assert before.memory == Memory()

    # A fault of one command leaves the others alone. Its caller hears of it; what the others asked
    # for is done.
    broken = Submit(replace(said("x").message, queueing=None))  # a fault of ours
    decision = went([said("one"), broken, said("two")])

    assert isinstance(decision.answers[1], CommandFailedError)
    assert [m.text for m in known(decision).conversation.current.heard] == ["one", "two"]  # type: ignore[union-attr]

    # What the turn itself records is never left out. What follows stands on it: the actor fails,
    # and begins again from the log.
    with pytest.raises(CorruptJournalError):
        went([RecordTurn((TurnFinished(turn=7, outcome="answered"),))], went([]))


def test_a_cancel_waits_for_the_task_and_for_nothing_else() -> None:
    """Whenever it comes, its caller is answered and no turn stays open."""
    # Its caller is told when the turn is closed; a turn without a task is closed at once.
    begun = went([said("hi")])
    running = went([Cancel("ann")], begun, running=1)
    resting = went([Cancel("ann")], begun)

    assert running.answers == [Later.CLOSED]
    assert running.effects == [StopTurn("ann")]
    assert running.events == []
    assert resting.answers == [True]
    assert kinds(resting) == [TurnFinished]

    # A cancel that comes with the answer finds the turn over. Who cancels what has just been
    # answered is told that there was nothing to cancel.
    begun = went([said("hi")])
    decision = went([ANSWERED, Cancel()], begun, running=1)

    assert decision.answers == [None, False]
    assert decision.effects == [ReleaseTurn()]

    # A cancel before the answer is answered by its end. Nobody waits for ever for a turn that ended
    # by itself.
    begun = went([said("hi")])
    decision = went([Cancel(), ANSWERED], begun, running=1)

    assert decision.answers[0] is Later.CLOSED
    assert decision.effects == [StopTurn(""), ReleaseTurn()]

    # A cancel on the way to a pause closes the turn. The turn does not stay open, paused, for
    # somebody who wanted it gone.
    begun = went([said("hi")])
    decision = went([Pause()], begun, running=1, is_cancelled=True)

    assert kinds(decision) == [TurnFinished]
    assert decision.effects == [ReleaseTurn()]


def test_who_leaves_may_pause_the_turn_and_a_new_message_lets_it_go_on() -> None:
    """By the agent's setting; nothing that ran is run again."""
    begun = went([said("hi")])
    left = went([ClientDisconnected(2)], begun, running=1)
    paused = went([Pause()], left, running=1)
    back = went([said("still there?")], paused)

    assert left.effects == [AwaitFollower(2)]
    assert kinds(paused) == [StatusChanged]
    assert paused.effects == [ReleaseTurn()]
    assert known(back).status == "active"
    assert back.effects == [StartTurn(1)]


def test_what_comes_after_the_end_is_refused_with_the_reason() -> None:
    """But for labels: what is over is what people tidy up."""
    # In the same batch already: the end is not passed by.
    decision = went([End("reset"), said("hi"), Share(principal="p", by="", is_withdrawn=False)])

    assert decision.answers[0] is Later.ENDED
    assert all(isinstance(each, SessionEndedError) for each in decision.answers[1:])
    assert known(decision).status == "ended"

    # Labels change one by one also after the end. What is over is what people tidy up; the same
    # again is no event.
    named = Label(title="Trip", pinned=True, archived=None, by="ana")
    archived = Label(title=None, pinned=False, archived=True, by="ben")
    first = went([named, named])
    ended = went([End("reset")], first)
    later = went([archived], ended)

    assert kinds(first)[-1] is Labelled
    assert kinds(first).count(Labelled) == 1
    assert known(first).labels == first.answers[1] == Labels(title="Trip", pinned=True)
    assert known(later).labels == Labels(title="Trip", archived=True)
    assert (known(later).status, known(later).updated_at) == ("ended", known(ended).updated_at)


COMMANDS = st.sampled_from(
    [
        said("a", "1"),
        said("b"),
        said("c", debounce_s=3),
        Submit(IncomingMessage(kind="ambient", text="beside", key=KEY, idempotency_key="2")),
        Submit(IncomingMessage(kind="announcement", text="tea", key=KEY, idempotency_key="3")),
        Cancel(),
        Resume(),
        Retry("4"),
        GetState(),
        Tick(),
        Tick(release=True),
        ClientDisconnected(2),
        Share(principal="p", by="", is_withdrawn=False),
        Label(title="Trip", pinned=True, archived=None, by="p"),
        Label(title=None, pinned=None, archived=True, by="p"),
        End("reset"),
    ]
)


@given(st.lists(COMMANDS, max_size=12))
def test_a_batch_leads_where_its_events_lead(commands: list[AnyCommand]) -> None:
    """What is decided is what a restart makes of the log, and every caller gets its own answer."""
    decision = went(commands)
    state: SessionState | None = None
    for event in decision.events:
        state = apply(state, event)

    assert state == decision.state
    assert len(decision.answers) == len(commands)


@given(st.lists(COMMANDS, max_size=8))
def test_commands_are_refused_for_the_same_reasons_one_by_one(commands: list[AnyCommand]) -> None:
    """How many commands waited in the mailbox is nothing that a caller can tell by its error."""
    together = went([*commands, End("reset")])
    last = went([])
    for command in (*commands, End("reset")):
        last = went([command], last)

    assert known(together).status == known(last).status == "ended"
    assert known(together).seen.keys() == known(last).seen.keys()
