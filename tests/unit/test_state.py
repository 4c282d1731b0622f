"""The one transition function: what it refuses, and what it keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest
from msgspec.structs import replace
from support.conversations import KEY, STARTED, Log, simple_turn
from support.tables import table

from everturn_actors.errors import CorruptJournalError
from everturn_actors.events import (
    AmbientStored,
    Announced,
    Body,
    CallFinished,
    CallStarted,
    ContextReduced,
    Event,
    ModelReplied,
    Received,
    SessionEnded,
    SessionStarted,
    StatusChanged,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    PendingAmbient,
    PromptFingerprint,
    Reductions,
    Replaced,
    Reply,
    Step,
    Summary,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from everturn_actors.state.apply import CHANGES, apply
from everturn_actors.state.changes.messages import SEEN_KEYS
from everturn_actors.state.changes.reductions import NOTE_CHARACTERS
from everturn_actors.state.changes.steps import ANNOUNCED_S
from everturn_actors.state.queue import AMBIENT_LIMIT
from everturn_actors.state.session_state import SessionState

RECEIVED = Received(text="hi")
TURN = TurnStarted(turn=1, received=(2,), window_messages=1000)
STEP = StepStarted(turn=1, step=1, model="m")
CALLS = (ToolCall(call_id="a", name="bash"), ToolCall(call_id="b", name="web"))
REPLIED = ModelReplied(text="wait", calls=CALLS)
ENDED = TurnFinished(turn=1, outcome="answered")
SENT = PromptFingerprint(prefix="9f86d081", messages=3, units=4_700)


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


def instead(seq: int, text: str = "[cleared]") -> Replaced:
    """Return what stands for a message."""
    return Replaced(seq=seq, disposition="cleared", text=text)


def summarised(last_turn: int, *, text: str = "They met.", error: str = "") -> Summarised:
    """Return a summary of the turns up to `last_turn`, by a digest where there is an error."""
    return Summarised(
        last_turn=last_turn,
        messages=last_turn * 2,
        text=text,
        source="digest" if error else "model",
        usage=Usage(input_tokens=50, output_tokens=5),
        error=error,
    )


TWO_TURNS = (
    *(RECEIVED, TURN, STEP, ModelReplied(text="a", fingerprint=SENT), ENDED),  # events 2 to 6
    *(RECEIVED, replace(TURN, turn=2, received=(7,)), replace(STEP, turn=2)),
    *(ModelReplied(text="b", fingerprint=SENT), replace(ENDED, turn=2)),  # event 11
)


@table(
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
        pytest.param((ContextReduced(stage="s", cut_turn=2),), id="a cut before the first turn"),
        pytest.param(
            (RECEIVED, TURN, ContextReduced(stage="s", cut_turn=2)), id="a cut in the running turn"
        ),
        pytest.param(
            (RECEIVED, TURN, ENDED, ContextReduced(stage="s", cut_turn=3)), id="a cut too far"
        ),
        pytest.param((RECEIVED, ContextReduced(stage="s", dropped=(2, 3))), id="itself dropped"),
        pytest.param(
            (RECEIVED, ContextReduced(stage="s", replaced=(instead(4),))), id="the next replaced"
        ),
        pytest.param((RECEIVED, TURN, summarised(1)), id="a summary of the running turn"),
        pytest.param((RECEIVED, TURN, ENDED, summarised(2)), id="a summary of what is to come"),
        pytest.param(
            (*TWO_TURNS, summarised(2), summarised(1)), id="a summary of less than the one before"
        ),
    ],
)
def test_an_event_that_cannot_follow_is_refused(bodies: tuple[Body, ...]) -> None:
    """A log that no version could have written must stop here, not become a wrong state."""
    *before, last = bodies
    state = after(*before)
    event = Event(seq=state.last_seq + 1, at=STARTED, body=last)

    with pytest.raises(CorruptJournalError, match=f"event {state.last_seq + 1} .* cannot stand"):
        apply(state, event)


def test_a_log_without_its_head_or_one_of_its_events_is_refused() -> None:
    """A missing event may be somebody's message; going on would hide the loss."""
    log = Log()
    received = log.add(RECEIVED)

    # The head of a log that was cut off must not pass for a new session.
    for first in (received, replace(log.events[0], seq=2)):
        with pytest.raises(CorruptJournalError, match="begins with session_started"):
            apply(None, first)
    for seq in (1, 2, 4):  # repeats, and a hole
        with pytest.raises(CorruptJournalError, match="event 3 is missing"):
            apply(after(RECEIVED), replace(log.add(RECEIVED), seq=seq))


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


def test_a_turn_may_end_and_a_call_be_answered_without_having_got_far() -> None:
    """What never came must not leave a turn or a call open for ever."""
    # A model that never answers must not leave the turn open for ever.
    state = after(RECEIVED, TURN, STEP, replace(ENDED, outcome="failed", error="no key"))

    assert state.pending[0].steps == ()
    assert (state.pending[0].outcome, state.pending[0].error) == ("failed", "no key")

    # Cancelled and skipped calls never run, and still need their result.
    state = after(RECEIVED, TURN, STEP, replace(REPLIED, calls=CALLS[:1]), finish("a"))

    assert state.open_turn is not None
    assert state.open_turn.step is None
    assert len(state.open_turn.steps) == 1


def test_pending_turns_become_checkpointed_after_fifty_events_or_messages() -> None:
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

    # One turn may answer many messages that came long before: few events, and yet a roll.
    for messages, pending in ((48, 49), (49, 0)):
        log = Log()
        received = tuple(log.add(RECEIVED).seq for _ in range(messages))
        log.add(StatusChanged(status="paused"))
        log.add(TurnStarted(turn=1, received=received, window_messages=1000))
        for body in (STEP, ModelReplied(text="all"), ENDED):
            log.add(body)
        state = of(log)

        assert state.pending_messages == pending
        assert state.checkpointed_messages == messages + 1 - pending


def test_the_oldest_whole_turns_leave_the_window_and_never_the_running_one() -> None:
    """Memory stays bounded; how much has gone is known, because the model is told."""
    log = Log()
    for number in range(1, 31):
        log.run(simple_turn(number, calls=(2, 0)), window_messages=100)  # five messages each
    state = of(log)

    assert [turn.number for turn in state.held_turns] == list(range(11, 31))
    assert state.logged_messages == 150
    assert state.conversation.left_messages == 50

    # A turn of many steps lets old turns go, and stays whole itself.
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

    # A reply whose calls still run is not missing, it is on its way.
    state = after(RECEIVED, TURN, STEP, REPLIED, finish("a"))

    assert (state.logged_messages, state.conversation.left_messages) == (3, 0)


def test_usage_adds_up_over_the_session_and_its_summaries() -> None:
    """Whoever reads what a session used sees all of it."""
    # Cost is read from here; a turn that failed has cost as well.
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

    # Whoever reads what a session used sees all of it.
    state = after(*TWO_TURNS, summarised(1), summarised(2, error="cut short"))

    assert state.usage == Usage(input_tokens=100, output_tokens=10)


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


def test_an_announcement_is_kept_for_the_turn_after_it_and_changes_nothing_now() -> None:
    """The model must know what was said in its name, and a repeat is not said again."""
    said = Announced(
        text="Stand-up!", sender="schedule", idempotency_key="k", title="Job", untrusted=True
    )
    state = after(RECEIVED, TURN, said)

    assert state.seen["k"] == 4
    assert state.ambient == (
        PendingAmbient(
            seq=4,
            text="[Job said here, in your name:] Stand-up!",
            until=state.updated_at + timedelta(seconds=ANNOUNCED_S),
            sender="schedule",
            untrusted=True,
            own=True,
        ),
    )
    assert state.open_turn is not None
    assert state.open_turn.users == (UserMessage(seq=2, text="hi"),)
    assert not state.open_turn.is_tainted

    # The request that is under way, and the prefix of the next, stay as they are.
    before = after(RECEIVED, TURN, STEP)
    state = after(RECEIVED, TURN, STEP, Announced(text="Stand-up!", delivers=True))

    assert state.conversation == before.conversation
    assert (state.status, state.logged_messages) == (before.status, before.logged_messages)


def test_announcements_are_pushed_out_by_announcements_alone() -> None:
    """How much chatter is told is the group's setting; the job's message is no chatter."""
    for most in (0, 3, 30):
        chatter = [AmbientStored(text=f"{n}", max_messages=most) for n in range(40)]
        state = after(Announced(text="Stand-up!"), *chatter)

        assert [each.own for each in state.ambient] == [True] + [False] * most
        assert [each.text for each in state.ambient[1:]] == [f"{n}" for n in range(40 - most, 40)]

    # A job that speaks each minute where nobody answers must not fill the memory.
    state = after(*(Announced(text=f"{n}") for n in range(AMBIENT_LIMIT + 3)))

    assert len(state.ambient) == AMBIENT_LIMIT
    assert state.ambient[-1].text.endswith(f" {AMBIENT_LIMIT + 2}")


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


# --- what is hidden from the model for good ---


def test_who_asks_twice_for_the_conversation_gets_one_value() -> None:
    """A request is known by it: with two values it would be built twice in each turn."""
    state = after(Received(text="hi", sender="ann"), TURN, STEP, REPLIED)

    assert state.conversation is state.conversation
    changed = replace(state, instructions="Answer in French.")
    assert changed.conversation.instructions == "Answer in French."
    assert replace(changed, instructions=state.instructions) == state


def test_what_is_hidden_stays_hidden_and_takes_nothing_away() -> None:
    """Each reduction adds to those before, and none of them comes back between two requests."""
    # Each reduction adds to those before; the newest word on a message counts.
    first = ContextReduced(stage="mask", dropped=(5,), replaced=(instead(2), instead(7)))
    second = ContextReduced(stage="clear", dropped=(10,), replaced=(instead(7, "[gone]"),))
    state = after(*TWO_TURNS, first, second)

    assert state.reductions == Reductions(
        dropped=frozenset([5, 10]),
        replaced={2: instead(2), 7: instead(7, "[gone]")},
    )
    assert state.conversation.reductions == state.reductions

    # What was hidden from the model once does not come back between two requests.
    cut = after(*TWO_TURNS, ContextReduced(stage="jump", cut_turn=3))
    again = after(
        *TWO_TURNS,
        ContextReduced(stage="jump", cut_turn=3),
        ContextReduced(stage="jump", cut_turn=2),
        ContextReduced(stage="clear"),
        summarised(1),
    )

    assert cut.reductions.cut_turn == 3
    assert again.reductions.cut_turn == 3
    assert again.reductions.summary is not None

    # Rendering hides; the turns themselves stay, and so does the count of messages.
    before = after(*TWO_TURNS)
    hidden = after(*TWO_TURNS, ContextReduced(stage="jump", cut_turn=3, messages=4), summarised(2))

    assert hidden.held_turns == before.held_turns
    assert (hidden.logged_messages, hidden.conversation.left_messages) == (4, 0)
    assert hidden.last_seq == before.last_seq + 2


def test_what_was_said_of_turns_that_are_gone_is_forgotten() -> None:
    """The state of a long session must not grow with every result that was ever cleared."""
    single = ContextReduced(stage="clear", dropped=(5, 10), replaced=(instead(2), instead(7)))
    first_cut = after(*TWO_TURNS, single, ContextReduced(stage="jump", cut_turn=2))
    at_once = after(*TWO_TURNS, replace(single, cut_turn=2))
    all_cut = after(*TWO_TURNS, single, summarised(2))

    assert first_cut.reductions == at_once.reductions
    assert first_cut.reductions == Reductions(
        cut_turn=2, dropped=frozenset([10]), replaced={7: instead(7)}
    )
    assert (all_cut.reductions.dropped, all_cut.reductions.replaced) == (frozenset(), {})

    # It may have come while an older turn was running: its number is no sign of its age.
    state = after(
        *(RECEIVED, TURN, STEP, RECEIVED, ModelReplied(text="a"), ENDED),  # the second is event 5
        replace(TURN, turn=2, received=(5,)),
        ContextReduced(stage="shorten", replaced=(instead(5, "a long que..."),)),
        ContextReduced(stage="jump", cut_turn=2),
    )

    assert state.reductions.replaced == {5: instead(5, "a long que...")}

    # A policy that only clears never cuts, and its state must stay bounded all the same.
    log = Log()
    for number in range(1, 26):  # five events each, in a window of ten messages
        log.run(simple_turn(number), window_messages=10)
        reply = len(log.events) - 1
        log.add(ContextReduced(stage="clear", replaced=(instead(reply),)))
    state = of(log)

    assert len(state.held_turns) < 15
    assert len(state.reductions.replaced) <= len(state.held_turns) + 1


def test_the_notes_of_emergencies_add_up_until_a_summary_tells_of_them() -> None:
    """The model has to know that something is missing, once and not for ever."""
    first = ContextReduced(stage="halve", cut_turn=2, note="4 messages left.")
    second = ContextReduced(stage="halve", cut_turn=3, note="2 messages left.")
    both = (*TWO_TURNS, first, ContextReduced(stage="clear"), second)
    noted = "4 messages left.\n2 messages left."

    assert after(*both).reductions.note == noted
    assert after(*both, summarised(2, text=f"They met.\n{noted}")).reductions.note == ""

    # The summary cannot tell of what it did not know.
    late = ContextReduced(stage="halve", cut_turn=2, note="4 messages left.")
    state = after(*TWO_TURNS, late, summarised(1, text="They met."))

    assert state.reductions.note == "4 messages left."

    # Where nobody writes summaries, every emergency of a long session adds one.
    notes = [f"{number} messages left." for number in range(500)]
    state = after(*(ContextReduced(stage="halve", note=note) for note in notes))

    assert len(state.reductions.note) <= NOTE_CHARACTERS
    assert state.reductions.note.endswith(notes[-1])


def test_a_summary_takes_the_place_of_the_turns_it_tells_of_and_of_no_later_ones() -> None:
    """Messages that arrive while it is written are all kept."""
    # Chained: the newer one stands for the older one's messages as well.
    first = after(*TWO_TURNS, summarised(1))
    second = after(*TWO_TURNS, summarised(1), replace(summarised(2, text="All."), path="2.txt"))

    assert first.reductions == Reductions(
        cut_turn=2, summary=Summary(last_turn=1, messages=2, text="They met.")
    )
    assert second.reductions == Reductions(
        cut_turn=3, summary=Summary(last_turn=2, messages=4, text="All.", path="2.txt")
    )

    # It is written beside the conversation and told in the middle of a later turn.
    running = (RECEIVED, replace(TURN, turn=3, received=(12,)), replace(STEP, turn=3), RECEIVED)
    state = after(*TWO_TURNS, *running, summarised(2), ModelReplied(text="c", calls=CALLS))
    turn = state.open_turn

    assert turn is not None
    assert turn.step is not None
    assert [user.seq for user in turn.users] == [12]
    assert [user.seq for user in state.waiting] == [15]
    assert state.reductions.cut_turn == 3


def test_failed_summaries_cool_down_by_the_time_of_their_events() -> None:
    """From the event's own time, so that a restart neither forgets the wait nor begins it anew."""
    for failures, cool_down_s in ((1, 60), (2, 300), (3, 900), (4, 900)):
        log = Log()
        for body in TWO_TURNS:
            log.add(body)
        last = log.events[-1]
        for _ in range(failures):
            last = log.add(summarised(1, error="the model did not answer"))
        log.add(ContextReduced(stage="clear"))
        reductions = of(log).reductions

        assert reductions.failures == failures
        assert reductions.retry_at == last.at + timedelta(seconds=cool_down_s), failures
        assert reductions.summary is not None
        assert reductions.summary.source == "digest"

    # One bad evening of a provider must not slow a session down for ever.
    failed = [summarised(1, error="no")] * 5
    well = after(*TWO_TURNS, *failed, summarised(1)).reductions
    anew = after(*TWO_TURNS, *failed, summarised(1), summarised(2, error="no")).reductions
    assert (well.failures, well.retry_at, anew.failures) == (0, None, 1)

    # Without a summariser there is nothing to wait for.
    digest = after(*TWO_TURNS, replace(summarised(1), source="digest", tries=0)).reductions
    assert (digest.failures, digest.retry_at) == (0, None)


def test_the_last_request_is_remembered_and_its_cache_misses_are_counted() -> None:
    """A cache that misses is money, and shows that something in the prompt moves."""
    # The next request is compared with it, and after a cut there is nothing to compare.
    used = Usage(input_tokens=130, output_tokens=6)
    replied = ModelReplied(text="c", fingerprint=SENT, usage=used)
    begun = (*TWO_TURNS, RECEIVED, replace(TURN, turn=3, received=(12,)), replace(STEP, turn=3))
    told = after(*begun, replied, replace(ENDED, turn=3))
    hidden = after(*begun, replied, ContextReduced(stage="clear"))
    summed_up = after(*begun, replied, summarised(1))

    assert (told.fingerprint, told.reported) == (SENT, used)
    assert (told.conversation.fingerprint, told.conversation.reported) == (SENT, used)
    cut = PromptFingerprint(units=SENT.units)  # the rate at which the provider counts holds on
    assert (hidden.fingerprint, hidden.reported) == (cut, used)
    assert summed_up.fingerprint == cut

    # A cache that misses is money; the count shows that something in the prompt moves.
    is_cache_miss = ModelReplied(
        text="b", calls=CALLS[:1], fingerprint=replace(SENT, is_cache_miss=True)
    )
    more = (replace(STEP, step=2), is_cache_miss, finish("a"), ContextReduced(stage="clear"))
    state = after(RECEIVED, TURN, STEP, is_cache_miss, finish("a"), *more)

    assert state.cache_misses == 2
    assert after(*TWO_TURNS).cache_misses == 0


def test_a_result_knows_where_its_whole_text_is() -> None:
    """The marker that the model reads names it, and recall reads it back."""
    found = replace(finish("a"), path="a.txt")
    state = after(RECEIVED, TURN, STEP, replace(REPLIED, calls=CALLS[:1]), found)

    assert state.open_turn is not None
    assert [result.path for result in state.open_turn.steps[0].results] == ["a.txt"]


def test_every_kind_of_event_can_be_applied() -> None:
    """The types of the kinds are looked up, so that no checker of types misses one."""
    assert CHANGES.keys() == set(get_args(Body))
