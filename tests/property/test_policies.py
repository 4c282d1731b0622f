"""What holds for every request, whatever the policy, the transcript and the window."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.context_policies import POLICIES
from support.examples import examples
from support.tables import table
from support.transcripts import Json, run, transcripts

from everturn_actors.context.estimation.tokens import estimate_message
from everturn_actors.context.policy import Applied, Limits, all_stages
from everturn_actors.context.projection.projection import size_tokens
from everturn_actors.context.projection.results import middle_out, truncate
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import Reply, Step, ToolResult, UserMessage
from everturn_gateway.commands.context.transcript import read_transcript

Run: TypeAlias = tuple[Applied, list[Json]]

TIGHT: dict[str, dict[str, Any]] = {
    "everturn": {
        "max_tool_result_tokens": 500,
        "clear_keep_first": 1,
        "clear_keep_results": 2,
        "clear_protect_tokens": 300,
        "clear_minimum_tokens": 100,
        "argument_limit_characters": 200,
    },
    "duragent": {
        "max_history_tokens": 2_000,
        "max_tool_result_tokens": 500,
        "tool_result_truncation": "both",
        "tool_result_keep_first": 1,
        "tool_result_keep_last": 1,
    },
    "picoclaw": {"summarize_message_threshold": 4, "summarize_keep_messages": 2},
    "jutul": {"evict_result_tokens": 500, "evict_user_tokens": 500, "clear_keep_results": 1},
    "baseagent": {
        "prune_protect": 300,
        "prune_minimum": 100,
        "protect_last_turns": 1,
        "max_output_tokens": 500,
    },
}
"Numbers at which every stage has something to do in a short transcript."
TIGHT["native"] = TIGHT["everturn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """A model's limits, and whether the numbers are tight."""

    window: int | None
    reserve: int | None
    tight: bool
    running: bool
    "The last turn runs, though its newest reply may be an answer."


windows = st.one_of(st.none(), st.integers(50, 2_000), st.integers(2_000, 60_000))
reserves = st.sampled_from([1, 64, 1024, None])
hows = st.builds(How, window=windows, reserve=reserves, tight=st.booleans(), running=st.booleans())

THOSE_THAT_FIT = ("everturn", "duragent", "picoclaw")
"Policies that refuse a request which does not fit; the others send it and let it fail."


def run_or_not(name: str, messages: list[Json], how: How) -> Run | None:
    """Apply a policy, or return None where its one error says that nothing fits."""
    try:
        applied, request = run(
            name,
            messages,
            window=how.window,
            reserve=how.reserve,
            turn_start=turn_start(messages) if how.running else None,
            numbers=TIGHT[name] if how.tight else {},
        )
    except ContextDoesNotFitError:
        event("does not fit")
        return None
    for reduction in applied.reductions:
        event(reduction.stage)
    return applied, request


def turn_start(messages: list[Json]) -> int:
    """Return the index of the newest question that steers no turn."""
    found = [
        index
        for index, message in enumerate(messages)
        if message["role"] == "user" and not str(message["content"]).startswith("[steering]")
    ]
    return found[-1] if found else 0


@table("name", list(POLICIES))
@examples(15)
@given(messages=transcripts(), how=hows)
def test_a_request_keeps_every_promise_whatever_it_is_made_of(
    name: str, messages: list[Json], how: How
) -> None:
    """Each check tells why; one request is made for all of them, since the making takes long."""
    before = deepcopy(messages)
    made = run_or_not(name, messages, how)

    assert messages == before  # IN-06: rendering only looks
    if made is None:
        return
    applied, request = made
    start = turn_start(before) if how.running else None
    assert applied.given == read_transcript(before).view(start)
    assert_every_call_has_one_result_directly_after_it(request)
    assert_the_newest_question_is_there(applied)
    assert_every_message_is_accounted_for(applied)
    if name in THOSE_THAT_FIT:
        assert applied.total_tokens <= applied.budget.window_tokens  # IN-03: paid for, and refused


def assert_every_call_has_one_result_directly_after_it(request: list[Json]) -> None:
    """IN-01: no provider takes half a step, whatever the history looked like."""
    waiting: list[str] = []
    for message in request:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            assert len(set(waiting)) == len(waiting)
    assert not waiting


def assert_the_newest_question_is_there(applied: Applied) -> None:
    """IN-02: a model that is not asked answers nothing."""
    newest = max(m.seq for m in applied.given.messages if isinstance(m, UserMessage))

    assert newest in {m.seq for m in applied.projection.messages if isinstance(m, UserMessage)}


def assert_every_message_is_accounted_for(applied: Applied) -> None:
    """What is not shown has a disposition that says so, and what is shown as it was has none."""
    shown = {m.seq: m for m in applied.projection.messages if m.seq}
    given_messages = {m.seq: m for m in applied.given.messages if m.seq}
    for seq, message in given_messages.items():
        changes = applied.projection.changes.get(seq)
        if seq not in shown:
            assert changes is not None
            assert changes.disposition in {"dropped", "summarised"}
        elif shown[seq] != message:
            assert changes is not None
            assert changes.disposition in {"shortened", "masked", "cleared", "evicted"}
        else:
            assert changes is None


@table("name", list(POLICIES))
@examples(15)
@given(messages=transcripts(), how=hows)
def test_a_stage_applied_to_its_own_output_does_nothing(
    name: str, messages: list[Json], how: How
) -> None:
    """IN-04: a request must not change with the number of times it is made."""
    projection = read_transcript(messages).view(turn_start(messages) if how.running else None)
    policy = POLICIES[name].with_numbers(TIGHT[name] if how.tight else {})
    limits = Limits(window_tokens=how.window, output_tokens=how.reserve)
    budget = policy.divide(policy.numbers, limits, 0, 0)
    for stage in all_stages(policy, limits):
        try:
            projection, _ = stage(projection, budget)
            again, reductions = stage(projection, budget)
        except ContextDoesNotFitError:
            return

        assert reductions == ()
        assert again == projection


@table("name", list(POLICIES))
@examples(15)
@given(
    messages=transcripts(),
    window=st.integers(200, 60_000),
    less=st.integers(0, 5_000),
    tight=st.booleans(),
)
def test_a_smaller_window_shows_no_more(
    name: str, messages: list[Json], window: int, less: int, *, tight: bool
) -> None:
    """IN-05: who makes the window smaller must not see things come back."""
    large = run_or_not(name, messages, How(window=window, reserve=64, tight=tight, running=False))
    smaller = max(window - less, 100)
    small = run_or_not(name, messages, How(window=smaller, reserve=64, tight=tight, running=False))
    if large is None or small is None:
        return
    if {r.stage for r in (*large[0].reductions, *small[0].reductions)} & {"fit", "drop_iterations"}:
        return  # the seed's third layer: less history leaves more room for the turn's own steps

    assert set(seqs(small[0])) <= set(seqs(large[0]))


def seqs(applied: Applied) -> list[int]:
    """Return which messages are shown."""
    return [message.seq for message in applied.projection.messages if message.seq]


@given(messages=transcripts(), window=st.integers(2_000, 60_000), tight=st.booleans())
def test_the_notice_tells_how_many_are_missing(
    messages: list[Json], window: int, *, tight: bool
) -> None:
    """IN-09: a model that is told a wrong number trusts none of them."""
    made = run_or_not(
        "duragent", messages, How(window=window, reserve=64, tight=tight, running=False)
    )
    if made is None:
        return

    applied = made[0]
    stages = {r.stage for r in applied.reductions} - {"drop_iterations"}
    told = {
        seq
        for seq, changes in applied.projection.changes.items()
        if changes.disposition == "dropped" and changes.stage in stages
    }
    assert applied.projection.omitted_messages == len(told)


@given(messages=transcripts(broken=False))
def test_a_transcript_in_order_is_given_back_as_it_is(messages: list[Json]) -> None:
    """Where all fits, nobody may touch a byte of what was said."""
    calls = [call for m in messages for call in m.get("tool_calls", ())]
    ids = [[call["id"] for call in m.get("tool_calls", ())] for m in messages]
    if any(call["function"]["arguments"] in {"{broken", "[1]", ""} for call in calls):
        return
    if any(len(set(own)) < len(own) for own in ids):
        return
    if any(m["content"] is None and not m.get("tool_calls") for m in messages):
        return
    applied, request = run("duragent", messages, window=10**7, numbers={"max_history_tokens": 0})
    if applied.reductions:
        return

    assert request == ordered(messages)


def ordered(messages: list[Json]) -> list[Json]:
    """Return the messages with the results of each reply in the order of its calls."""
    out: list[Json] = []
    order: list[str] = []
    block: list[Json] = []
    for message in messages:
        if message["role"] == "tool":
            block.append(message)
            continue
        out += sorted(block, key=lambda m: order.index(m["tool_call_id"]))
        block, order = [], [call["id"] for call in message.get("tool_calls", ())]
        out.append(message)
    return out + sorted(block, key=lambda m: order.index(m["tool_call_id"]))


@given(messages=transcripts(broken=False, turns=3, steps=7), how=hows)
def test_duragent_is_the_algorithm_of_its_seed(messages: list[Json], how: How) -> None:
    """Message by message, as the seed tells it: an independent second way to the same request."""
    made = run_or_not("duragent", messages, how)
    if made is None or any(r.stage == "fit" for r in made[0].reductions):
        return

    applied = made[0]
    expected = seed_duragent(applied)
    if expected is not None:
        assert [(m.seq, m.text) for m in applied.projection.messages] == expected


def seed_duragent(applied: Applied) -> list[tuple[int, str]] | None:
    """Return seqs and texts as the seed would send them; None where it would send no question."""
    numbers, budget, projection = applied.policy.numbers, applied.budget, applied.given
    flat = [
        replace(
            m, text=truncate(m.text, numbers.max_tool_result_tokens, numbers.tool_result_truncation)
        )
        if isinstance(m, ToolResult)
        else m
        for m in projection.messages
    ]
    turn = sum(
        len(block.messages) if isinstance(block, Step) else 1
        for block in projection.blocks[: projection.current]
    )
    asked = turn
    while asked < len(flat) and isinstance(flat[asked], UserMessage):
        asked += 1
    start, used = asked, 0
    while start > 0 and used + estimate_message(flat[start - 1]) <= budget.history_tokens:
        start -= 1
        used += estimate_message(flat[start])
    while start < asked and isinstance(flat[start], ToolResult):
        start += 1
    newest = max(n for n, m in enumerate(flat) if isinstance(m, UserMessage))
    if start > (turn if turn < len(flat) else newest):
        return None
    kept = flat[start:asked]
    work = list(flat[asked:])
    results = [n for n, m in enumerate(work) if isinstance(m, ToolResult)]
    first, last = numbers.tool_result_keep_first, numbers.tool_result_keep_last
    for n in results[first : max(len(results) - last, 0)]:
        text = f"[result masked — ~{estimate_message(work[n])} tokens removed]"
        work[n] = replace(work[n], text=text)
    limit = budget.window_tokens - budget.reserve_tokens - budget.window_tokens // 10
    while sum(map(estimate_message, (*kept, *work))) > limit:
        starts = [n for n, m in enumerate(work) if isinstance(m, Reply) and m.calls]
        if len(starts) < 2:
            break
        end = starts[0] + 1
        while isinstance(work[end], ToolResult):
            end += 1
        steering = work[end].text.startswith("[steering]") and isinstance(work[end], UserMessage)
        if steering and work[end].seq != flat[newest].seq:
            end += 1
        del work[starts[0] : end]
    return [(m.seq, m.text) for m in (*kept, *work)]


@given(messages=transcripts(broken=False), how=hows)
def test_baseagent_prunes_as_its_seed_does(messages: list[Json], how: How) -> None:
    """The seed's loop over flat messages, against blocks."""
    made = run_or_not("baseagent", messages, how)
    assert made is not None

    applied = made[0]
    numbers, budget = applied.policy.numbers, applied.budget
    flat = [
        replace(m, text=middle_out(m.text, numbers.max_output_tokens))
        if isinstance(m, ToolResult)
        else m
        for m in applied.given.messages
    ]
    tokens = budget.system_tokens + size_tokens(applied.given, flat, applied.estimates)
    usable = budget.window_tokens - budget.reserve_tokens
    if tokens > numbers.auto_compact_threshold * usable:
        turns = total = pruned = 0
        marked: list[int] = []
        for n in range(len(flat) - 1, -1, -1):
            message = flat[n]
            turns += isinstance(message, UserMessage)
            if turns >= numbers.protect_last_turns and isinstance(message, ToolResult):
                total += len(message.text) // 4
                if total > numbers.prune_protect:
                    pruned += len(message.text) // 4
                    marked.append(n)
        if pruned > numbers.prune_minimum:
            for n in marked:
                flat[n] = replace(flat[n], text="[Old tool result content cleared]")
    assert [(m.seq, m.text) for m in applied.projection.messages] == [(m.seq, m.text) for m in flat]
