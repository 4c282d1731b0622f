"""A past request, made again from the log: whether it is the one that was sent, and why."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from support.context_policies import POLICIES
from support.conversations import KEY, STARTED
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.past.comparison import dispositions_of
from everturn_actors.context.past.explain import Explanation
from everturn_actors.context.render import render
from everturn_actors.errors import UnknownRequestError
from everturn_actors.events import (
    Body,
    CallFinished,
    CallStarted,
    ContextReduced,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import Replaced, ToolCall, ToolDefinition, Usage
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, PromptSpec, SessionSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.reports import explanation_from, explanation_record
from everturn_actors.state.session_state import SessionState
from everturn_actors.turn.replay import RequestReplay, explain

FACTS = ModelStatistics(scale=1.0)
TOOLS = (ToolDefinition(name="bash", description="Run a command.", parameters={}),)


def make_spec(policy: str = "everturn", *, model: str = "test-model") -> AgentSpec:
    """Return an agent that says the time of the turn in its prompt."""
    return AgentSpec(
        name="assistant",
        model=ModelSpec(
            provider="test", name=model, context_window=20_000, max_output_tokens=1_000
        ),
        prompt=PromptSpec(system_prompt="It is {{time}}."),
        session=SessionSpec(context=ContextSpec(policy=POLICIES[policy])),
    )


@dataclass(slots=True)
class Talk:
    """Writes a log as a live session does: the hash of each request stands with its answer."""

    spec: AgentSpec = field(default_factory=make_spec)
    window_messages: int = 1_000
    events: list[Event] = field(default_factory=list[Event])
    state: SessionState | None = None

    def __post_init__(self) -> None:
        self.add(SessionStarted(session_id="s1", key=KEY))

    def add(self, *bodies: Body) -> int:
        """Append events; return the number of the last one."""
        for body in bodies:
            seq = len(self.events) + 1
            event = Event(seq=seq, at=STARTED + timedelta(minutes=seq), body=body)
            self.state = apply(self.state, event)
            self.events.append(event)
        return len(self.events)

    def ask(self, text: str) -> int:
        """Receive a message and begin its turn; return the number of the message."""
        assert self.state is not None
        seq = self.add(Received(text=text))
        turn = self.state.turns + 1
        self.add(
            TurnStarted(turn=turn, received=(seq,), window_messages=self.window_messages),
            StepStarted(turn=turn, step=1, model=self.spec.model.name),
        )
        return seq

    def reply(self, text: str = "", *calls: str) -> int:
        """Answer the open request with the hash that was sent; return the reply's number."""
        assert self.state is not None
        fingerprint = render(self.state.conversation, self.spec, TOOLS, FACTS).fingerprint
        asked = tuple(ToolCall(call_id=call, name="bash") for call in calls)
        seq = self.add(
            ModelReplied(
                text=text, calls=asked, usage=Usage(input_tokens=50), fingerprint=fingerprint
            )
        )
        for call in calls:
            self.add(
                CallStarted(call_id=call),
                CallFinished(call_id=call, text=f"result of {call} " + "x" * 400),
            )
        turn = self.state.open_turn
        assert turn is not None
        if calls:
            self.add(
                StepStarted(turn=turn.number, step=len(turn.steps) + 1, model=self.spec.model.name)
            )
        else:
            self.add(TurnFinished(turn=turn.number, outcome="answered"))
        return seq

    def exchange(self, text: str) -> int:
        """Ask and answer; return the number of the answer."""
        self.ask(text)
        return self.reply(f"answer to {text}")

    def explain(self, seq: int, *, spec: AgentSpec | None = None) -> Explanation:
        """Explain the request at event `seq`."""
        return explain("s1", self.events, seq, spec or self.spec, TOOLS, FACTS)


def rows(explanation: Explanation) -> list[tuple[int, str, str, str, int]]:
    """Return number, role, disposition, stage and the event that did it, for each message."""
    return [(m.seq, m.role, m.disposition, m.stage, m.by_seq) for m in explanation.messages]


@table("policy", list(POLICIES))
def test_every_request_of_a_log_can_be_made_again(policy: str) -> None:
    """The same state gives the same bytes: this is what makes an explanation worth reading."""
    talk = Talk(make_spec(policy))
    replies = [talk.exchange("one")]
    talk.ask("two")
    replies += [talk.reply("", "c1", "c2"), talk.reply("", "c3"), talk.reply("done")]
    replies.append(talk.exchange("three"))
    found = [talk.explain(seq) for seq in replies]

    assert [each.verdict for each in found] == ["same"] * 5
    assert [(each.turn, each.step, each.replied_seq) for each in found] == [
        (1, 1, replies[0]),
        (2, 1, replies[1]),
        (2, 2, replies[2]),
        (2, 3, replies[3]),
        (3, 1, replies[4]),
    ]
    assert all(each.prefix == each.sent_prefix != "" for each in found)
    began = next(e for e in reversed(talk.events) if isinstance(e.body, TurnStarted))
    assert found[-1].request.system == f"It is {began.at:%H:%M} UTC."


def test_any_event_of_a_turn_names_the_request_at_it_or_next_after_it() -> None:
    """A person has a number from the log or from a message, seldom that of the reply."""
    talk = Talk()
    asked = talk.ask("one")
    first = talk.reply("", "c1")
    second = talk.reply("done")
    found = {seq: talk.explain(seq).replied_seq for seq in range(asked, second + 1)}

    assert found == {seq: first if seq <= first else second for seq in range(asked, second + 1)}


def test_an_account_tells_what_hid_each_message_and_when() -> None:
    """`Why did it forget that?` is answered with the event that did it."""
    talk = Talk()
    talk.exchange("one")
    talk.exchange("two")
    summed_up = talk.add(Summarised(last_turn=1, messages=2, text="They said one."))
    talk.ask("three")
    talk.reply("", "c1", "c2")
    talk.reply("done")
    cleared = talk.add(
        ContextReduced(
            stage="clear", replaced=(Replaced(seq=18, disposition="cleared", text="[cleared]"),)
        )
    )
    cut = talk.add(ContextReduced(stage="jump", cut_turn=3))
    last = talk.exchange("four")
    found = talk.explain(last)

    assert found.verdict == "same"
    assert rows(found) == snapshot(
        [
            (2, "user", "summarised", "summary", 12),
            (5, "assistant", "summarised", "summary", 12),
            (7, "user", "dropped", "jump", 25),
            (10, "assistant", "dropped", "jump", 25),
            (13, "user", "kept", "", 0),
            (16, "assistant", "kept", "", 0),
            (18, "tool", "cleared", "clear", 24),
            (20, "tool", "kept", "", 0),
            (22, "assistant", "kept", "", 0),
            (26, "user", "kept", "", 0),
        ]
    )
    assert (summed_up, cleared, cut) == snapshot((12, 24, 25))
    assert [
        m.tokens_after for m in found.messages if m.disposition in {"dropped", "summarised"}
    ] == [0] * 4
    assert [m.seq for m in found.messages if m.tokens_after < m.tokens_before] == [2, 5, 7, 10, 18]


def test_what_came_later_is_not_in_the_account() -> None:
    """A past request is explained by what was known when it was sent."""
    # A past request is explained by what was known then.
    talk = Talk()
    first = talk.exchange("one")
    talk.exchange("two")
    talk.add(ContextReduced(stage="jump", cut_turn=2))
    found = talk.explain(first)

    assert found.verdict == "same"
    assert rows(found) == [(2, "user", "kept", "", 0)]

    # A summary that came during the call is not taken for its cause. It is made beside the turns;
    # the request that was under way did not have it.
    talk = Talk()
    talk.exchange("one")
    talk.ask("two")
    assert talk.state is not None
    fingerprint = render(talk.state.conversation, talk.spec, TOOLS, FACTS).fingerprint
    talk.add(Summarised(last_turn=1, messages=2, text="They said one."))
    answer = talk.add(
        ModelReplied(text="2", fingerprint=fingerprint), TurnFinished(turn=2, outcome="answered")
    )
    found = talk.explain(answer - 1)

    assert found.verdict == "same"
    assert {m.disposition for m in found.messages} == {"kept"}

    # A summary that came after a request was halved is not its cause either. The step began with
    # one state, was answered in a second one, and ended in a third.
    talk = Talk()
    talk.exchange("one")
    talk.exchange("two")
    talk.ask("three")
    talk.add(ContextReduced(stage="halve", cut_turn=2, messages=2, note="2 messages left."))
    assert talk.state is not None
    fingerprint = render(talk.state.conversation, talk.spec, TOOLS, FACTS).fingerprint
    talk.add(Summarised(last_turn=2, messages=4, text="They said one and two."))
    found = talk.explain(talk.add(ModelReplied(text="3", fingerprint=fingerprint)))

    assert found.verdict == "same"
    assert [m.disposition for m in found.messages] == ["dropped", "dropped", "kept", "kept", "kept"]

    # What followed an answer without a hash is not in its account. Where nothing says which state
    # it was, it is still none that came after the answer.
    talk = Talk()
    talk.exchange("one")
    talk.ask("two")
    answer = talk.add(ModelReplied(calls=(ToolCall(call_id="c1", name="bash"),), text=""))
    talk.add(ContextReduced(stage="jump", cut_turn=2))
    talk.add(CallStarted(call_id="c1"), CallFinished(call_id="c1", text="done"))
    found = talk.explain(answer)

    assert found.verdict == "unknown"
    assert [m.disposition for m in found.messages] == ["kept"] * 3


def test_each_message_is_said_to_have_left_by_what_took_it_away() -> None:
    """Or the numbers would lie."""
    # Turns that the session let go are said to have left by the window. They are in the log, and
    # the model does not see them: somebody did that too.
    talk = Talk(window_messages=4)
    for number in range(30):
        talk.exchange(str(number))
    found = talk.explain(talk.exchange("last"))
    left = [m for m in found.messages if m.disposition == "dropped"]

    assert found.verdict == "same"
    assert {m.stage for m in left} == {"window"}
    assert all(0 < m.by_seq < found.started_seq for m in left)
    assert len(found.messages) == 61
    assert len(found.messages) - len(left) == sum(1 for m in found.request.messages if m.seq)

    # A summary does not claim turns that had left before it. What no summary tells of is `dropped`,
    # or the numbers would lie.
    talk = Talk()
    for text in ("one", "two", "three"):
        talk.exchange(text)
    talk.add(ContextReduced(stage="jump", cut_turn=2))
    talk.add(Summarised(last_turn=2, messages=2, text="They said two."))
    found = talk.explain(talk.exchange("four"))

    assert [m.disposition for m in found.messages] == ["dropped"] * 2 + ["summarised"] * 2 + [
        "kept"
    ] * 3

    # A request that was halved is the one that was answered. Two requests went out in one step; the
    # answer belongs to the shorter one.
    talk = Talk()
    talk.exchange("one")
    talk.ask("two")
    talk.add(ContextReduced(stage="halve", cut_turn=2, messages=2, note="2 messages left."))
    answer = talk.reply("2")
    found = talk.explain(answer)

    assert found.verdict == "same"
    assert [m.disposition for m in found.messages] == ["dropped", "dropped", "kept"]


def test_nothing_is_claimed_that_nobody_knows() -> None:
    """Neither of another agent nor without a hash or an answer."""
    # An agent that changed since is said to have. A request of today's agent must never pass for
    # the one that was sent.
    talk = Talk()
    answer = talk.exchange("one")
    prompt = replace(talk.spec, prompt=PromptSpec(system_prompt="Be brief."))
    other = talk.explain(answer, spec=prompt)
    model = talk.explain(answer, spec=make_spec(model="other-model"))

    assert other.verdict == model.verdict == "differs"
    assert "has changed since" in other.why
    assert other.request.system == "Be brief."
    assert "other-model, then test-model" in model.why

    # Nothing is claimed where the log says nothing. Without a hash, or without an answer, nobody
    # knows what was sent.
    talk = Talk()
    talk.ask("one")
    unhashed = talk.add(ModelReplied(text="1"))
    talk.add(TurnFinished(turn=1, outcome="answered"))
    talk.ask("two")
    without_hash = talk.explain(unhashed)
    unanswered = talk.explain(talk.events[-1].seq)
    failed = talk.add(TurnFinished(turn=2, outcome="failed", error="no"))

    assert without_hash.verdict == unanswered.verdict == "unknown"
    assert "no hash was kept" in without_hash.why
    assert "no answer" in unanswered.why
    assert unanswered.replied_seq == 0
    assert talk.explain(failed - 1).started_seq == failed - 1


def test_a_number_that_is_no_request_gets_those_that_are() -> None:
    """Or the reason why there is none."""
    # A person mistypes a number; the answer has the right ones.
    talk = Talk()
    empty = Talk()
    replies = [talk.exchange(str(number)) for number in range(8)]
    for seq, hint in (
        (1, "requests were sent for the events 5, 10, 15, 20, 25 (of 8 in all)"),
        (replies[0] + 1, "5, 10, 15, 20, 25"),
        (9_999, "the log ends at event 41; "),
    ):
        with pytest.raises(UnknownRequestError, match="no request can be shown") as error:
            talk.explain(seq)
        assert hint in str(error.value)
    with pytest.raises(UnknownRequestError, match="no request was sent in this session yet"):
        empty.explain(1)
    with pytest.raises(UnknownRequestError, match="its log was discarded"):
        explain("s1", (), 1, empty.spec, TOOLS, FACTS)

    # A log without its beginning is said to be one. `compaction: discard` was chosen by somebody;
    # they are told what it costs.
    talk = Talk()
    talk.exchange("one")
    answer = talk.exchange("two")
    with pytest.raises(UnknownRequestError, match="the log before event 6 was discarded"):
        explain("s1", talk.events[5:], answer, talk.spec, TOOLS, FACTS)


def test_results_that_were_cut_on_their_way_in_are_told() -> None:
    """The log itself has only a part of them; the rest is in a file."""
    talk = Talk(make_spec("jutul"))
    talk.ask("one")
    talk.add(
        ModelReplied(calls=(ToolCall(call_id="c1", name="bash"),), text=""),
        CallStarted(call_id="c1"),
    )
    cut = talk.add(CallFinished(call_id="c1", text="preview", path="1-1-1.txt"))
    talk.add(StepStarted(turn=1, step=2, model="test-model"))
    found = talk.explain(talk.reply("done"))

    assert rows(found)[-1] == (cut, "tool", "evicted", "result", cut)


def test_an_explanation_comes_back_from_its_record() -> None:
    """A command prints the same, whether it asked a gateway or opened one."""
    talk = Talk()
    talk.ask("one")
    talk.reply("", "c1")
    talk.reply("done")
    talk.add(ContextReduced(stage="jump", cut_turn=2))
    found = talk.explain(talk.exchange("two"))
    record = explanation_record(found)
    again = explanation_from(record)

    assert replace(again, request=found.request) == found
    assert explanation_record(again) == record


def calls_made(work: Callable[[], object]) -> int:
    """Return how many Python functions `work` calls."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def test_the_work_of_an_explanation_grows_no_faster_than_the_log() -> None:
    """In a session that let go of most of its turns, the last request is as dear as it is long."""
    work: list[int] = []
    for exchanges in (50, 200):
        talk = Talk(window_messages=20)
        for number in range(exchanges - 1):
            talk.exchange(f"message {number}")
        last = talk.exchange("the last one")
        work.append(calls_made(partial(talk.explain, last)))
    few, many = work

    assert many < 5 * few


def test_requests_are_found_in_one_reading_and_compared() -> None:
    """Of a log of any length."""
    # Nothing is read after the answer. An early request of a long session is explained without the
    # rest of its log.
    talk = Talk()
    early = talk.exchange("one")
    for number in range(3):
        talk.exchange(f"message {number}")
    replay = RequestReplay("s1", (early,))
    pages = [talk.events[start : start + 2] for start in range(0, len(talk.events), 2)]
    wanted = 1 + next(number for number, page in enumerate(pages) if replay.read(page))

    assert pages[wanted - 1][-1].seq == early + 1
    assert replay.explanations(lambda _: (talk.spec, TOOLS, FACTS)) == (talk.explain(early),)

    # Two requests are found in one reading and compared. What a person asks of two requests is what
    # became otherwise, not a list of thousands.
    talk = Talk()
    first = talk.exchange("one")
    talk.exchange("two")
    reduced = talk.add(ContextReduced(stage="jump", cut_turn=2))
    last = talk.exchange("three")
    replay = RequestReplay("s1", (last, first))
    replay.read(talk.events)
    now, was = replay.explanations(lambda _: (talk.spec, TOOLS, FACTS))
    whole, between, back = (
        dispositions_of(now),
        dispositions_of(now, was),
        dispositions_of(was, now),
    )

    assert (now, was) == (talk.explain(last), talk.explain(first))
    assert [m.seq for m in whole.messages] == [m.seq for m in now.messages]
    assert sum(whole.by_disposition.values()) == len(now.messages)
    assert sum(each.messages for each in whole.stretches) == len(now.messages)
    assert [each.disposition for each in whole.stretches] == ["dropped", "kept"]
    hidden = between.messages[0]
    assert hidden.begins == "one"
    assert hidden.was is not None
    assert hidden.now is not None
    assert (hidden.was.disposition, hidden.was.tokens > 0) == ("kept", True)
    assert (hidden.now.disposition, hidden.now.stage, hidden.now.by_seq) == (
        "dropped",
        "jump",
        reduced,
    )
    assert [(m.seq, m.now is None) for m in back.messages if m.was and m.seq > first] == [
        (m.seq, True) for m in now.messages if m.seq > first
    ]
    assert dispositions_of(now, now).messages == ()


def test_pieces_of_a_long_session_stay_few_and_leave_nothing_out() -> None:
    """The bar of a session of thousands of messages is as quick to send and draw as a short one."""
    talk = Talk()
    for _ in range(2):
        talk.exchange("one")
    made = talk.explain(talk.exchange("last"))
    many = replace(
        made,
        messages=tuple(
            replace(made.messages[0], seq=n, disposition="kept" if n % 2 else "cleared")
            for n in range(5000)
        ),
    )
    found = dispositions_of(many)

    assert len(found.stretches) <= 800
    assert sum(each.messages for each in found.stretches) == 5000
    assert (
        sum(each.tokens_before for each in found.stretches) == 5000 * made.messages[0].tokens_before
    )
