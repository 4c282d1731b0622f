"""What is counted and timed: by real turns over a scripted model, and what a scrape then shows."""

from __future__ import annotations

import errno
import logging

import anyio
import pytest
from msgspec.structs import replace
from prometheus_client import Metric
from support.metered import Failing, measured, scrape
from support.scripted_adapter import ScriptedAdapter
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.errors import (
    ContextDoesNotFitError,
    ContextOverflowError,
    JournalWriteError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    QuotaExhaustedError,
    RateLimitedError,
    ToolFailedError,
    ToolsRefusedError,
    TruncatedStreamError,
)
from everturn_actors.events import Body, ContextReduced, Event, ModelReplied, Summarised
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import (
    SCHEDULE,
    AmbientRules,
    ConversationKey,
    IncomingMessage,
    PromptFingerprint,
    Reply,
    Usage,
)
from everturn_actors.ports import CommitStats, ToolCapabilities, ToolOutput, Verdict
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import START, ManualClock, ScriptedProvider, calling
from everturn_channels.errors import NotSentError
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.telemetry import Telemetry, open_telemetry
from everturn_gateway.telemetry.exposition import metric_of
from everturn_gateway.telemetry.instruments import OTHER, SERIES_MAX
from everturn_gateway.telemetry.models import kind_of
from everturn_gateway.telemetry.telemetry import wants_openmetrics
from everturn_gateway.usage import UsageLimitError

READ = ToolCapabilities(kind="cli", read_only=True)


def counted(telemetry: Telemetry) -> dict[str, Metric]:
    """Return what was counted, by name."""
    made = (metric_of(make()) for make in telemetry.instruments.snapshot())
    return {each.name: each for each in made}


async def test_a_turn_with_a_tool_call_is_counted_once_in_every_place() -> None:
    """These are the numbers that people watch; each has to be the one that its name says."""
    used = Usage(input_tokens=100, output_tokens=7, cached_tokens=60, cost_nanodollars=2_000_000)
    asks = replace(calling(("c1", "look")), usage=used, model="m-2026")
    model = ScriptedProvider(asks, replace(Reply(text="two words"), usage=used))
    async with measured(model, tools=by_name(Deed("look", capabilities=READ))) as test:
        result = await test.ask("hello")
        seen = await test.scrape()

    assert result.outcome == "answered"
    assert seen.series("everturn_messages_received_total") == {"test test prompt": 1}
    assert seen.series("everturn_sessions_started_total") == {"test test": 1}
    assert seen.series("everturn_turns_started_total") == {"test test": 1}
    assert seen.series("everturn_turns_finished_total") == {"test test answered": 1}
    assert seen.series("everturn_turn_seconds_count") == {"test answered": 1}
    assert seen.value("everturn_steps_total", agent="test") == 2
    assert seen.series("everturn_model_calls_total") == {"test scripted/scripted ok": 2}
    assert seen.series("everturn_model_call_seconds_count") == {"scripted/scripted": 2}
    assert seen.series("everturn_model_first_token_seconds_count") == {"scripted/scripted": 1}
    tokens = {"input": 200, "output": 14, "cached": 120}
    assert seen.series("everturn_model_tokens_total") == {
        f"test {kind} scripted/scripted": amount for kind, amount in tokens.items()
    }
    cost = seen.value("everturn_model_cost_dollars_total", agent="test", model="scripted/scripted")
    assert cost == pytest.approx(0.004)
    assert seen.series("everturn_tool_calls_total") == {"test cli ok look": 1}
    assert seen.series("everturn_tool_call_seconds_count") == {"cli look": 1}
    assert seen.value("everturn_events_total") >= 9
    assert seen.value("everturn_journal_append_seconds_count") >= 5
    assert seen.series("everturn_tool_calls_refused_total") == {}


async def test_no_series_names_a_chat_a_session_or_a_person() -> None:
    """Labels with a value for each person fill a monitoring system, and tell it who writes."""
    async with measured(ScriptedProvider("secret answer")) as test:
        result = await test.ask("secret question", sender="ann-42", idempotency_key="k-17")
        text = (await test.telemetry.exposition("")).body.decode()

    assert "everturn_turns_finished_total{" in text
    for private in (result.session_id, "chat-4711", "ann-42", "k-17", "secret", "once-"):
        assert private not in text


async def test_a_turn_lasts_from_its_first_event_to_its_last() -> None:
    """What people wait for, not what the model took: it is read from the log's own times."""
    clock = ManualClock()
    model = ScriptedProvider("slow answer")
    model.hold()
    async with measured(model, clock=clock) as test, anyio.create_task_group() as tasks:
        tasks.start_soon(test.ask)
        await model.until_called()
        running = await test.scrape()
        clock.advance(42)
        model.release()
        while True:
            seen = await test.scrape()
            if seen.series("everturn_turn_seconds_sum"):
                break

    assert running.series("everturn_turns_finished_total") == {}
    assert seen.series("everturn_turn_seconds_sum") == {"test answered": 42}


@table(
    ("error", "kind"),
    [
        (ModelTransientError(), "unavailable"),
        (TruncatedStreamError(), "truncated"),
        (RateLimitedError(), "rate_limited"),
        (QuotaExhaustedError(), "quota_exhausted"),
        (ContextOverflowError(), "context_overflow"),
        (ContextDoesNotFitError(), "refused"),
        (ToolsRefusedError(), "tools_refused"),
        (ModelAuthError(), "unauthorized"),
        (ModelRefusedError(), "refused"),
        (UsageLimitError(), "usage_limit"),
        (ModelError(), "failed"),
        (ValueError("a bug"), "error"),
    ],
)
def test_every_failure_of_a_model_has_a_word(error: Exception, kind: str) -> None:
    """An alarm on keys that are refused must not ring for a busy provider."""
    assert kind_of(error) == kind


async def test_failures_tries_and_fallbacks_are_counted() -> None:
    """What an outage is, and costs, shows before anybody complains."""
    # A provider that is shaky shows here before anybody complains.
    clock = ManualClock()
    model = Failing(ModelTransientError("down"), RateLimitedError("slow"))
    async with measured(model, clock=clock) as test, anyio.create_task_group() as tasks:
        tasks.start_soon(test.ask)
        for _ in range(2):
            await clock.until_sleeping(60)
            clock.advance(60)
        await (await test.service.submit(IncomingMessage(text="again", key=test.key()))).result()
        seen = await test.scrape()

    calls = seen.series("everturn_model_calls_total")
    assert calls["test scripted/scripted unavailable"] == 1
    assert calls["test scripted/scripted rate_limited"] == 1
    assert seen.series("everturn_model_retries_total") == {"test scripted/scripted": 2}

    # The cost of an outage is paid at the fallback's price.
    said = Reply(text="well", fallback="other/backup", usage=Usage(input_tokens=5))
    async with measured(ScriptedProvider(said)) as test:
        await test.ask()
        seen = await test.scrape()

    assert seen.series("everturn_model_fallbacks_total") == {"test other/backup": 1}
    assert seen.series("everturn_model_tokens_total") == {"test input other/backup": 5}


async def test_calls_of_tools_and_questions_about_them_are_counted() -> None:
    """A tool that fails, or is never allowed, looks like a slow agent otherwise."""
    # A tool that always fails, or is never allowed, looks like a slow agent otherwise.

    def fail(_: object) -> str:
        raise ToolFailedError("no such file")  # noqa: EM101, TRY003 - a test's

    tools = by_name(
        Deed("good"),
        Deed("bad", gives=lambda _: ToolOutput(text="no", is_error=True)),
        Deed("broken", gives=fail),
        Deed("late", capabilities=ToolCapabilities(timeout_s=0.01), held=True),
        Deed("forbidden"),
    )
    names = [*tools, "missing"]
    model = ScriptedProvider(calling(*((f"c-{name}", name) for name in names)), "done")
    gate = Rules({"forbidden": Verdict(effect="deny", reason="no")})
    async with measured(model, tools=tools, gate=gate) as test:
        await test.ask()
        seen = await test.scrape()

    assert seen.series("everturn_tool_calls_total") == {
        "test builtin ok good": 1,
        "test builtin error bad": 1,
        "test builtin error broken": 1,
        "test builtin timeout late": 1,
    }
    assert seen.value("everturn_tool_calls_refused_total", agent="test") == 2

    # An agent that asks all day, or is never answered, is not of much use.
    model = ScriptedProvider(calling(("c1", "act")), "done")
    gate = Rules({"act": Verdict(effect="ask")})
    async with (
        measured(model, tools=by_name(Deed("act")), gate=gate) as test,
        anyio.create_task_group() as tasks,
    ):
        submission = await test.service.submit(IncomingMessage(text="go", key=test.key()))
        async for update in test.service.watch(submission.session_id, after=0):
            if isinstance(update, Event) and type(update.body).__name__ == "ApprovalAsked":
                break
        asked = await test.scrape()
        load = await test.service.activity.load()
        await test.service.decide(submission.session_id, "c1", "deny")
        await submission.result()
        seen = await test.scrape()
        tasks.cancel_scope.cancel()

    assert asked.value("everturn_approvals_asked_total", agent="test") == 1
    assert (load.active, load.running, load.approvals) == (1, 1, 1)
    assert seen.series("everturn_approvals_decided_total") == {"test deny": 1}
    assert seen.value("everturn_tool_calls_refused_total", agent="test") == 1


async def test_messages_to_people_are_counted_and_timed_by_channel() -> None:
    """A platform that refuses or loses messages is seen here first."""
    adapter, clock = ScriptedAdapter(), ManualClock()
    adapter.fail("send", NotSentError("busy", retry_after_s=3))
    async with (
        measured(ScriptedProvider("hello yourself"), adapter=adapter, clock=clock) as test,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(test.ask)
        await clock.until_sleeping(10)
        clock.advance(10)
        while not adapter.world.texts:
            await anyio.lowlevel.checkpoint()
        while (await test.service.activity.load()).outbox:
            await anyio.lowlevel.checkpoint()
        seen = await test.scrape()

    assert seen.series("everturn_delivery_chunks_total") == {"test unsent": 1, "test sent": 1}
    assert seen.series("everturn_delivery_seconds_count") == {"test": 2}


async def test_what_is_said_beside_turns_has_its_own_counters() -> None:
    """Jobs, announcements and ambient talk cost differently, and fail differently."""
    async with measured(ScriptedProvider()) as test:
        key = test.key()
        await test.service.submit(
            IncomingMessage(kind="announcement", text="news", key=key, sender=SCHEDULE)
        )
        await test.service.submit(IncomingMessage(kind="announcement", text="more", key=key))
        await test.service.submit(IncomingMessage(kind="ambient", text="chatter", key=key))
        await test.ask("a task", sender=SCHEDULE)
        await test.service.submit(
            IncomingMessage(
                kind="ambient", text="fyi", key=key, ambient=AmbientRules(shown="message")
            )
        )
        session_id = await test.service.conversations.current(key)
        await test.service.reset(session_id)
        seen = await test.scrape()

    assert seen.series("everturn_announcements_total") == {"test test": 2}
    assert seen.series("everturn_scheduled_runs_total") == {"test message": 1, "test task": 1}
    assert seen.series("everturn_messages_received_total") == {
        "test test silent": 1,
        "test test prompt": 1,
        "test test ambient": 1,
    }
    assert seen.series("everturn_sessions_ended_total") == {"test test reset": 1}


def test_contexts_and_group_commits_are_measured() -> None:
    """What a conversation costs, and what the disk allows."""
    # Prefix drift and reductions decide what a conversation costs.
    telemetry = Telemetry()
    key = ConversationKey(channel="test", chat="c", agent="test")
    state = SessionState(session_id="s", key=key, created_at=START, updated_at=START, last_seq=1)
    bodies: tuple[Body, ...] = (
        ContextReduced(stage="clear", tokens_before=900, tokens_after=100),
        ContextReduced(stage="clear", tokens_before=50, tokens_after=60),
        Summarised(last_turn=1, messages=2, text="x", source="digest"),
        ModelReplied(text="x", fingerprint=PromptFingerprint(is_cache_miss=True)),
        ModelReplied(text="x", fingerprint=PromptFingerprint(is_cache_miss=False)),
    )
    events = [Event(seq=n, at=START, body=body) for n, body in enumerate(bodies, 2)]
    telemetry.durable(state, state, events)
    families = {
        each.name: each for make in telemetry.instruments.snapshot() for each in [metric_of(make())]
    }

    def values(name: str) -> list[float]:
        return [sample.value for sample in families[name].samples]

    assert values("everturn_context_reductions") == [2]
    assert values("everturn_context_reduced_tokens") == [800]
    assert values("everturn_summaries") == [1]
    assert values("everturn_prompt_cache_misses") == [1]

    # Jobs that share a batch show how much the disk is the limit.
    telemetry = Telemetry()
    telemetry.batch(CommitStats(jobs=3, size_bytes=1200, duration_s=0.004))
    made = {
        each.name: each for make in telemetry.instruments.snapshot() for each in [metric_of(make())]
    }

    assert made["everturn_journal_written_bytes"].samples[0].value == 1200
    assert made["everturn_journal_commit_jobs"].samples[-1].value == 3
    assert made["everturn_journal_commit_seconds"].samples[-1].value == 0.004


def test_series_and_buckets_are_what_their_names_say() -> None:
    """Bounded in number, and each bucket with what is no larger than its bound."""
    # Names come from files and from servers of tools; whoever invents many fills no disk.
    telemetry = Telemetry()
    for number in range(SERIES_MAX + 10):
        telemetry.instruments.steps.add(f"agent-{number}")
        telemetry.instruments.model_call_seconds.add(1.0, f"model-{number}")
    made = {
        each.name: each for make in telemetry.instruments.snapshot() for each in [metric_of(make())]
    }
    steps = made["everturn_steps"].samples
    counts = [s for s in made["everturn_model_call_seconds"].samples if s.name.endswith("_count")]

    assert len(steps) == len(counts) == SERIES_MAX + 1
    assert [s.value for s in steps if s.labels["agent"] == OTHER] == [10]
    assert [s.value for s in counts if s.labels["model"] == OTHER] == [10]

    # That is what `le` means; one that is off by a bucket shifts every percentile.
    telemetry = Telemetry()
    spread = telemetry.instruments.commit_jobs
    for value in (1, 2, 2, 3, 1000):
        spread.add(value)
    samples = metric_of(spread.snapshot()()).samples
    buckets = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}

    assert (buckets["1.0"], buckets["2.0"], buckets["4.0"]) == (1, 3, 4)
    assert (buckets["128.0"], buckets["+Inf"]) == (4, 5)
    assert [s.value for s in samples if s.name.endswith("_sum")] == [1008]


async def test_a_disk_that_fails_and_what_the_log_warns_of_are_counted() -> None:
    """An alarm needs no reading of logs to know that something is wrong."""
    # The first thing to look at when messages are refused.
    disk = MemoryDisk()
    async with (
        open_memory_store(disk) as store,
        measured(ScriptedProvider(), store=store) as test,
    ):
        await test.ask()
        disk.fail_append(errno.ENOSPC)
        with pytest.raises(JournalWriteError):
            await test.service.submit(IncomingMessage(text="lost", key=test.key()))
        seen = await test.scrape()

    assert seen.series("everturn_journal_errors_total") == {"append": 1}

    # An alarm needs no reading of logs to know that something is wrong.
    root = logging.getLogger()
    before = root.handlers[:]
    async with open_telemetry(environ={}, secrets=SecretRegistry(), version="1") as telemetry:
        logger = logging.getLogger("everturn.x")
        logger.info("nothing")
        logger.warning("something")
        logger.error("worse")
        logger.error("again")
        seen = await scrape(telemetry)

    assert seen.series("everturn_log_records_total") == {"warning": 1, "error": 2}
    assert root.handlers == before


@table(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3", True),
        ("Application/OpenMetrics-Text; version=nonsense", True),
        ("text/plain, application/openmetrics-text;q=0", False),
        (";;,,;=", False),
    ],
)
def test_the_format_is_the_one_that_is_asked_for(accept: str, wanted: bool) -> None:
    """What a scraper sends is not ours to choose, and no header may break the route."""
    assert wants_openmetrics(accept) is wanted


async def test_a_look_at_the_load_sees_what_waits() -> None:
    """Queues that grow are the sign of too little of something."""
    model = ScriptedProvider()
    model.hold()
    async with measured(model) as test, anyio.create_task_group() as tasks:
        tasks.start_soon(test.ask)
        await model.until_called()
        for text in ("one", "two"):
            await test.service.submit(IncomingMessage(text=text, key=test.key()))
        load = await test.service.activity.load()
        model.release()

    assert (load.active, load.running, load.waiting, load.commands) == (1, 1, 2, 0)
