"""What the default policy promises, for any history, any window and any numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import structs
from support.context_policies import POLICIES
from support.conversations import texts
from support.examples import examples
from support.transcripts import Json, run, transcripts

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_actors.context.policy import Applied, all_stages
from everturn_actors.context.projection.arguments import shorten_call
from everturn_actors.context.projection.markers import gap_messages, is_shortened_argument
from everturn_actors.context.projection.results import Shape, keep_ends
from everturn_actors.context.projection.turns import Block
from everturn_actors.context.stages.cutting_ahead import newest_turn, turn_starts
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import AnyMessage, Reply, Step, ToolCall, UserMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """A model's limits, and the policy's numbers."""

    window: int
    reserve: int
    held: int | None
    scale: float
    numbers: Mapping[str, Any]
    running: bool


numbers: SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "max_tool_result_tokens": st.sampled_from([50, 500, 8_000]),
            "clear_keep_first": st.integers(0, 2),
            "clear_keep_results": st.integers(0, 5),
            "clear_protect_tokens": st.sampled_from([0, 300, 3_000]),
            "clear_minimum_tokens": st.sampled_from([0, 100, 2_000]),
            "clear_exclude_tools": st.sampled_from([(), ("record_attempt",)]),
            "argument_limit_characters": st.sampled_from([50, 200, 2_000]),
            "argument_head_characters": st.sampled_from([0, 100]),
            "max_history_tokens": st.sampled_from([0, 0, 500, 5_000]),
            "window_turns": st.sampled_from([0, 0, 3]),
            "recall": st.booleans(),
        }
    ),
)
hows = st.builds(
    How,
    window=st.one_of(st.integers(50, 2_000), *[st.integers(2_000, 40_000)] * 2),
    reserve=st.sampled_from([1, 64, 1_024]),
    held=st.sampled_from([None, None, 10, 30]),
    scale=st.sampled_from([1.0, 0.8, 1.37, 3.0]),
    numbers=numbers,
    running=st.booleans(),
)
histories = transcripts(turns=8, steps=7)


def apply(messages: list[Json], how: How) -> tuple[Applied, list[Json]] | None:
    """Apply the policy, or return None where its one error says that nothing fits."""
    try:
        made = run(
            "everturn",
            messages,
            window=how.window,
            reserve=how.reserve,
            turn_start=question(messages) if how.running else None,
            numbers=how.numbers,
            window_messages=how.held,
            scale=how.scale,
        )
    except ContextDoesNotFitError:
        event("does not fit")
        return None
    for reduction in made[0].reductions:
        event(f"{reduction.stage}, {reduction.disposition}")
    return made


def question(messages: list[Json]) -> int:
    """Return the index of the newest question that steers no turn."""
    asked = (
        index
        for index, message in enumerate(messages)
        if message["role"] == "user" and not str(message["content"]).startswith("[steering]")
    )
    return max(asked, default=0)


def shown(applied: Applied) -> set[int]:
    """Return which messages a request shows."""
    return {message.seq for message in applied.projection.messages if message.seq}


def it_is_left_alone(applied: Applied, how: How) -> None:
    """IN-04: all stages on the output of all stages, so that a number in a marker never drifts."""
    policy = POLICIES["everturn"].with_numbers(how.numbers)
    projection = applied.projection
    for stage in all_stages(policy, applied.limits):
        again, reductions = stage(projection, applied.budget)

        assert reductions == ()
        assert structs.replace(again, notes=()) == structs.replace(
            projection, notes=()
        )  # notes are for people


def all_that_a_person_said_is_there(applied: Applied) -> None:
    """IN-02, and the words that steer a turn: they may become shorter, but they are there."""
    turn = applied.given.blocks[newest_turn(applied.given) :]

    assert {block.seq for block in turn if isinstance(block, UserMessage)} <= shown(applied)


def the_numbers_are_those_of_what_is_missing(applied: Applied, request: list[Json]) -> None:
    """IN-09: in the notice all of it, and at each gap what is missing there."""
    given_seqs = {message.seq for message in applied.given.messages if message.seq}
    missing = given_seqs - shown(applied)
    head = request[0]["content"] if request[0]["role"] == "system" else ""
    told = applied.policy.notice(len(missing))
    newest = {m.seq for b in applied.given.blocks[newest_turn(applied.given) :] for m in of(b)}
    gaps = [gap_messages(m.text) for m in applied.projection.messages if not m.seq]

    assert applied.projection.omitted_messages == len(missing)
    assert head.endswith(told) if missing else "not shown" not in head
    assert sum(gaps) == len(missing & newest)


def of(block: Block) -> tuple[AnyMessage, ...]:
    """Return the messages of a block."""
    return block.messages if isinstance(block, Step) else (block,)


def only_whole_turns_left(applied: Applied) -> None:
    """R1: a turn without its question, or an answer without its steps, misleads."""
    blocks, now = applied.given.blocks, shown(applied)
    newest = newest_turn(applied.given)
    starts = [0, *turn_starts(blocks[:newest]), newest]
    for start, end in pairwise(starts):
        seqs = {m.seq for b in blocks[start:end] for m in of(b) if m.seq}

        assert seqs <= now or not seqs & now


def arguments_are_the_json_of_an_object(applied: Applied) -> None:
    """D17: a provider refuses a call whose arguments do not parse."""
    for message in applied.projection.messages:
        for call in message.calls if isinstance(message, Reply) else ():
            assert isinstance(json.loads(call.arguments), dict)


def pictures_are_with_their_message(applied: Applied, request: list[Json]) -> None:
    """A text may become a line; what was shown beside it is not the text's to lose."""
    with_media = {seq for seq in applied.given.media if seq in shown(applied)}
    sent = [
        part
        for message in request
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]

    assert len(sent) == sum(applied.given.media[seq] for seq in with_media)


@examples(15)
@given(messages=histories, how=hows)
def test_a_request_keeps_every_promise_whatever_it_is_made_of(
    messages: list[Json], how: How
) -> None:
    """IN-03 here: all parts together fit; the others where they are checked, above."""
    made = apply(messages, how)
    if made is None:
        return
    applied, request = made

    assert applied.total_tokens <= how.window
    it_is_left_alone(applied, how)
    all_that_a_person_said_is_there(applied)
    the_numbers_are_those_of_what_is_missing(applied, request)
    only_whole_turns_left(applied)
    arguments_are_the_json_of_an_object(applied)
    pictures_are_with_their_message(applied, request)


@examples(15)
@given(messages=histories, how=hows, less=st.lists(st.floats(0.3, 1), min_size=1, max_size=3))
def test_a_smaller_window_never_shows_a_message_that_a_larger_one_hides(
    messages: list[Json], how: How, less: list[float]
) -> None:
    """IN-05, without exception: turns leave by what they cost when all that can be is cleared."""
    before: set[int] | None = None
    window, held = how.window, how.held
    for share in (1, *less):
        window = int(window * share)
        held = None if held is None else max(int(held * share), 1)
        made = apply(messages, replace(how, window=window, held=held))
        if made is None:
            return
        now = shown(made[0])

        assert before is None or now <= before
        before = now


@given(
    text=texts,
    most=st.integers(0, 3_000),
    shape=st.sampled_from(["head", "tail", "both"]),
)
def test_a_shortened_text_costs_no_more_than_it_may(text: str, most: int, shape: Shape) -> None:
    """A cap that its own marker exceeds is none; shortened once, it stays."""

    def marker(part: int, whole: int) -> str:
        return f"[{part} of {whole}]"

    short = keep_ends(text, most * UNITS_PER_TOKEN, shape, marker)
    least = text_units(marker(0, 10**4))

    assert text_units(short) <= max(most * UNITS_PER_TOKEN, least)
    assert (short == text) == (text_units(text) <= most * UNITS_PER_TOKEN)
    if most * UNITS_PER_TOKEN > least:
        assert keep_ends(short, most * UNITS_PER_TOKEN, shape, marker) == short


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    value=json_values,
    raw=st.booleans(),
    limit=st.integers(1, 3_000),
    head=st.integers(0, 200),
)
def test_shortened_arguments_are_an_object_and_stay_as_they_are(
    value: Any,
    limit: int,
    head: int,
    *,
    raw: bool,
) -> None:
    """Whatever a model wrote, half characters and broken JSON included."""
    given_text = json.dumps(value) if raw else json.dumps(value, ensure_ascii=False)[:-1]
    call = ToolCall(call_id="c", name="write", arguments=given_text)

    def shorten(call: ToolCall) -> ToolCall:
        return shorten_call(
            call,
            limit_characters=limit,
            head_characters=head,
            marker=lambda characters: f"[shortened: {characters:,} characters left out]",
        )

    short = shorten(call)

    if short != call:
        assert len(short.arguments) < len(given_text)
        now = json.loads(short.arguments)
        assert is_shortened_argument(short.arguments) or now == value  # written without escapes
        assert isinstance(now, dict)
        short.arguments.encode()
    assert shorten(short) == short
