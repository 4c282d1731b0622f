"""The examples of the four seed documents, number by number."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec import structs
from support.context_policies import POLICIES
from support.tables import table
from support.transcripts import IMAGE, Json, called, result, run, said, step, user

from everturn_actors.context.catalog import policy_of
from everturn_actors.context.policies import jutul, picoclaw
from everturn_actors.context.policy import Applied, Limits
from everturn_actors.context.projection.projection import Projection, Reduction, Stage, in_order
from everturn_actors.context.stages.texts import Lines, preview
from everturn_actors.context.stages.truncation import safe_boundary
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import (
    AnyMessage,
    Notice,
    Reply,
    Step,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
    UserMessage,
)
from everturn_actors.spec import ContextSpec
from everturn_gateway.commands.context.transcript import read_transcript


def tokens(count: int) -> str:
    """Return a text of `count` tokens, four characters each."""
    return "abcd" * count


def dispositions(applied: Applied) -> dict[int, str]:
    """Return what became of the messages that are not as they were, by index."""
    return {
        seq - 1: changes.disposition for seq, changes in sorted(applied.projection.changes.items())
    }


def overflow_of(name: str) -> Stage:
    """Return what a policy does after the provider found a request too long."""
    policy = POLICIES[name]
    return policy.overflow(policy.numbers, Limits())


def contents(request: list[Json]) -> list[Any]:
    """Return the contents of a request, cut where they are long."""
    return [
        c if not isinstance(c, str) or len(c) < 90 else f"{c[:20]}...{c[-60:]}"
        for c in (message["content"] for message in request)
    ]


# --- duragent ---


@table(
    ("shape", "marker"),
    [
        ("head", "[truncated: kept first ~8000 of ~52000 tokens (head)]"),
        ("tail", "[truncated: kept last ~8000 of ~52000 tokens (tail)]"),
        ("both", "[truncated: kept first+last ~8000 of ~52000 tokens (both)]"),
    ],
)
def test_duragent_cuts_a_result_of_52_000_tokens_to_8_000(shape: str, marker: str) -> None:
    """The seed's own example: a model has to know how much it does not see."""
    text = "H" * 104_000 + "T" * 104_000
    messages = [user("go"), *step("a", text)]
    applied, request = run("duragent", messages, numbers={"tool_result_truncation": shape})
    head, tail, half = "H" * 32_000, "T" * 32_000, 16_000
    expected = {
        "head": f"{head}\n\n{marker}",
        "tail": f"{marker}\n\n{tail}",
        "both": f"{'H' * half}\n\n{marker}\n\n{'T' * half}",
    }

    assert request[-1]["content"] == expected[shape]
    assert dispositions(applied) == {2: "shortened"}


def test_duragent_cuts_between_characters() -> None:
    """A broken character would make the whole request invalid."""
    messages = [user("go"), *step("a", "日" * 100)]
    _, request = run("duragent", messages, numbers={"max_tool_result_tokens": 10})
    tail = run(
        "duragent",
        messages,
        numbers={"max_tool_result_tokens": 10, "tool_result_truncation": "tail"},
    )[1]

    assert request[-1]["content"].startswith("日" * 13 + "\n\n")
    assert tail[-1]["content"].endswith("\n\n" + "日" * 13)


def test_duragent_masks_the_middle_results_of_the_running_turn() -> None:
    """The seed's eight iterations with keep_first 2, keep_last 3: results 3, 4 and 5 are masked."""
    messages = [user("go")]
    for number in range(8):
        messages += step(f"c{number:03}", tokens(11_995))  # and 1 for its id, 4 for the message
    numbers = {"tool_result_keep_last": 3, "max_tool_result_tokens": 20_000}
    applied, request = run("duragent", messages, numbers=numbers, window=10**6)

    assert dispositions(applied) == {6: "masked", 8: "masked", 10: "masked"}
    assert {request[i]["content"] for i in (6, 8, 10)} == {
        "[result masked — ~12000 tokens removed]"
    }

    # Both 0 switch masking off, and few results are all kept.
    work = [user("go"), *(m for n in range(8) for m in step(f"c{n}", "x"))]
    for first, last, masked in ((2, 5, 1), (0, 0, 0), (3, 5, 0), (0, 2, 6)):
        numbers = {"tool_result_keep_first": first, "tool_result_keep_last": last}
        applied, _ = run("duragent", work, numbers=numbers)

        assert list(dispositions(applied).values()) == ["masked"] * masked, (first, last)

    # What an earlier turn found is history: another layer looks after it.
    older = [user("first"), *(m for n in range(9) for m in step(f"o{n}", "x")), said("done")]
    applied, _ = run("duragent", [*older, *work])

    assert dispositions(applied) == {len(older) + 6: "masked"}


def test_duragent_keeps_of_history_what_has_room() -> None:
    """The seed's caps, notice and window, number by number."""
    # The seed's notice: 47 left out, and its text to the byte.
    chat = [user(tokens(996)) if n % 2 == 0 else said(tokens(996)) for n in range(66)]
    applied, request = run(
        "duragent", [{"role": "system", "content": "Be brief."}, *chat, user("")]
    )

    assert request[:2] == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "[conversation truncated — 47 older messages omitted]"},
    ]
    assert len(request) == 2 + 20  # 19 messages of 1,000 tokens beside the question's 4
    assert list(dispositions(applied).values()) == ["dropped"] * 47

    # max_history_tokens 0: window - system - tools - reply - margin, as the seed says.
    chat = [user(tokens(996)) if n % 2 == 0 else said(tokens(996)) for n in range(100)]
    applied, _ = run(
        "duragent",
        [*chat, user("")],
        window=100_000,
        reserve=10_000,
        numbers={"max_history_tokens": 0},
    )

    assert applied.budget.history_tokens == 80_000
    assert len(applied.projection.messages) == 80  # 79 of 1,000 and the question

    # Literally nothing would be sent: the walk ends at the newest message.
    applied, request = run("duragent", [user("a"), said("b"), user(tokens(30_000))])

    assert contents(request)[0] == "[conversation truncated — 2 older messages omitted]"
    assert dispositions(applied) == {0: "dropped", 1: "dropped"}
    assert request[1]["content"] == tokens(30_000)

    # Layer 1: clamp((max_input // 200) x 2, 100, 2000), and only what is checkpointed leaves.
    chat = [user("a") if n % 2 == 0 else said("b") for n in range(1_500)]
    applied, request = run("duragent", [*chat, user("now")])

    assert [r.stage for r in applied.reductions] == ["window"]
    assert len(applied.projection.messages) == 1_280
    assert request[0]["content"] == "[conversation truncated — 221 older messages omitted]"


@table(
    ("messages", "how", "dropped"),
    [
        pytest.param(
            [user("a"), *step("c", tokens(500)), said("b"), user("now")],
            {"numbers": {"max_history_tokens": 510 + 4 + 5}},
            range(3),
            id="results whose call is cut: the seed moves the start forward over them",
        ),
        pytest.param(
            # Layer 3c: 10,000 - 3,000 - 1,000 = 6,000 hold two of four iterations.
            [
                user("a"),
                said("b"),
                user("go"),
                *(s for n in "0123" for s in step(n, tokens(2_000))),
            ],
            {"window": 10_000, "reserve": 3_000},
            range(3, 7),
            id="the oldest iterations, and not the last: history stays, the newest work stays",
        ),
        pytest.param(
            [
                *(user("go"), *step("a", tokens(3_000)), user("[steering] left")),
                *(*step("b", tokens(3_000)), user("[steering] right"), *step("c", "x")),
            ],
            {
                "window": 4_000,
                "reserve": 1_000,
                "turn_start": 0,
                "numbers": {"max_history_tokens": 0},
            },
            range(1, 6),
            id="a steering message with its iteration: only the newest one never goes",
        ),
    ],
)
def test_duragent_drops_whole_pieces(
    messages: list[Json], how: dict[str, Any], dropped: range
) -> None:
    """No call without its results is left, and none of these without its call."""
    applied, _ = run("duragent", messages, **how)

    assert dispositions(applied) == dict.fromkeys(dropped, "dropped")


def test_duragent_makes_a_request_fit_that_would_not() -> None:
    """The seed leaves prompt and tools to the margin; beyond it a provider would refuse."""
    messages = [user("go"), *step("a", tokens(5_000))]
    applied, _ = run("duragent", messages, window=8_000, reserve=1_000, system=tokens(3_000))

    assert [r.stage for r in applied.reductions] == ["fit"]
    assert applied.total_tokens <= 8_000


# --- picoclaw ---


def test_each_policy_counts_as_its_system_does() -> None:
    """Each estimate is that of the system that a policy is taken from, figure by figure."""
    # Runes of content, reasoning and calls, 12 a message; 256 for each picture.
    count = POLICIES["picoclaw"].estimates(Limits())
    call = ToolCall(call_id="id12", name="bash", arguments="{}")
    tool = ToolDefinition(name="bash", description="Runs.", parameters={"type": "object"})

    assert count.message(UserMessage(text="漢" * 88), 0) == 40  # (88 + 12) * 2 // 5
    assert count.message(UserMessage(text=""), 2) == 4 + 512
    assert count.message(Reply(text="ab", reasoning="abc", calls=(call,)), 0) == 14  # 35
    assert count.message(ToolResult(call_id="id12", name="bash", text="abcd"), 0) == 8  # 20
    assert count.tools([tool]) == (4 + 5 + 17 + 20) * 2 // 5
    assert count.tools([]) == 0

    # ceil(characters / 4) + 3 a message; a picture is 85.
    count = jutul.POLICY.estimates(Limits())

    assert [count.message(UserMessage(text="x" * n), 0) for n in (0, 1, 4, 5)] == [3, 4, 4, 5]
    assert count.message(UserMessage(text=""), 2) == 173
    assert count.message(Notice(text="abc"), 0) == 4

    # The library's own figure for that provider; any other can be set.
    message = UserMessage(text="x" * 330)
    policy = POLICIES["jutul"]
    own = policy.with_numbers({"characters_per_token": 2.0})

    assert policy.estimates(Limits()).message(message, 0) == 83 + 3
    assert policy.estimates(Limits(provider="anthropic")).message(message, 0) == 100 + 3
    assert own.estimates(Limits(provider="anthropic")).message(message, 1) == 165 + 3 + 85

    # Each part is floored on its own; the envelope is 4.
    count = POLICIES["baseagent"].estimates(Limits())
    call = ToolCall(call_id="x", name="bash_tool", arguments='{"a": 1}')

    assert count.message(UserMessage(text="漢" * 7), 1) == 1 + 1_000 + 4
    assert count.message(Reply(text="abc", calls=(call,)), 0) == 0 + 2 + 2 + 4


def test_picoclaw_takes_four_times_the_reply_for_its_window() -> None:
    """131,072 by default; 8,192 tokens of reply where it is set to 0."""
    windows = [
        run("picoclaw", [user("a")], reserve=reserve)[0].budget for reserve in (None, 0, 1_000)
    ]

    assert [b.window_tokens for b in windows] == [131_072, 32_768, 4_000]
    assert [b.reserve_tokens for b in windows] == [32_768, 8_192, 1_000]


def test_picoclaw_summarises_more_than_twenty_messages_or_75_percent_of_the_window() -> None:
    """Cut at a turn, the newest four stay; without a model the beginnings are the summary."""
    chat = [user(f"q{n}") if n % 2 == 0 else said(f"a{n}") for n in range(22)]
    at_twenty, _ = run("picoclaw", chat[:20])
    applied, request = run("picoclaw", [{"role": "system", "content": "Be brief."}, *chat])

    assert at_twenty.reductions == ()
    assert [r.stage for r in applied.reductions] == ["summarise"]
    assert [m["content"] for m in request[1:]] == ["q18", "a19", "q20", "a21"]
    assert request[0]["content"] == snapshot(
        "Be brief.\n\n---\n\n"
        "CONTEXT_SUMMARY: an approximate summary of the earlier conversation, for reference only."
        " Where what follows says something else, that holds.\n\n"
        "Conversation summary: user: q0 | assistant: a1 | user: q2 | assistant: a3 | user: q4"
        " | assistant: a5 | user: q6 | assistant: a7"
        " Conversation summary: user: q8 | assistant: a9 | user: q10 | assistant: a11 | user: q12"
        " | assistant: a13 | user: q14 | assistant: a15 | user: q16 | assistant: a17"
    )

    # 32,768 x 4 x 75 // 100 = 98,304 tokens; exactly so many are not above.
    text = "x" * (98_304 * 5 // 2 // 6 - 12)  # 6 messages of 16,384
    chat = [user(text), said(text)] * 3
    at_limit, _ = run("picoclaw", chat)
    above, _ = run("picoclaw", [*chat[:-1], said(f"{text}xxx")])

    assert at_limit.messages_tokens == 98_304
    assert at_limit.reductions == ()
    assert dispositions(above) == {0: "summarised", 1: "summarised"}

    # The beginnings of thousands of messages at once would leave no room for the newest.
    chat = [m for n in range(2_000) for m in (user(f"q{n} {'x' * 190}"), said("y" * 190))]
    applied, request = run("picoclaw", chat, window=100_000, reserve=1_000)

    assert 99_000 < applied.total_tokens <= 100_000
    assert len(request) == 1 + 4
    assert "q1997" in request[0]["content"]


def test_picoclaw_digest_keeps_200_characters_or_a_tenth() -> None:
    """And says where a message was too large to be in it."""
    messages: list[AnyMessage] = [
        UserMessage(text=" " + "q" * 199),
        Reply(text="a" * 3_000),
        UserMessage(text="漢" * 21_000),
        ToolResult(call_id="c", name="bash", text="never"),
    ]
    text = picoclaw.digest(messages, 60_000, picoclaw.Numbers())

    assert text == (
        f"Conversation summary: user: {'q' * 199} | assistant: {'a' * 300}..."
        "\n[Note: Some oversized messages were omitted from this summary for efficiency.]"
    )


def test_picoclaw_cuts_at_turns_only() -> None:
    """The rule of the safe boundary, case by case."""
    blocks = read_transcript(
        [user("a"), *step("x", "r"), said("b"), user("c"), said("d")]
    ).blocks  # turns at 0 and 4 of 6 messages

    assert [safe_boundary(blocks, t) for t in (-1, 0, 1, 3, 4, 5, 6, 9)] == [
        *(0, 0, 4, 4, 4, 4, 6, 6)
    ]
    assert safe_boundary(blocks[1:3], 2) == 2  # no user message: the target itself
    assert safe_boundary(blocks[:3], 2) == 0  # one turn


def test_picoclaw_drops_the_oldest_whole_turns_before_a_call_and_never_the_running_one() -> None:
    """Over when messages + tools + max_tokens > window: turn by turn, until it is not."""
    text = "x" * (2_500 - 12)  # a message of 1,000 tokens
    chat = [user(text), said(text), user(text), *step("c", text), said(text), user(text)]
    fits, _ = run("picoclaw", chat, window=16_010, reserve=10_000)
    over, _ = run("picoclaw", chat, window=16_009, reserve=10_000)
    tight, _ = run("picoclaw", chat, window=13_000, reserve=10_000)

    assert fits.total_tokens == 16_010
    assert fits.reductions == ()
    assert dispositions(over) == {0: "dropped", 1: "dropped"}
    assert dispositions(tight) == dict.fromkeys(range(6), "dropped")

    # A request without a question would be worse than an error.
    with pytest.raises(ContextDoesNotFitError, match="running turn are never dropped"):
        run("picoclaw", [user("a"), said("b"), user("x" * 9_000)], window=4_000, reserve=1_000)


def test_picoclaw_leaves_out_what_providers_refuse() -> None:
    """System messages, calls without results, calls directly after an answer."""
    messages = [
        user("a"),
        {"role": "system", "content": "aside"},
        called("x", "y"),
        result("x", "1"),
        result("x", "2"),
        user("b"),
        said("c"),
        *step("z", "3"),
        user("d"),
        *step("x", "4"),
    ]
    applied, request = run("picoclaw", messages)

    assert contents(request) == ["a", "b", "c", "d", None, "4"]
    assert {b.stage for b in applied.projection.changes.values()} == {"repair", "sanitise"}


def test_picoclaw_halves_the_turns_after_an_overflow() -> None:
    """The last resort against a loop of errors."""
    # The note goes into the summary, pictures of what stays are kept.
    newest = {"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]}
    chat = [user("a"), said("b"), user("c"), *step("x", "r"), said("d"), newest]
    projection = read_transcript(chat).view(None)
    overflow, budget = overflow_of("picoclaw"), run("picoclaw", chat)[0].budget
    halved, reductions = overflow(projection, budget)
    again, _ = overflow(halved, budget)

    assert [r.seqs for r in reductions] == [(1, 2)]
    assert halved.note == "[Emergency compression dropped 2 oldest messages due to context limit]"
    assert halved.media == {7: 1}
    assert [m.text for m in again.messages] == ["look"]
    assert again.whole_summary.count("Emergency compression dropped") == 2

    # The last resort against a loop of errors; two messages stay as they are.
    chat = [user("a"), *step("x", "huge")]
    budget = run("picoclaw", chat)[0].budget
    overflow = overflow_of("picoclaw")
    halved, _ = overflow(read_transcript(chat).view(None), budget)
    small = read_transcript([user("a"), said("b")]).view(None)

    assert [m.text for m in halved.messages] == ["a"]
    assert "dropped 2 oldest" in halved.note
    assert overflow(small, budget) == (small, ())


# --- jutul ---


def test_jutul_evicts_what_is_too_large_into_files() -> None:
    """File tools are never evicted, nor is an older question."""
    # Exactly 80,000 stay; the id becomes a safe file name; file tools are never evicted.
    stays, _ = run("jutul", [user("go"), *step("a", "x" * 80_000)])
    applied, request = run(
        "jutul", [user("go"), *step("fn.a/1", "x" * 80_001), *step("r", "x" * 80_001, name="grep")]
    )

    assert stays.reductions == ()
    assert dispositions(applied) == {2: "evicted"}
    assert [(s.path, len(s.text)) for s in applied.projection.stored] == [
        ("large_tool_results/fn_a_1", 80_001)
    ]
    assert request[2]["content"].rstrip("x") == snapshot(
        "This tool result is too large to show; the whole of it is in the file"
        " large_tool_results/fn_a_1. Read parts of that file where you need more. Its beginning"
        " and end:\n\n"
    )
    assert request[2]["content"].endswith("\n" + "x" * 1_000)

    # Some models use an id again; the second result must not take the place of the first.
    big = "y" * 80_001
    applied, _ = run("jutul", [user("go"), *step("a", big), *step("a", f"{big}2")])

    assert [s.path for s in applied.projection.stored] == [
        "large_tool_results/a",
        "large_tool_results/a-2",
    ]

    # 200,000 characters stay; an older question stays whatever its size.
    big = "q" * 200_001
    applied, request = run("jutul", [user(big), said("a"), user(big)])

    assert dispositions(applied) == {2: "evicted"}
    assert request[0]["content"] == big
    assert run("jutul", [user(big[1:])])[0].reductions == ()


def test_jutul_previews_the_first_and_last_five_lines() -> None:
    """Ten lines are shown whole; each is cut at 1,000 characters."""
    lines = [str(n) for n in range(12)]

    assert preview("\n".join(lines[:10]), Lines()) == "\n".join(lines[:10])
    assert preview("\n".join(lines), Lines()).split("\n") == [
        *lines[:5],
        "... [2 lines truncated] ...",
        *lines[7:],
    ]
    assert preview("x" * 1_001, Lines()) == "x" * 1_000


@table(
    ("window", "trigger", "keeps"),
    [(50_000, 30_000, 3), (99_999, 59_999, 3), (100_000, 60_000, 6), (None, 60_000, 6)],
)
def test_jutul_clears_old_results_above_60_percent(
    window: int | None, trigger: int, keeps: int
) -> None:
    """int(window x 0.6), strictly above; the newest 3 or 6 stay; never the attempt log."""
    messages = [user("go"), *step("log0", "kept", name="record_attempt")]
    for number in range(8):
        messages += step(f"id{number:02}", "x" * 80)
    base = run("jutul", messages, window=window)[0].messages_tokens
    filler = said("x" * ((trigger - base - 3) * 4))
    at_trigger, _ = run("jutul", [*messages, filler], window=window)
    above, request = run("jutul", [*messages, said(f"{filler['content']}x")], window=window)

    assert at_trigger.messages_tokens == trigger
    assert at_trigger.reductions == ()
    assert [m["content"] for m in request if m["role"] == "tool"] == [
        "kept",
        *["[cleared]"] * (8 - keeps),
        *["x" * 80] * keeps,
    ]
    assert [r.stage for r in above.reductions] == ["clear"]


def test_jutul_would_summarise_from_85_percent_or_170_000_tokens_on() -> None:
    """The second where the window is unknown."""
    # From 85 % on, before the newest tenth; the arguments stay valid JSON.
    arguments = json.dumps({"path": "a.jl", "content": "z" * 2_001, "mode": "y" * 2_000})
    edit = called("e", name="write_file", arguments=arguments)
    messages = [user("go"), edit, result("e", "ok"), said("x" * 34_000), said("done")]
    below, _ = run("jutul", messages, window=12_000)
    applied, request = run("jutul", [user("x" * 400), *messages], window=10_600)
    shortened = json.loads(request[2]["tool_calls"][0]["function"]["arguments"])

    assert below.reductions == ()
    assert below.projection.notes == ()
    assert shortened == {
        "path": "a.jl",
        "content": "z" * 20 + "...(argument truncated)",
        "mode": "y" * 2_000,
    }
    assert dispositions(applied) == {2: "shortened"}
    assert applied.projection.notes == ("would summarise the oldest 5 messages",)

    # And six messages would stay, with the call that a result belongs to.
    chat = [user("x" * 190_000)] * 3 + [*step("a", "1"), *step("b", "2"), said("c"), said("d")]
    applied, _ = run("jutul", chat)
    with_more, _ = run("jutul", [*chat, user("x" * 150_000)])

    assert applied.messages_tokens < 170_000
    assert applied.projection.notes == ()
    assert with_more.projection.notes == ("would summarise the oldest 3 messages",)


# --- baseagent ---


def test_baseagent_has_168_000_usable_tokens() -> None:
    """200,000 - 32,000; the trigger is 142,800, strictly above."""
    at_trigger, _ = run("baseagent", [user(tokens(142_796))])
    above, _ = run("baseagent", [user(tokens(142_797))])

    assert at_trigger.messages_tokens == 142_800
    assert at_trigger.projection.notes == ()
    assert above.projection.notes == ("would summarise all 1 messages",)


def picture() -> list[Json]:
    """Return the seed's picture: 150K tokens, 114K of them in three results."""
    arguments = json.dumps({"a": tokens(9_990)})
    return [
        {"role": "system", "content": tokens(4_996)},
        user(tokens(996)),
        called("1", arguments=arguments),
        result("1", tokens(50_000)),
        called("2", arguments=arguments),
        result("2", tokens(40_000)),
        called("3", arguments=arguments),
        result("3", tokens(24_000)),
    ]


def test_baseagent_prunes_the_picture_from_150k_to_60k() -> None:
    """The seed's picture, which its own two-turn guard would leave alone."""
    numbers = {"protect_last_turns": 0, "max_output_tokens": 50_000}
    applied, request = run("baseagent", picture(), numbers=numbers)
    guarded, _ = run("baseagent", picture(), numbers={"max_output_tokens": 50_000})
    reduction = applied.reductions[0]

    assert reduction.tokens_before - reduction.tokens_after == 90_000 - 16  # 2 markers of 8 tokens
    assert round(applied.total_tokens - 32_000, -4) == 60_000
    assert [m["content"][:33] for m in request if m["role"] == "tool"] == [
        "[Old tool result content cleared]",
        "[Old tool result content cleared]",
        "abcd" * 8 + "a",
    ]
    assert guarded.reductions == ()
    assert guarded.projection.notes == ("would summarise all 7 messages",)


def test_baseagent_clears_only_what_is_worth_it() -> None:
    """40,000 newest tokens stay, counted before they are protected; more than 20,000 come free."""
    numbers = {"max_output_tokens": 200_000}
    for sizes, cleared in (
        ([20_000, 40_000], 0),  # saves 20,000: not more than the minimum
        ([20_001, 40_000], 1),
        ([30_000, 60_000], 2),  # the newest goes beyond 40,000 by itself
        ([100_000, 15_000, 15_000, 10_000], 1),
    ):
        steps = [m for n, size in enumerate(sizes) for m in step(f"{n}", tokens(size))]
        messages = [user("a"), *steps, said("b"), user(tokens(90_000)), said("c"), user("d")]
        applied, _ = run("baseagent", messages, numbers=numbers)

        assert list(dispositions(applied).values()) == ["cleared"] * cleared, sizes

    # Results are skipped until two user messages have gone by.
    messages = [user("a"), *step("1", tokens(70_000)), user("b"), *step("2", tokens(80_000))]
    applied, _ = run("baseagent", [*messages, user("c")], numbers=numbers)

    assert dispositions(applied) == {2: "cleared"}


def test_baseagent_cuts_results_in_the_middle() -> None:
    """Over 10,000 characters: the first and last 4,950 around the marker."""
    text = "H" * 5_000 + "T" * 5_000
    at_limit, _ = run("baseagent", [user("go"), *step("a", text)])
    applied, request = run("baseagent", [user("go"), *step("a", f"{text}!")])

    assert at_limit.reductions == ()
    assert request[-1]["content"] == ("H" * 4_950 + "\n\n[...truncated...]\n\n" + "T" * 4_949 + "!")
    assert dispositions(applied) == {2: "shortened"}


# --- all ---


def older_of(
    name: str, messages: list[Json], limits: Limits, *, turn_start: int | None = None
) -> int:
    """Return how many of the oldest blocks a summary should stand for."""
    policy = POLICIES[name]
    projection = read_transcript(messages).view(turn_start)
    budget = policy.divide(policy.numbers, limits, 0, 0)
    return policy.older(policy.numbers, limits, projection, budget)


def test_a_model_summarises_what_the_seed_says_where_clearing_is_not_enough() -> None:
    """picoclaw: all but the newest 4, at a turn; jutul: all but a tenth; baseagent: everything."""
    chat = [user("q") if n % 2 == 0 else said("a") for n in range(22)]
    large = [user("x" * 3_400), said("y" * 2_400)] * 6
    limits = Limits(window_tokens=10_000, output_tokens=1_000)

    assert older_of("picoclaw", chat[:20], Limits()) == 0
    assert older_of("picoclaw", chat, Limits()) == 18
    assert older_of("jutul", large[:10], limits) == 0
    assert older_of("jutul", large, limits) == 11
    assert older_of("baseagent", large[:10], limits) == 0
    assert older_of("baseagent", large, limits) == 12
    assert older_of("baseagent", [*large, user("now")], limits) == 12
    assert older_of("duragent", large, limits) == 0

    # The cheap layer first; a summary only where it is not enough.
    work = [user("go"), *(m for n in range(20) for m in step(f"c{n}", "x" * 2_000)), said("done")]
    limits = Limits(window_tokens=10_000, output_tokens=100)

    assert older_of("jutul", work, limits) == 0
    assert older_of("jutul", [*work, user("y" * 32_000)], limits) > 0


def test_every_policy_halves_after_an_overflow_and_says_so() -> None:
    """Two systems know no such error; a session must not end with one."""
    chat = [m for n in range(4) for m in (user(f"q{n}"), said(f"a{n}"))]
    for name, policy in POLICIES.items():
        projection = read_transcript(chat).view(None)
        budget = policy.divide(policy.numbers, Limits(), 0, 0)
        halved, _ = overflow_of(name)(projection, budget)
        preamble = policy.preamble("S", halved.whole_summary, 4)

        assert [m.text for m in halved.messages] == ["q2", "a2", "q3", "a3"]
        assert "compression dropped 4 oldest messages" in preamble.system + preamble.preface


@table("name", list(POLICIES))
def test_a_summary_is_shown_once_whoever_asked_for_it(name: str) -> None:
    """Turns leave for it on demand too, under policies that make none by themselves."""
    policy = POLICIES[name]
    preamble = policy.preamble("S", "They like cats.", 0)

    assert (preamble.system + preamble.preface).count("They like cats.") == 1
    assert policy.preamble("S", "", 0) == structs.replace(preamble, system="S", preface="")


def test_a_summary_is_paid_for_under_duragent() -> None:
    """What stands in the prompt takes its part of the window, whatever it is."""
    chat = [m for n in range(9) for m in (user(tokens(96)), said(tokens(96)))]
    policy = POLICIES["duragent"]
    limits = Limits(window_tokens=2_000, output_tokens=100)
    budget = policy.divide(policy.numbers, limits, 0, 0)
    projection = structs.replace(read_transcript(chat).view(None), summary=tokens(900))
    made, _ = in_order(*policy.ladder(policy.numbers, limits))(projection, budget)

    assert [r.stage for r in policy_stages("duragent", projection, limits)] == [
        "history_budget",
        "fit",
    ]
    assert len(made.messages) == 9


def policy_stages(name: str, projection: Projection, limits: Limits) -> tuple[Reduction, ...]:
    """Return what the stages for each request do."""
    policy = POLICIES[name]
    budget = policy.divide(policy.numbers, limits, 0, 0)
    return in_order(*policy.ladder(policy.numbers, limits))(projection, budget)[1]


def test_baseagent_keeps_what_it_pruned() -> None:
    """Its own loop takes the pruned list for the old one, and prunes it again each time."""
    policy = POLICIES["baseagent"].with_numbers({"max_output_tokens": 200_000})
    sizes = [120_000, 30_000, 10_000]
    work = [m for n, size in enumerate(sizes) for m in step(f"{n}", tokens(size))]
    projection = read_transcript(
        [user("a"), *work, said("b"), user("c"), said("d"), user("e")]
    ).view(None)
    budget = policy.divide(policy.numbers, Limits(), 0, 0)
    prune = in_order(*policy.lasting(policy.numbers, Limits()))
    pruned, reductions = prune(projection, budget)

    assert [r.seqs for r in reductions] == [(3,)]
    assert prune(pruned, budget) == (pruned, ())


def test_jutul_scales_by_the_usage_that_was_reported() -> None:
    """1.0 to 1.25 times the estimate; and what the provider itself reported counts as it is."""
    projection = read_transcript([user("x" * 20_000), said("y" * 14_000), user("z")]).view(None)
    limits = Limits(window_tokens=12_000, output_tokens=100)  # a summary from 10,200 on
    policy = POLICIES["jutul"]
    budget = policy.divide(policy.numbers, limits, 0, 0)

    def older(tokens: int) -> int:
        answer = projection.blocks[1]
        assert isinstance(answer, Step)
        usage = Usage(input_tokens=tokens, output_tokens=1_000)
        known = structs.replace(answer, reply=structs.replace(answer.reply, usage=usage))
        blocks = (projection.blocks[0], known, projection.blocks[2])
        return policy.older(
            policy.numbers, limits, structs.replace(projection, blocks=blocks), budget
        )

    assert older(0) == 0  # 8,510 estimated
    assert older(5_000) == 0  # less than estimated: never scaled down
    assert older(8_000) == 0  # 9,000
    assert older(9_400) > 0  # 10,400


def test_jutul_clips_the_newest_results_after_an_overflow() -> None:
    """A file keeps its first 4,000 characters, other results go to files; pictures stay."""
    big = "line\n" * 4_000
    calls = called("a", name="read_file") | {}
    calls["tool_calls"] += called("b")["tool_calls"]
    shot = {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": big}, IMAGE]}
    projection = read_transcript([user("go"), calls, result("a", big), shot]).view(None)
    budget = POLICIES["jutul"].divide(POLICIES["jutul"].numbers, Limits(), 0, 0)
    stage = overflow_of("jutul")
    clipped, reductions = stage(projection, budget)
    file, other = (m for m in clipped.messages if isinstance(m, ToolResult))
    again = stage(clipped, budget)[0]
    small = read_transcript([user("go"), *step("a", "x" * 19_000)]).view(None)

    assert [r.stage for r in reductions] == ["clip"]
    assert file.text == (
        f"{big[:4_000]}\n\n[the rest of 20,000 characters is left out; read the file in parts]"
    )
    assert other.text.startswith("This tool result is too large")
    assert clipped.media == {4: 1}
    assert [(s.path, s.text) for s in clipped.stored] == [("large_tool_results/b", big)]
    assert [m.text for m in again.messages] == ["go"]  # nothing else is left to do
    assert [r.stage for r in stage(small, budget)[1]] == ["halve"]  # below 5,000 tokens


def test_the_numbers_of_the_seeds_can_be_changed() -> None:
    """Each of them is somebody's guess about somebody else's work."""
    messages: list[AnyMessage] = [Reply(text="a"), UserMessage(text="q" * 900), Reply(text="b")]
    pico = picoclaw.Numbers(summarize_batch_messages=2, digest_characters=3, digest_percent=1)
    lines = {"evict_result_tokens": 1, "preview_lines": 1, "preview_line_characters": 2}
    _, evicted = run("jutul", [user("go"), *step("a", "one\ntwo\nsix\nten")], numbers=lines)
    edit = called("e", name="write_file", arguments=json.dumps({"content": "z" * 2_001}))
    chat = [user("x" * 400), user("go"), edit, result("e", "ok"), said("x" * 34_000), said("done")]
    head = {"argument_head_characters": 5}
    _, shrunk = run("jutul", chat, window=10_600, numbers=head)
    unknown = {"unknown_summarize_tokens": 100, "unknown_keep_messages": 1}
    noted, _ = run("jutul", chat, numbers=unknown)
    cleared, _ = run(
        "jutul",
        [user("go"), *(m for n in range(8) for m in step(f"c{n}", "x" * 400))],
        numbers={"unknown_clear_tokens": 500},
    )

    assert picoclaw.digest(messages, 60_000, pico) == (
        "Conversation summary: assistant: a Conversation summary: user: qqqqqqqqq... | assistant: b"
    )
    assert evicted[2]["content"].endswith("\n\non\n... [2 lines truncated] ...\nte")
    assert "zzzzz...(argument truncated)" in str(shrunk)
    assert noted.projection.notes == ("would summarise the oldest 5 messages",)
    assert list(dispositions(cleared).values()) == ["cleared"] * 2
    for name, price in (("picoclaw", 256), ("jutul", 85), ("baseagent", 1_000)):
        policy, empty = POLICIES[name], UserMessage(text="")
        dear = policy.with_numbers({"image_tokens": 7}).estimates(Limits())
        base = dear.message(empty, 0)

        assert policy.estimates(Limits()).message(empty, 1) == base + price
        assert dear.message(empty, 1) == base + 7


def test_a_model_that_cannot_recall_is_not_told_to() -> None:
    """It would ask for a tool that it does not have."""
    assert policy_of(ContextSpec()) == POLICIES["everturn"]
    assert policy_of(ContextSpec(), recalls=False).numbers.recall is False
    assert policy_of(ContextSpec(policy=POLICIES["jutul"]), recalls=False) == POLICIES["jutul"]


def test_a_number_that_a_policy_lacks_cannot_be_set() -> None:
    """It would have no effect, and whoever set it would not know."""
    for policy in POLICIES.values():
        with pytest.raises(KeyError):
            policy.with_numbers({"no_such_number": 1})
