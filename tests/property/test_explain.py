"""Explaining any request of any log: an account of every message, and never a guess."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.context_policies import POLICIES
from support.conversations import agent, logs
from support.examples import examples
from support.live import SESSION, LiveSession

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.events import Event, ModelReplied
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, SessionSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.reports import explanation_from, explanation_record
from everturn_actors.state.session_state import SessionState
from everturn_actors.turn.replay import explain

FACTS = ModelStatistics(scale=1.0)


@given(st.data(), logs(max_turns=8, window_messages=12))
def test_every_message_up_to_a_request_is_accounted_for(
    data: st.DataObject, events: list[Event]
) -> None:
    """A message that an account forgets is one that is hidden silently."""
    replies = [event.seq for event in events if isinstance(event.body, ModelReplied)]
    if not replies:
        return
    seq = data.draw(st.sampled_from(replies))
    state: SessionState | None = None
    for event in events[: seq - 1]:
        state = apply(state, event)
    assert state is not None
    spec = agent(window_tokens=60_000, reserve_tokens=0)
    try:
        found = explain("s1", events, seq, spec, (), FACTS)
    except ContextDoesNotFitError:
        return
    seqs = [message.seq for message in found.messages]
    record = explanation_record(found)
    shown = [message.seq for message in found.request.messages if message.seq]

    assert len(seqs) == state.logged_messages
    assert sorted(set(seqs)) == sorted(seqs)
    assert set(shown) <= set(seqs)
    assert {m.seq for m in found.messages if m.tokens_after} <= set(shown)
    for message in found.messages:
        is_gone = message.disposition in {"dropped", "summarised"} and not message.tokens_after
        assert is_gone or message.seq in shown
        assert message.by_seq <= seq
    assert found.verdict == "unknown"  # nothing was sent in these logs
    assert explanation_record(explanation_from(record)) == record


_turns = st.lists(
    st.tuples(
        st.sampled_from(["hi", "word " * 200, "漢字" * 300]),
        st.lists(st.sampled_from(["ok", "line\n" * 300, "x" * 9_000]), max_size=5),
        st.sampled_from([0, 0, 700]),
    ),
    min_size=1,
    max_size=8,
)


@examples(12)
@given(turns=_turns, policy=st.sampled_from(list(POLICIES)), summaries=st.booleans())
def test_what_a_live_session_sent_is_made_again_byte_for_byte(
    turns: list[tuple[str, list[str], int]], policy: str, *, summaries: bool
) -> None:
    """Cleared results, cuts and summaries later, the log still gives the same request."""
    live = LiveSession(
        AgentSpec(
            name="test",
            model=ModelSpec(provider="test", name="m", context_window=8_000, max_output_tokens=500),
            session=SessionSpec(context=ContextSpec(policy=POLICIES[policy])),
        )
    )
    for text, results, tokens in turns:
        try:
            live.turn(text, *results, tokens=tokens)
        except ContextDoesNotFitError:
            break
        if summaries:
            live.summarise()
    replies = [event.seq for event in live.events if isinstance(event.body, ModelReplied)]
    found = [explain(SESSION, live.events, s, live.spec, live.tools, live.facts) for s in replies]

    assert [each.verdict for each in found] == ["same"] * len(replies)
    assert [each.request for each in found] == [r.request for r in live.requests[: len(found)]]
