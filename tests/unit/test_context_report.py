"""The report of a session's context: the numbers that `/context` shows."""

from __future__ import annotations

from datetime import timedelta
from textwrap import wrap

from inline_snapshot import snapshot
from msgspec import structs
from support.context_policies import POLICIES
from support.conversations import STARTED, numbered, simple_turn
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.render import render
from everturn_actors.context.report import ContextReport, context_report, level_of, percent_of
from everturn_actors.model import (
    Conversation,
    PromptFingerprint,
    Reductions,
    Replaced,
    Summary,
    ToolDefinition,
    Turn,
    Usage,
)
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, PromptSpec, SessionSpec
from everturn_actors.state.reports import report_from, report_record

FACTS = ModelStatistics(scale=1.25, reports=4)
TOOLS = (ToolDefinition(name="bash", description="Run a command.", parameters={}),)
NOW = STARTED + timedelta(hours=1)


def spec(policy: str = "everturn", *, window: int = 2_000) -> AgentSpec:
    """Return an agent with a small window."""
    return AgentSpec(
        name="helper",
        model=ModelSpec(
            provider="test", name="test-model", context_window=window, max_output_tokens=200
        ),
        prompt=PromptSpec(system_prompt="You help people with their orders."),
        session=SessionSpec(context=ContextSpec(policy=POLICIES[policy])),
    )


def talk(*, running: bool = True, text: str = "Where is my order?") -> Conversation:
    """Return a conversation of three finished turns, and a running one."""
    turns = [simple_turn(number, calls=(2, 0), text=text) for number in range(1, 4)]
    last = simple_turn(4, calls=(1,), text=text)
    held = numbered(turns, last if running else None)
    return structs.replace(held, window_messages=100)


def report(
    conversation: Conversation,
    agent: AgentSpec | None = None,
    *,
    statistics: ModelStatistics = FACTS,
    has_summariser: bool = True,
    cache_misses: int = 0,
) -> ContextReport:
    """Return the report of the request that would be sent now."""
    return context_report(
        render(conversation, agent or spec(), TOOLS, statistics),
        conversation,
        statistics=statistics,
        cache_misses=cache_misses,
        now=NOW,
        has_summariser=has_summariser,
    )


def lines(*sentences: str) -> list[str]:
    """Return sentences as short lines, so that they can stand in a test."""
    return [line for text in sentences for line in wrap(text, 72, subsequent_indent="  ")]


def tokens(found: ContextReport) -> dict[str, int]:
    """Return the tokens of the regions by name."""
    return {region.name: region.tokens for region in found.regions}


def reductions() -> Reductions:
    """Return a standing in which the first turn is summarised, and a result of the second cleared.

    Turn 1 has the messages 1 to 5, turn 2 those from 6 on; its results are 8 and 9.
    """
    return Reductions(
        cut_turn=2,
        replaced={8: Replaced(seq=8, disposition="cleared", text="[cleared]")},
        summary=Summary(last_turn=1, messages=5, text="They asked where the order is."),
    )


def test_the_report_tells_all_of_a_small_conversation() -> None:
    """This is what a person reads when they ask why the agent forgot something."""
    record = report_record(report(structs.replace(talk(), reductions=reductions()), cache_misses=1))
    sentences = lines(record.pop("budget"), *record.pop("next"))

    assert record.pop("prefix")
    assert record == snapshot(
        {
            "policy": "everturn",
            "model": "test-model",
            "window_tokens": 2000,
            "used_tokens": 459,
            "percent": 22,
            "level": "green",
            "regions": {
                "system": 8,
                "summary": 73,
                "history": 127,
                "turn": 37,
                "tools": 14,
                "reserve": 200,
                "margin": 100,
                "free": 1441,
            },
            "shown_messages": 13,
            "hidden_messages": 5,
            "by_disposition": {"cleared": 1, "summarised": 5},
            "summary": {"messages": 5, "last_turn": 1, "source": "model"},
            "predicted_tokens": 259,
            "reported": {
                "input_tokens": 0,
                "output_tokens": 0,
                "cached_tokens": 0,
                "cache_written_tokens": 0,
                "cost_nanodollars": 0,
            },
            "scale": 1.25,
            "reports": 4,
            "cache_misses": 1,
            "failures": 0,
            "retry_at": None,
            "notes": [],
        }
    )
    assert sentences == snapshot(
        [
            "window 2,000 - system 9 - tools 15 - reply 200 - margin 100 = 1,676",
            "  tokens for messages (history cap none)",
            "old tool results are cleared from 955 tokens of messages on: 790 to go",
            "older turns are summarised after a turn from 1,354 tokens of messages",
            "  on: 1,189 to go",
            "the oldest turns leave from 1,593 tokens of messages on, down to 477:",
            "  1,428 to go",
            "so they do above 87 messages, down to 62: 13 are shown now",
            "the session holds up to 100 messages (18 now); then its oldest turns",
            "  leave it, and the log keeps them",
        ]
    )


@table("policy", list(POLICIES))
@table("running", [False, True])
def test_regions_are_the_window(policy: str, *, running: bool) -> None:
    """A bar that does not add up to the window tells a person something false."""
    found = report(talk(running=running), spec(policy, window=50_000))
    by_name = tokens(found)

    assert sum(by_name.values()) == found.window_tokens
    assert sum(by_name[name] for name in ("system", "summary", "history", "turn", "tools")) == (
        found.predicted_tokens
    )
    assert found.used_tokens == found.predicted_tokens + by_name["reserve"]
    assert (by_name["turn"] > 0) == running


def test_what_the_provider_reported_is_in_the_prediction() -> None:
    """And what does not fit is not called free."""
    # The anchor is worth more than the estimate, and has to show in the regions too.
    plain = talk()
    rendered = render(plain, spec(), TOOLS, FACTS)
    anchored = structs.replace(
        plain,
        fingerprint=rendered.fingerprint,
        reported=Usage(input_tokens=rendered.tokens + 20, cached_tokens=40),
    )
    found = report(anchored)

    assert abs(found.predicted_tokens - rendered.tokens - 20) <= 3  # all parts are rounded
    assert sum(tokens(found).values()) == found.window_tokens
    assert found.reported == anchored.reported

    # What does not fit is not called free. Over the window nothing is free, and the percentage says
    # so instead of stopping at 100.
    found = report(talk(text="word " * 4_000), spec("jutul", window=2_000))

    assert found.percent > 100
    assert found.level == "red"
    assert tokens(found)["free"] == 0
    assert tokens(found)["margin"] == 0


def test_hidden_messages_are_counted_by_what_became_of_them() -> None:
    """The number is that of the log minus what is shown, whoever hid it."""
    conversation = structs.replace(talk(), reductions=reductions(), left_messages=7)
    found = report(conversation)

    assert found.hidden_messages == 12
    assert dict(found.by_disposition) == {"cleared": 1, "summarised": 5, "dropped": 7}
    assert found.shown_messages + 5 == conversation.held_messages

    # A notice of what is hidden counts as the summary. It stands in the place of the oldest
    # messages, and is none of them.
    counted = tokens(
        report(structs.replace(talk(), reductions=Reductions(cut_turn=3)), spec("duragent"))
    )

    assert (counted["summary"], counted["history"], counted["turn"]) == snapshot((15, 65, 36))

    # A result that was cut on its way in is counted. What stands in a file and not in the request
    # is not `kept`.
    whole = simple_turn(1, calls=(1, 0))
    step = whole.steps[0]
    short = structs.replace(step, results=(structs.replace(step.results[0], path="1-1-1.txt"),))
    turn: Turn = structs.replace(whole, steps=(short, *whole.steps[1:]))

    assert dict(report(numbered([turn], None)).by_disposition) == {"shortened": 1}
    assert dict(report(numbered([turn], None), spec("jutul")).by_disposition) == {"evicted": 1}


@table(
    ("used", "level"),
    [(0, "green"), (699, "green"), (700, "yellow"), (899, "yellow"), (900, "red")],
)
def test_levels_begin_at_70_and_90_percent(used: int, level: str) -> None:
    """A person is warned before the window is full, and not by rounding."""
    assert level_of(used, 1_000) == level
    assert level_of(used, 0) == "green"
    assert percent_of(used, 0) == 0


def test_the_outlook_promises_no_summary_that_nobody_writes() -> None:
    """Nobody has to wonder why none comes."""
    # The outlook says when the model is asked again. After failures nobody has to wonder why no
    # summary comes.
    held = Reductions(failures=2, retry_at=NOW + timedelta(minutes=5))
    waiting = report(structs.replace(talk(), reductions=held))
    over = report(structs.replace(talk(), reductions=structs.replace(held, retry_at=NOW)))

    assert waiting.retry_at == NOW + timedelta(minutes=5)
    assert "no summary before 2026-11-21 23:54:56 UTC: the model failed 2 times in a row" in (
        waiting.next
    )
    assert over.retry_at is None
    assert not any("no summary before" in sentence for sentence in over.next)

    # The outlook of an agent without a summariser promises no summary. A report must not promise
    # what nothing will do.
    found = report(talk(), has_summariser=False)

    assert any("no model writes summaries for this agent" in text for text in found.next)
    assert not any("are summarised after a turn" in text for text in found.next)


@table(
    ("policy", "expected"),
    [
        (
            "everturn",
            snapshot(
                [
                    "old tool results are cleared from 5,551 tokens of messages on: 5,324 to",
                    "  go",
                    "older turns are summarised after a turn from 7,865 tokens of messages",
                    "  on: 7,638 to go",
                    "the oldest turns leave from 9,253 tokens of messages on, down to 2,775:",
                    "  9,026 to go",
                    "so they do above 87 messages, down to 62: 18 are shown now",
                    "the session holds up to 100 messages (18 now); then its oldest turns",
                    "  leave it, and the log keeps them",
                ]
            ),
        ),
        (
            "duragent",
            snapshot(
                [
                    "older messages are left out of a request from 8,769 tokens of history",
                    "  on: 8,550 to go",
                    "in a running turn all tool results but the first 2 and the last 5 are",
                    "  masked",
                    "this policy makes no summary by itself; `compact` makes one",
                    "the session holds up to 100 messages (18 now); then its oldest turns",
                    "  leave it, and the log keeps them",
                ]
            ),
        ),
        (
            "picoclaw",
            snapshot(
                [
                    "after a turn, all but the newest 4 messages are summarised above 20",
                    "  messages (15 now) or 7,500 tokens of history (174 now)",
                    "whole oldest turns leave a request from 10,000 tokens on: 9,557 to go",
                    "the session holds up to 100 messages (18 now); then its oldest turns",
                    "  leave it, and the log keeps them",
                ]
            ),
        ),
        (
            "jutul",
            snapshot(
                [
                    "old tool results are cleared from 6,000 tokens of messages on: 5,751 to",
                    "  go",
                    "older turns are summarised after a turn from 8,500 tokens on: 8,253 to",
                    "  go",
                    "the session holds up to 100 messages (18 now); then its oldest turns",
                    "  leave it, and the log keeps them",
                ]
            ),
        ),
        (
            "baseagent",
            snapshot(
                [
                    "old tool results are cleared from 8,330 tokens on: 8,191 to go",
                    "where that is not enough, all older turns are summarised after a turn",
                    "the session holds up to 100 messages (18 now); then its oldest turns",
                    "  leave it, and the log keeps them",
                ]
            ),
        ),
    ],
)
def test_the_outlook_names_thresholds_and_what_is_left(policy: str, expected: list[str]) -> None:
    """The thresholds are the policy's, counted as it counts."""
    assert lines(*report(talk(), spec(policy, window=10_000)).next) == expected


def test_the_prefix_is_that_of_the_request() -> None:
    """A person compares it with the one that the log keeps."""
    conversation = talk()
    found = report(conversation)

    assert found.prefix == render(conversation, spec(), TOOLS, FACTS).fingerprint.prefix != ""
    assert (
        report(structs.replace(conversation, fingerprint=PromptFingerprint())).prefix
        == found.prefix
    )


def test_a_report_comes_back_from_its_record() -> None:
    """A command prints the same, whether it asked a gateway or opened one."""
    held = Reductions(failures=1, retry_at=NOW + timedelta(seconds=1))
    for conversation in (
        talk(),
        structs.replace(talk(), reductions=reductions()),
        structs.replace(talk(), reductions=held),
    ):
        found = report(conversation)

        assert report_from(report_record(found)) == found
