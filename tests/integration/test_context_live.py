"""What the model sees in live sessions: what is hidden, when, and what people are told of it."""

from __future__ import annotations

import re

import anyio
import pytest
from msgspec.structs import replace
from support.context_policies import POLICIES
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.errors import (
    ContextOverflowError,
    ModelTransientError,
    SessionEndedError,
    ToolsRefusedError,
)
from everturn_actors.events import (
    OVERFLOW_LINE,
    CallFinished,
    ContextReduced,
    ModelReplied,
    Summarised,
)
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    IncomingMessage,
    ModelRequest,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
)
from everturn_actors.ports import ToolCapabilities, ToolContext
from everturn_actors.service import TurnResult
from everturn_actors.session.registry import Registry
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, SessionSpec
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    open_test_service,
    texts,
)
from everturn_actors.turn.compaction import USELESS_TURNS
from everturn_actors.turn.model_statistics import InMemoryModelStatistics


def spec(window: int = 16_000, **context: object) -> AgentSpec:
    """Return an agent with a small window."""
    return AgentSpec(
        name="test",
        model=ModelSpec(
            provider="scripted", name="m", context_window=window, max_output_tokens=1_000
        ),
        session=SessionSpec(context=ContextSpec(policy=POLICIES["everturn"].with_numbers(context))),
    )


async def say(test: TestService, text: str) -> TurnResult:
    """Submit a message and wait for its answer."""
    return await (await test.service.submit(IncomingMessage(text=text, key=test.key()))).result()


async def talk(test: TestService, turns: int, more: str = "") -> TurnResult:
    """Carry so many turns; return the last one."""
    done = await say(test, f"question 0 {more}")
    for number in range(1, turns):
        done = await say(test, f"question {number} {more}")
    return done


async def bodies(test: TestService, session_id: str, kind: type) -> list[object]:
    """Return the bodies of one type in a session's log, oldest first."""
    events = await test.service.history(session_id, after=0, limit=10_000)
    return [event.body for event in events if isinstance(event.body, kind)]


async def summaries(test: TestService, session_id: str, count: int = 1) -> list[Summarised]:
    """Return a session's summaries once there are so many."""
    found: list[Summarised] = []
    async for update in test.service.watch(session_id, after=0):
        if isinstance(getattr(update, "body", None), Summarised):
            found.append(update.body)  # type: ignore[union-attr, arg-type]
            if len(found) == count:
                break
    return found


class Pages:
    """A tool whose results are as large as they are asked for."""

    definition = ToolDefinition(name="page", description="A page.", parameters={"type": "object"})
    capabilities = ToolCapabilities(repeatable=True)

    def __init__(self, text: str) -> None:
        self.text = text

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        return self.text


# --- large results ---


async def test_a_large_result_is_kept_whole_in_a_file_and_shown_by_its_ends() -> None:
    """One result must not fill the window, and nothing of it may be lost."""
    page = "".join(f"line {number}\n" for number in range(20_000))
    provider = ScriptedProvider(calling(("c1", "page")), "read")
    tools = {"page": Pages(page)}
    async with open_test_service(provider=provider, tools=tools, spec=spec(64_000)) as test:
        done = await say(test, "read the page")
        (finished,) = await bodies(test, done.session_id, CallFinished)
        assert isinstance(finished, CallFinished)
        whole = await test.store.read_result(done.session_id, finished.path)

        assert whole == page
        assert len(finished.text) < len(page) / 3
        assert finished.text.startswith("line 0\n")
        assert "line 19999" in finished.text
        assert provider.requests[1].messages[-1].text == finished.text


async def test_what_a_seed_policy_moves_to_a_file_is_kept_there() -> None:
    """Jutul tells the model of a file for a giant message: there has to be one."""
    agent = replace(
        spec(400_000), session=SessionSpec(context=ContextSpec(policy=POLICIES["jutul"]))
    )
    text = "word\n" * 60_000
    async with open_test_service(spec=agent) as test:
        done = await say(test, text)
        shown = texts(test.provider.requests[0])[-1]
        (name,) = re.findall(r"large_tool_results/(\w+)", shown)

        assert len(shown) < 1_000
        assert await test.store.read_result(done.session_id, name) == text


async def test_a_small_window_leaves_room_where_the_agent_asks_for_no_reserve() -> None:
    """4,096 tokens are what many servers give: all of them for the reply would leave none."""
    agent = replace(spec(), model=ModelSpec(provider="scripted", name="m", context_window=4_096))
    async with open_test_service(spec=agent) as test:
        done = await talk(test, 3)
        report = await test.service.reader.context(done.session_id)

        assert done.outcome == "answered"
        assert {r.name: r.tokens for r in report.regions}["reserve"] == 1_024


async def test_the_same_call_again_and_again_ends_the_turn() -> None:
    """A model that goes in circles costs money for ever."""
    provider = ScriptedProvider(*[calling((f"c{n}", "page")) for n in range(20)], "done")
    tools = {"page": Pages("the same")}
    async with open_test_service(provider=provider, tools=tools, spec=spec(64_000)) as test:
        done = await say(test, "go")

        assert done.outcome == "failed"
        assert "the same call 5 times in a row" in done.error
        assert len(provider.requests) == 5


# --- overflow ---


async def test_a_refused_request_is_halved_once_and_people_are_told() -> None:
    """The provider's window may be smaller than ours: the conversation must survive that."""
    provider = ScriptedProvider(*["fine"] * 6, ContextOverflowError("too long"), "answered")
    async with open_test_service(provider=provider, spec=spec()) as test:
        done = await talk(test, 6)
        last = await say(test, "and now?")
        (hidden,) = await bodies(test, done.session_id, ContextReduced)
        assert isinstance(hidden, ContextReduced)

        assert last.text == "answered"
        assert hidden.line == OVERFLOW_LINE
        assert len(provider.requests[7].messages) < len(provider.requests[6].messages)
        assert texts(provider.requests[7])[-1] == "and now?"
        assert "dropped 8 oldest messages due to context limit" in provider.requests[7].system


async def test_a_request_that_cannot_become_shorter_ends_with_an_error_that_names_the_parts() -> (
    None
):
    """A loop of compressing and trying again would never end."""
    provider = ScriptedProvider("fine", *[ContextOverflowError("too long")] * 2, "back again")
    async with open_test_service(provider=provider, spec=spec()) as test:
        await say(test, "one")
        failed = await say(test, "two")
        after = await say(test, "three")

        assert failed.outcome == "failed"
        assert "nothing more can be left out" in failed.error
        assert "system prompt" in failed.error
        assert (after.outcome, after.text) == ("answered", "back again")


@table("names_it", [True, False])
async def test_sixty_calls_side_by_side_fit_a_window_of_4096(names_it: bool) -> None:
    """One step, so none of it can leave: its results become shorter, down to what they were."""
    window = 4_096

    def counted(request: ModelRequest) -> Reply:
        texts = [request.system, *(message.text for message in request.messages)]
        calls = [call for m in request.messages if isinstance(m, Reply) for call in m.calls]
        tokens = sum(map(len, texts)) // 3 + 20 * len(calls)
        if tokens > window:
            raise ContextOverflowError(window_tokens=window if names_it else None)
        return Reply(text="read", usage=Usage(input_tokens=tokens, output_tokens=2))

    ids = [(f"c{number}", "page") for number in range(60)]
    provider = ScriptedProvider(calling(*ids), *[counted] * 20)
    tools = {"page": Pages("line of a page, with words\n" * 40)}
    async with open_test_service(provider=provider, tools=tools, spec=spec(window)) as test:
        done = await say(test, "read all of them")
        results = [m for m in provider.requests[-1].messages if isinstance(m, ToolResult)]

    assert (done.outcome, done.text, len(results)) == ("answered", "read", 60)
    assert all("~" in result.text and "tokens" in result.text for result in results)
    assert len(provider.requests) < 8


async def test_a_prompt_that_only_an_estimate_finds_too_large_is_sent() -> None:
    """Refused by an estimate nothing is ever learnt: the provider takes it, and says its size."""
    agent = spec(8_192)
    agent = replace(agent, model=replace(agent.model, max_output_tokens=None))
    # Capitals of words that are few tokens each: about half of what is estimated.
    agent = replace(agent, prompt=replace(agent.prompt, system_prompt="RULE THAT HOLDS " * 500))

    def counted(request: ModelRequest) -> Reply:
        size = len(request.system) // 2 + sum(len(m.text) // 4 + 4 for m in request.messages)
        return Reply(text="fine", usage=Usage(input_tokens=size, output_tokens=5))

    provider = ScriptedProvider(*[counted] * 3)
    async with open_test_service(provider=provider, spec=agent) as test:
        first = await say(test, "what holds?")
        await say(test, "and what else?\n" * 60 + "?")
        report = await test.service.reader.context(first.session_id)

    assert first.outcome == "answered"
    assert texts(provider.requests[1]) == ["what holds?", "and what else?\n" * 60 + "?"]
    assert report.used_tokens < 8_192


async def test_a_window_named_by_the_provider_is_kept_from_then_on() -> None:
    """The same refusal must not be asked for twice."""
    refusal = ContextOverflowError("maximum context length is 4096", window_tokens=4_096)
    provider = ScriptedProvider(*["word " * 300] * 12, refusal, "answered")
    model_statistics = InMemoryModelStatistics()
    async with open_test_service(
        provider=provider, spec=spec(), model_statistics=model_statistics
    ) as test:
        for number in range(12):
            await say(test, f"question {number}")
        done = await say(test, "and now?")
        statistics = model_statistics.of(spec().model)

        assert done.text == "answered"
        assert statistics.limit_tokens == 4_096
        state = await test.service.view(done.session_id)
        assert state.fingerprint.units * statistics.scale / 100 < 4_096


async def test_a_question_larger_than_the_window_is_answered_by_its_head() -> None:
    """A giant paste must neither stick in the session for ever nor be dropped unseen."""
    async with open_test_service(spec=spec(2_000)) as test:
        done = await say(test, "漢字" * 150_000)
        after = await say(test, "short")

        assert done.outcome == after.outcome == "answered"
        assert texts(test.provider.requests[0])[-1].startswith("漢字漢字")
        assert "shown" in texts(test.provider.requests[0])[-1]


async def test_a_giant_paste_stands_whole_in_a_file_and_the_history_before_it_stays() -> None:
    """Six times the window: what was said before is still there, and so are both of its ends."""
    paste = "\n".join(f"entry {number} of a long log" for number in range(16_000))
    async with open_test_service(spec=spec(16_000)) as test:
        await talk(test, 6)
        done = await say(test, paste)
        request = test.provider.requests[-1]
        whole = await test.store.read_result(
            done.session_id, f"message-{request.messages[-1].seq}.txt"
        )

    assert len(request.messages) == 13  # all of them
    assert whole == paste
    assert request.messages[-1].text.startswith("entry 0 of")
    assert request.messages[-1].text.endswith("entry 15999 of a long log")


# --- what is learnt ---


async def test_reported_usage_scales_the_estimate() -> None:
    """A tokenizer nobody knows is learnt from what the provider reports."""

    def reporting(request: ModelRequest) -> Reply:
        size = sum(len(message.text) for message in request.messages)
        return Reply(text="word " * 200, usage=Usage(input_tokens=100 + size // 2))

    model_statistics = InMemoryModelStatistics()
    provider = ScriptedProvider(*[reporting] * 6)
    async with open_test_service(
        provider=provider, spec=spec(64_000), model_statistics=model_statistics
    ) as test:
        done = await talk(test, 6, "word " * 200)
        statistics = model_statistics.of(spec().model)
        report = await test.service.reader.context(done.session_id)

        assert statistics.reports >= 5
        assert statistics.scale > 1.5  # two characters a token
        assert report.scale == pytest.approx(statistics.scale, abs=0.001)


async def test_a_model_that_takes_no_tools_is_asked_without_them_from_then_on() -> None:
    """A small local model can still chat, and is told of no tool that it does not have."""
    provider = ScriptedProvider(ToolsRefusedError("m does not support tools"), "hello", "again")
    model_statistics, tools = InMemoryModelStatistics(), {"page": Pages("text")}
    async with open_test_service(
        provider=provider, tools=tools, spec=spec(), model_statistics=model_statistics
    ) as test:
        first = await say(test, "one")
        second = await say(test, "two")

        assert (first.text, second.text) == ("hello", "again")
        assert [len(request.tools) for request in provider.requests] == [1, 0, 0]
        assert not model_statistics.of(spec().model).calls_tools


# --- summaries ---


def full(count: int) -> list[str]:
    """Return replies that fill a window of 16,000 tokens soon."""
    return ["word " * 1_500] * count


async def test_older_turns_are_summarised_after_a_turn_and_the_answer_does_not_wait() -> None:
    """What leaves should leave with a summary, and nobody should wait for one."""
    writer = ScriptedProvider("## Intent\nTo test.")
    writer.hold()
    async with open_test_service(
        provider=ScriptedProvider(*full(20)), summariser=writer, spec=spec()
    ) as test:
        done = await say(test, "go on")
        while not writer.requests:
            done = await say(test, "go on")
        meanwhile = await say(test, "said meanwhile")
        writer.release()
        (summary,) = await summaries(test, done.session_id)
        after = await say(test, "and now?")
        request = test.provider.requests[-1]

        assert meanwhile.outcome == after.outcome == "answered"
        assert summary.source == "model"
        assert "## Intent\nTo test." in request.system
        assert "said meanwhile" in texts(request)
        state = await test.service.view(done.session_id)
        shown = sum(1 for message in request.messages if message.seq)
        assert f"{state.logged_messages - 1 - shown} earlier messages" in request.system


async def test_a_failed_summary_leaves_a_digest_and_a_pause_that_a_restart_keeps() -> None:
    """A model that is down must not be asked after every turn, nor lose the conversation."""
    disk, clock = MemoryDisk(), ManualClock()
    failing = ScriptedProvider(*[ModelTransientError("down")] * 3)
    agent = spec()
    async with open_test_service(
        provider=ScriptedProvider(*full(20)), summariser=failing, spec=agent, disk=disk, clock=clock
    ) as test:
        done = await say(test, "go on")
        while not failing.requests:
            done = await say(test, "go on")
        for _ in range(2):
            await clock.until_sleeping(1)
            clock.advance(1)
        (summary,) = await summaries(test, done.session_id)

        assert (summary.source, summary.tries) == ("digest", 3)
        assert "down" in summary.error
    again = ScriptedProvider("a real summary")
    async with open_test_service(
        provider=ScriptedProvider(*full(40)), summariser=again, spec=agent, disk=disk, clock=clock
    ) as test:
        for _ in range(12):
            await say(test, "go on")
        asked_early = len(again.requests)
        clock.advance(61)
        while not again.requests:
            await say(test, "go on")
        second = (await summaries(test, done.session_id, 2))[1]

        assert asked_early == 0
        assert second.source == "model"
        assert summary.text[:40] in again.requests[0].messages[0].text  # the chain goes on
        state = await test.service.view(done.session_id)
        assert (state.reductions.failures, state.reductions.retry_at) == (0, None)


async def test_what_the_session_no_longer_holds_asks_for_no_summary() -> None:
    """Nothing can tell of it any more: a summary after every turn would be for nothing."""
    disk, agent = MemoryDisk(), spec(16_000)
    async with open_test_service(disk=disk, spec=agent) as test:
        await talk(test, 130, "word " * 20)
    writer = ScriptedProvider()
    async with open_test_service(disk=disk, spec=agent, summariser=writer) as test:
        await talk(test, 15)

        assert len(writer.requests) <= 1


async def test_a_summary_that_lands_while_the_model_answers_is_no_drift() -> None:
    """Something was reduced: a count that says otherwise tells nothing."""
    writer = ScriptedProvider("the summary")
    writer.hold()
    async with open_test_service(summariser=writer, spec=spec()) as test:
        done = await talk(test, 10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(test.service.compact, done.session_id)
            await writer.until_called()
            test.provider.hold()
            waiting = await test.service.submit(IncomingMessage(text="slow", key=test.key()))
            await test.provider.until_called(11)
            writer.release()
            await summaries(test, done.session_id)
            test.provider.release()
            await waiting.result()
        await talk(test, 2)
        report = await test.service.reader.context(done.session_id)

        assert report.cache_misses == 0
        assert report.summary is not None


async def test_compact_summarises_on_demand_with_a_focus() -> None:
    """Who knows that a topic is over need not wait for the window to fill.

    Of a short conversation a summary would only lose: there is nothing to do.
    """
    writer = ScriptedProvider("the summary")
    async with open_test_service(summariser=writer, spec=spec()) as test:
        done = await say(test, "hello")
        needless = await test.service.compact(done.session_id)
        assert not needless.done
        assert needless.text.startswith("Nothing to compact yet")
        assert writer.requests == []

        await talk(test, 9, "word " * 100)
        compacted = await test.service.compact(done.session_id, focus="the red door")

        assert compacted.done
        assert compacted.messages == 12
        assert compacted.tokens_after < compacted.tokens_before
        assert "the red door" in writer.requests[0].messages[0].text
        await say(test, "and now?")
        assert "the summary" in test.provider.requests[-1].system


@table("is_written", [False, True], ids=["digest", "model"])
async def test_compact_that_makes_nothing_smaller_says_so_and_changes_nothing(
    *, is_written: bool
) -> None:
    """Ten short turns were replaced by a summary longer than they are."""
    writer = ScriptedProvider("a summary in very many words " * 100) if is_written else None
    agent = spec()
    agent = replace(agent, session=replace(agent.session, compaction="discard"))
    async with open_test_service(summariser=writer, spec=agent) as test:
        done = await talk(test, 10)
        before = await test.service.view(done.session_id)
        compacted = await test.service.compact(done.session_id)
        after = await test.service.view(done.session_id)
        kept = await test.store.read_result(done.session_id, "summarised-6.md")

        assert not compacted.done
        assert compacted.text.startswith("Nothing was changed: the next prompt has about ")
        assert compacted.tokens_before == compacted.tokens_after
        assert after == before
        assert kept is None


async def test_the_policy_asks_no_more_for_a_summary_that_was_of_no_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would be written, and paid for, after each turn."""
    agent = spec(2_500)
    agent = replace(agent, model=replace(agent.model, max_output_tokens=500))
    writer = ScriptedProvider(*["a summary in very many words " * 800] * 20)
    with caplog.at_level("INFO"), anyio.fail_after(WAIT_S):
        async with open_test_service(summariser=writer, spec=agent) as test:

            async def say_and_wait() -> str:
                session_id = (await say(test, "word " * 40)).session_id
                registry = test.service._registry
                assert isinstance(registry, Registry)
                actor = registry._active[session_id].actor
                await anyio.wait_all_tasks_blocked()
                while actor._compactor.busy:
                    await anyio.to_thread.run_sync(lambda: None)
                return session_id

            session_id = await say_and_wait()
            while "a summary would not make the context smaller" not in caplog.messages:
                await say_and_wait()
            for _ in range(USELESS_TURNS - 2):
                await say_and_wait()

            assert len(writer.requests) == 1
            assert await bodies(test, session_id, Summarised) == []


async def test_compact_without_a_model_for_it_makes_a_digest() -> None:
    """Everything works without a summariser."""
    async with open_test_service() as test:
        done = await talk(test, 10, "word " * 100)
        compacted = await test.service.compact(done.session_id)
        await say(test, "and now?")

        assert (compacted.done, compacted.source) == (True, "digest")
        assert "question 0" in test.provider.requests[-1].system
        assert not any("question 0" in text for text in texts(test.provider.requests[-1]))


async def test_a_second_wish_waits_for_the_summary_that_is_being_made() -> None:
    """One at a time: two summaries of the same turns would cost twice."""
    writer = ScriptedProvider("the summary")
    writer.hold()
    async with open_test_service(summariser=writer, spec=spec()) as test:
        done = await talk(test, 10)
        made: list[bool] = []

        async def compact() -> None:
            made.append((await test.service.compact(done.session_id)).done)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(compact)
            tasks.start_soon(compact)
            await writer.until_called()
            writer.release()

        assert made == [True, True]
        assert len(writer.requests) == 1


async def test_a_session_that_ends_during_a_summary_ends_without_it() -> None:
    """A summary of what was reset is of no use, and must not stop the reset."""
    writer = ScriptedProvider("too late")
    writer.hold()
    async with open_test_service(summariser=writer, spec=spec()) as test:
        done = await talk(test, 10)
        outcome: list[object] = []

        async def compact() -> None:
            try:
                outcome.append(await test.service.compact(done.session_id))
            except SessionEndedError as error:
                outcome.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(compact)
            await writer.until_called()
            await test.service.reset(done.session_id)
            writer.release()

        assert outcome
        assert await bodies(test, done.session_id, Summarised) == []
        with pytest.raises(SessionEndedError):
            await test.service.compact(done.session_id)


async def test_what_was_summarised_stays_readable_where_the_log_is_discarded() -> None:
    """`compaction: discard` drops the log; the summary must not be all that is left."""
    agent = spec()
    agent = replace(agent, session=replace(agent.session, compaction="discard"))
    async with open_test_service(summariser=ScriptedProvider("short"), spec=agent) as test:
        done = await talk(test, 10)
        await test.service.compact(done.session_id)
        (body,) = await summaries(test, done.session_id)
        text = await test.store.read_result(done.session_id, body.path)

        assert text is not None
        assert "question 0" in text
        assert "reply 1" in text


# --- the prefix ---


async def test_between_cuts_every_request_begins_with_the_one_before_across_a_restart() -> None:
    """What a provider has cached stays good, and the log proves it."""
    disk = MemoryDisk()
    replies: list[object] = []
    for _ in range(3):
        async with open_test_service(disk=disk, spec=spec()) as test:
            done = await talk(test, 5)
            replies = await bodies(test, done.session_id, ModelReplied)

    assert len(replies) == 15
    assert not any(
        body.fingerprint.is_cache_miss for body in replies if isinstance(body, ModelReplied)
    )
    counts = [body.fingerprint.messages for body in replies if isinstance(body, ModelReplied)]
    assert counts == list(range(1, 30, 2))


async def test_an_edited_prompt_is_counted_as_drift() -> None:
    """Whoever pays for a cache should see what spoils it."""
    async with open_test_service(spec=spec()) as test:
        await say(test, "one")
        done = await say(test, "two")
        agent = test.agents.agents["test"]
        edited = replace(
            agent.spec, prompt=replace(agent.spec.prompt, system_prompt="Something else.")
        )
        test.agents.agents["test"] = replace(agent, spec=edited)
        await say(test, "three")
        report = await test.service.reader.context(done.session_id)

        assert report.cache_misses == 1


async def test_what_is_known_of_a_model_is_shown() -> None:
    """A guess should look like one."""
    model_statistics = InMemoryModelStatistics()
    model_statistics.record(spec().model, ModelStatistics(scale=1.5, reports=7))
    async with open_test_service(spec=spec(), model_statistics=model_statistics) as test:
        done = await say(test, "hello")
        report = await test.service.reader.context(done.session_id)

        assert (report.scale, report.reports) == (1.5, 7)
        assert report.policy == "everturn"
        assert sum(region.tokens for region in report.regions) == report.window_tokens
