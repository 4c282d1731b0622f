"""The one entry point: what a caller of `TurnService` can rely on."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import anyio
import pytest
from msgspec import structs
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.errors import (
    InvalidInputError,
    ModelAuthError,
    ModelTransientError,
    RateLimitedError,
    SessionEndedError,
    TruncatedStreamError,
    UnknownAgentError,
    UnknownSessionError,
)
from everturn_actors.events import (
    CallFinished,
    Event,
    ModelReplied,
    Received,
    SessionEnded,
    TurnFinished,
)
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    IncomingMessage,
    ModelRequest,
    Reply,
    Step,
    ToolCall,
    ToolDefinition,
    Turn,
    UserMessage,
)
from everturn_actors.ports import ToolCapabilities, ToolContext
from everturn_actors.service import History, ServiceSettings, TextDelta, TurnResult, Update
from everturn_actors.service import reader as service_module
from everturn_actors.spec import ModelSpec, SessionSpec
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
    texts,
)


async def say(test: TestService, text: str, *, chat: str = "chat", key: str = "") -> TurnResult:
    """Submit a message and wait for its answer."""
    inbound = IncomingMessage(text=text, key=test.key(chat), idempotency_key=key)
    return await (await test.service.submit(inbound)).result()


async def log(test: TestService, session_id: str) -> list[str]:
    """Return the types of a session's events, oldest first."""
    events = await test.service.history(session_id, after=0, limit=1000)
    return [type(event.body).__name__ for event in events]


async def collect(updates: AsyncGenerator[Update]) -> list[Update]:
    """Return all updates of a generator that ends."""
    return [update async for update in updates]


class Counter:
    """A tool that counts how often it ran."""

    definition = ToolDefinition(name="count", description="Count.", parameters={"type": "object"})

    def __init__(self, *, repeatable: bool = False, gate: anyio.Event | None = None) -> None:
        self.capabilities = ToolCapabilities(repeatable=repeatable)
        self.runs = 0
        self._gate = gate

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        self.runs += 1
        if self._gate is not None:
            await self._gate.wait()
        return f"{call.call_id}: {self.runs}"


# --- messages ---


async def test_a_message_is_answered_and_the_conversation_goes_on() -> None:
    """The main job: the model sees what was said before."""
    async with open_test_service() as test:
        first = await say(test, "one")
        second = await say(test, "two")

        assert (first.outcome, first.text, second.text) == ("answered", "reply 1", "reply 2")
        assert first.session_id == second.session_id
        assert texts(test.provider.requests[1]) == ["one", "two"]


async def test_submit_returns_when_the_message_is_durable_and_not_later() -> None:
    """An acknowledgement that waits for the model is late; one before the disk is a lie."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="hello", key=test.key()))
        events = await test.service.history(submission.session_id, after=0, limit=10)

        assert any(e.seq == submission.seq and isinstance(e.body, Received) for e in events)
        test.provider.release()
        assert (await submission.result()).text == "reply 1"


async def test_a_plain_turn_costs_two_appends() -> None:
    """Each append is a sync: this is what a turn costs on a slow disk."""
    async with open_test_service() as test:
        await say(test, "warm up")
        appends: list[int] = []
        append = test.store.append

        async def counting(session_id: str, events: list[Event], *, expected_seq: int) -> None:
            appends.append(len(events))
            await append(session_id, events, expected_seq=expected_seq)

        test.store.append = counting  # type: ignore[method-assign, assignment]
        await say(test, "measured")

        assert appends == [3, 2]


async def test_messages_during_a_turn_are_answered_together_in_the_next() -> None:
    """A burst is one turn, and nothing waits for another message to be answered (GW-03)."""
    async with open_test_service() as test:
        test.provider.hold()
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        second = await test.service.submit(IncomingMessage(text="two", key=test.key()))
        third = await test.service.submit(IncomingMessage(text="three", key=test.key()))
        test.provider.release()

        assert (await first.result()).turn == 1
        assert (await second.result()).turn == (await third.result()).turn == 2
        assert texts(test.provider.requests[1]) == ["one", "two", "three"]


async def test_conversations_do_not_wait_for_each_other() -> None:
    """One hanging model call must not stop the others (GW-04)."""
    async with open_test_service() as test:
        test.provider.hold()
        slow = await test.service.submit(IncomingMessage(text="slow", key=test.key("a")))
        await test.provider.until_called()
        test.provider._gate = None

        assert (await say(test, "quick", chat="b")).outcome == "answered"
        assert (await test.service.view(slow.session_id)).open_turn is not None


@table(
    ("text", "why"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("x" * (1024 * 1024 + 1), "1048577 bytes"),
        ("a\ud800", "character 1"),
    ],
)
async def test_what_is_no_message_is_refused_with_the_reason(text: str, why: str) -> None:
    """Bad input is the caller's to mend, and nothing of it may reach the log."""
    async with open_test_service() as test:
        with pytest.raises(InvalidInputError, match=why):
            await test.service.submit(IncomingMessage(text=text, key=test.key()))
        assert await test.service.reader.sessions() == ()


async def test_unknown_agents_and_sessions_are_refused() -> None:
    """A typo must not start a conversation."""
    async with open_test_service() as test:
        with pytest.raises(UnknownAgentError, match="there are: test"):
            await test.service.submit(
                IncomingMessage(text="hi", key=structs.replace(test.key(), agent="tset"))
            )
        for session_id in ("20260101T000000000-00000000", "../../etc/passwd"):
            with pytest.raises(UnknownSessionError):
                await test.service.submit(IncomingMessage(text="hi", session_id=session_id))
            with pytest.raises(UnknownSessionError):
                await test.service.view(session_id)


# --- idempotency ---


async def test_the_same_key_gives_the_first_outcome_also_after_a_restart() -> None:
    """A client that repeats a request whose answer was lost must not be answered anew."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        first = await say(test, "pay", key="k1")
        again = await say(test, "pay", key="k1")
    async with open_test_service(disk=disk) as test:
        later = await test.service.submit(
            IncomingMessage(text="pay", key=test.key(), idempotency_key="k1")
        )
        result = await later.result()

        assert first == again == result
        assert later.duplicate
        assert test.provider.requests == []


async def test_the_same_key_during_the_turn_joins_it() -> None:
    """Two connections that send the same message get one answer."""
    async with open_test_service() as test:
        test.provider.hold()
        one = await test.service.submit(
            IncomingMessage(text="x", key=test.key(), idempotency_key="k")
        )
        two = await test.service.submit(
            IncomingMessage(text="x", key=test.key(), idempotency_key="k")
        )
        test.provider.release()

        assert (one.seq, two.duplicate) == (two.seq, True)
        assert await one.result() == await two.result()
        assert len(test.provider.requests) == 1


# --- following ---


async def test_updates_carry_the_pieces_of_the_reply_between_its_events() -> None:
    """A reader puts the reply together from pieces, with nothing missing and nothing twice."""
    async with open_test_service(provider=ScriptedProvider("to be or not to be")) as test:
        submission = await test.service.submit(IncomingMessage(text="speak", key=test.key()))
        updates = await collect(submission.updates())

        deltas = [u for u in updates if isinstance(u, TextDelta)]
        assert "".join(d.text for d in deltas) == "to be or not to be"
        assert [d.offset for d in deltas] == sorted({d.offset for d in deltas})
        assert isinstance(updates[0], Event)
        assert isinstance(updates[0].body, Received)
        assert isinstance(updates[-1], Event)
        assert isinstance(updates[-1].body, TurnFinished)


async def test_a_follower_that_comes_back_gets_the_text_so_far() -> None:
    """A broken stream resumes after its last event, in the middle of a reply."""
    async with open_test_service(provider=ScriptedProvider("one two three")) as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="count", key=test.key()))
        await test.provider.until_called()
        seen: list[Update] = []
        async for update in test.service.watch(submission.session_id, after=submission.seq):
            seen.append(update)
            if isinstance(update, TextDelta):
                test.provider.release()
            if isinstance(update, Event) and isinstance(update.body, TurnFinished):
                break

        deltas = [u for u in seen if isinstance(u, TextDelta)]
        assert deltas[0].offset == 0
        assert "".join(d.text for d in deltas) == "one two three"
        seqs = [u.seq for u in seen if isinstance(u, Event)]
        assert seqs == list(range(submission.seq + 1, seqs[-1] + 1))


async def test_following_from_the_beginning_reads_what_memory_no_longer_holds() -> None:
    """Whoever asks for event 1 gets event 1, however long ago it was."""
    async with open_test_service() as test:
        result = await say(test, "message 0")
        for number in range(1, 60):
            await say(test, f"message {number}")
        seqs: list[int] = []
        async for update in test.service.watch(result.session_id, after=0):
            if isinstance(update, Event):
                seqs.append(update.seq)
            if len(seqs) == 301:
                break

        assert seqs == list(range(1, 302))


# --- the turn ---


async def test_a_transient_failure_is_tried_again_after_the_delay_that_was_asked_for() -> None:
    """A rate limit is the normal case of a busy bot, not an error to show."""
    clock = ManualClock()
    provider = ScriptedProvider(RateLimitedError(retry_after_s=7), "at last")
    async with open_test_service(provider=provider, clock=clock) as test:
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        await clock.until_sleeping(7 * 1.25)
        assert len(provider.requests) == 1
        clock.advance(7 * 1.25)

        assert (await submission.result()).text == "at last"


@table(
    ("errors", "calls", "why"),
    [
        ([ModelAuthError("the key was refused")], 1, "the key was refused"),
        ([RateLimitedError("come back tomorrow", retry_after_s=86_400)], 1, "tomorrow"),
        ([ModelTransientError("down"), ModelAuthError("refused")], 2, "refused"),
    ],
)
async def test_a_model_that_cannot_answer_ends_the_turn_with_its_reason(
    errors: list[Exception], calls: int, why: str
) -> None:
    """The person is told what happened, and the conversation can go on."""
    clock = ManualClock()
    provider = ScriptedProvider(*errors)
    async with open_test_service(provider=provider, clock=clock) as test:
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        for _ in range(calls - 1):
            await clock.until_sleeping(10)
            clock.advance(10)
        result = await submission.result()

        assert (result.outcome, len(provider.requests)) == ("failed", calls)
        assert why in result.error
        assert (await say(test, "still there?")).outcome == "answered"


async def test_a_fault_of_a_provider_costs_the_call_and_not_the_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What nobody foresaw ends one turn in words; let out, it ended the session at every start."""
    disk = MemoryDisk()
    provider = ScriptedProvider(KeyError("Bearer sk-secret"))
    async with open_test_service(provider=provider, disk=disk) as test:
        failed = await say(test, "hi")
        answered = await say(test, "again")
    async with open_test_service(disk=disk) as test:
        later = await say(test, "after a restart")

    assert (failed.outcome, answered.outcome, later.outcome) == ("failed", "answered", "answered")
    assert "KeyError" in failed.error
    assert "sk-secret" not in failed.error
    assert [(r.message, r.exc_info is not None) for r in caplog.records] == [
        ("a model call failed by a fault", True)
    ]


class Breaking(ScriptedProvider):
    """A model whose first reply breaks off after a few words."""

    def __init__(self, again: str | None = None, *, streams: bool = True) -> None:
        super().__init__(*([] if again is None else [again]))
        self._streams = streams

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        if self.requests:
            return await super().complete(request, on_text if self._streams else lambda _: None)
        self.requests.append(request)
        on_text("half a ")
        await anyio.wait_all_tasks_blocked()
        raise TruncatedStreamError


def shown(updates: Sequence[Update]) -> str:
    """Return what a reader of the pieces has in the end, who cuts at each offset."""
    text = ""
    for update in updates:
        if isinstance(update, TextDelta):
            text = text[: update.offset] + update.text
    return text


@table("reply", ["reply", "ha", "half a loaf", "half"])
@table("streams", [True, False])
async def test_a_broken_stream_is_tried_again_and_its_readers_take_it_back(
    reply: str, *, streams: bool
) -> None:
    """A reader changes nothing: what it was shown of the broken try goes, whatever comes then."""
    clock = ManualClock()
    provider = Breaking(again=reply, streams=streams)
    async with open_test_service(provider=provider, clock=clock) as test:
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        seen: list[Update] = []
        async for update in submission.updates():
            seen.append(update)
            if isinstance(update, TextDelta) and len(provider.requests) == 1:
                await clock.until_sleeping(1)
                clock.advance(1)

        assert len(provider.requests) == 2
        assert "half a " in [u.text for u in seen if isinstance(u, TextDelta)]
        assert shown(seen) == reply
        assert isinstance(seen[-1], Event)
        assert isinstance(seen[-1].body, TurnFinished)


async def test_a_broken_stream_is_not_taken_back_from_who_cannot_take_it_back() -> None:
    """What a client of another protocol has shown cannot be unsaid."""
    async with open_test_service(provider=Breaking()) as test:
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        updates = await collect(submission.updates(final=True))

        assert isinstance(updates[-1], Event)
        assert isinstance(updates[-1].body, TurnFinished)
        assert updates[-1].body.outcome == "failed"
        assert "broke off" in updates[-1].body.error
        assert updates[-1].body.partial == "half a ", "what was read stands in the log"


async def test_a_broken_stream_that_nobody_read_is_tried_again() -> None:
    """Whoever waits for the whole answer need not know that the first try failed."""
    clock = ManualClock()
    async with open_test_service(provider=Breaking(), clock=clock) as test:
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        async with anyio.create_task_group() as tasks:

            async def move_on() -> None:
                await clock.until_sleeping(1)
                clock.advance(1)

            tasks.start_soon(move_on)
            result = await submission.result()

        assert result.text == "reply 2"


async def test_an_old_message_whose_answer_was_discarded_is_told_so() -> None:
    """A repeat must neither hang nor be answered anew."""
    spec = structs.replace(
        make_spec(),
        model=ModelSpec(provider="scripted", name="x", max_input_tokens=5000),
        session=SessionSpec(compaction="discard"),
    )
    disk = MemoryDisk()
    async with open_test_service(disk=disk, spec=spec) as test:
        for number in range(80):
            await say(test, f"message {number}", key=f"k{number}")
    async with open_test_service(disk=disk, spec=spec) as test:
        recent = await say(test, "message 70", key="k70")
        old = await test.service.submit(
            IncomingMessage(text="message 0", key=test.key(), idempotency_key="k0")
        )

        assert recent.text == "reply 71"
        assert old.duplicate
        assert await collect(old.updates()) == []
        with pytest.raises(InvalidInputError, match="no longer stored"):
            await old.result()


async def test_deadlines_end_a_call_that_hangs() -> None:
    """A model that never answers must not hold a conversation for ever."""
    spec = structs.replace(
        make_spec(), session=SessionSpec(call_timeout_s=0.01, model_retry_for_s=0)
    )
    async with open_test_service(spec=spec) as test:
        test.provider.hold()
        result = await say(test, "hi")

        assert result.outcome == "failed"
        assert "no reply within 0.01 s" in result.error


async def test_deadline_of_the_turn_counts_all_its_tries() -> None:
    """Retries must not stretch a turn beyond what its owner allowed."""
    spec = structs.replace(make_spec(), session=SessionSpec(turn_timeout_s=0.01))
    async with open_test_service(
        provider=ScriptedProvider(ModelTransientError("down")), spec=spec
    ) as test:
        result = await say(test, "hi")

        assert result.outcome == "failed"
        assert "longer than its 0.01 s" in result.error


async def test_cancel_closes_the_turn_and_the_next_message_is_answered() -> None:
    """/stop leaves a history that the model can go on from."""
    async with open_test_service() as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="long", key=test.key()))
        await test.provider.until_called()
        stopped = await test.service.cancel(submission.session_id)
        result = await submission.result()
        test.provider.release()

        assert stopped
        assert result.outcome == "cancelled"
        assert not await test.service.cancel(submission.session_id)
        assert (await say(test, "short")).text == "reply 2"


async def test_cancel_in_a_tool_call_gives_the_call_its_result() -> None:
    """No call may stand without a result, or the provider refuses the conversation for good."""
    gate = anyio.Event()
    tool = Counter(gate=gate)
    provider = ScriptedProvider(calling(("c1", "count"), ("c2", "count")))
    async with open_test_service(provider=provider, tools={"count": tool}) as test:
        submission = await test.service.submit(IncomingMessage(text="count", key=test.key()))
        await until(lambda: tool.runs == 1)
        await test.service.cancel(submission.session_id)
        await say(test, "and now?")

        results = [m for m in provider.requests[1].messages if hasattr(m, "call_id")]
        assert len(results) == 2


async def test_tools_run_one_after_the_other_and_their_results_reach_the_model() -> None:
    """The loop goes on until the model has answered."""
    tool = Counter()
    provider = ScriptedProvider(calling(("c1", "count"), ("c2", "nope")), "done")
    async with open_test_service(provider=provider, tools={"count": tool}) as test:
        result = await say(test, "count")
        events = await test.service.history(result.session_id, after=0, limit=50)

        assert result.text == "done"
        finished = [e.body for e in events if isinstance(e.body, CallFinished)]
        assert [(f.call_id, f.is_error) for f in finished] == [("c1", False), ("c2", True)]
        assert "there is no tool 'nope'; there are: count" in finished[1].text


async def test_a_model_that_asks_for_tools_for_ever_is_stopped() -> None:
    """An endless loop costs money; the limit ends it with a clear reason."""
    spec = structs.replace(make_spec(), session=SessionSpec(max_tool_iterations=2))
    script = [calling((f"c{n}", "count")) for n in range(9)]
    tool = Counter()
    async with open_test_service(
        provider=ScriptedProvider(*script), spec=spec, tools={"count": tool}
    ) as test:
        result = await say(test, "go")

        assert (result.outcome, len(test.provider.requests)) == ("failed", 3)
        assert "the limit is 2" in result.error


# --- restarts ---


async def test_an_open_turn_goes_on_by_itself_at_the_next_start() -> None:
    """Nobody has to write again for an answer that was promised."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        test.provider.hold()
        submission = await test.service.submit(
            IncomingMessage(text="hi", key=test.key(), idempotency_key="k")
        )
        await test.provider.until_called()
    async with open_test_service(disk=disk) as test:
        await test.provider.until_called()
        again = await test.service.submit(
            IncomingMessage(text="hi", key=test.key(), idempotency_key="k")
        )

        assert (await again.result()).text == "reply 1"
        assert (await log(test, submission.session_id)).count("TurnStarted") == 1


@table(("repeatable", "runs"), [(False, 0), (True, 1)])
async def test_a_call_cut_short_is_closed_or_run_again_as_its_tool_says(
    *, repeatable: bool, runs: int
) -> None:
    """No tool with side effects runs twice."""
    disk = MemoryDisk()
    tool = Counter(gate=anyio.Event(), repeatable=repeatable)
    provider = ScriptedProvider(calling(("c1", "count")))
    async with open_test_service(disk=disk, provider=provider, tools={"count": tool}) as test:
        submission = await test.service.submit(IncomingMessage(text="count", key=test.key()))
        await until(lambda: tool.runs == 1)
    after = Counter(repeatable=repeatable)
    async with open_test_service(disk=disk, tools={"count": after}) as test:
        events = await finished(test, submission.session_id)

        assert after.runs == runs
        results = [e.body.text for e in events if isinstance(e.body, CallFinished)]
        expected = "c1: 1" if repeatable else "interrupted by a restart, outcome unknown"
        assert results == [expected]
        assert isinstance(events[-1].body, TurnFinished)


async def test_waiting_messages_survive_a_stop_and_are_answered_after_it() -> None:
    """Shutdown with one running and two waiting loses none of the three (GW-11)."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        for text in ("two", "three"):
            await test.service.submit(IncomingMessage(text=text, key=test.key()))
    async with open_test_service(disk=disk) as test:
        await finished(test, submission.session_id, turns=2)

        assert texts(test.provider.requests[-1]) == ["one", "two", "three"]


async def test_a_stop_lets_a_running_turn_finish() -> None:
    """A deployment should not cut off an answer that is nearly there."""
    disk = MemoryDisk()
    settings = ServiceSettings(drain_s=30)
    results: list[TurnResult] = []
    async with (
        anyio.create_task_group() as tasks,
        open_test_service(disk=disk, settings=settings) as test,
    ):
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        await test.provider.until_called()

        async def read() -> None:
            results.append(await submission.result())

        async def release() -> None:
            await anyio.wait_all_tasks_blocked()
            test.provider.release()

        tasks.start_soon(read)
        tasks.start_soon(release)

    assert [r.text for r in results] == ["reply 1"]


async def test_an_idle_session_rests_and_wakes_with_everything() -> None:
    """Ten thousand quiet conversations must cost nothing, and forget nothing."""
    settings = ServiceSettings(passivate_after_s=0.001, leave_grace_s=0, drain_s=0)
    async with open_test_service(settings=settings) as test:
        first = await say(test, "remember me")
        await until_passive(test)
        assert await test.store.active() == ()
        second = await say(test, "still there?")

        assert second.session_id == first.session_id
        assert texts(test.provider.requests[1]) == ["remember me", "still there?"]


# --- clients that leave ---


async def test_pause_stops_the_turn_until_somebody_lets_it_go_on() -> None:
    """An answer that nobody waits for costs nothing, and is not lost either."""
    async with open_test_service() as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        await test.provider.until_called()
        await submission.leave()
        await test.clock.until_sleeping(0)  # type: ignore[attr-defined]
        test.clock.advance(0)  # type: ignore[attr-defined]
        await until_status(test, submission.session_id, "paused")
        test.provider.release()
        events: list[Event] = []
        assert await test.service.resume(submission.session_id)
        assert not await test.service.resume(submission.session_id)
        async for update in test.service.watch(submission.session_id, after=submission.seq):
            if isinstance(update, Event):
                events.append(update)
                if isinstance(update.body, TurnFinished):
                    break

        assert any(isinstance(e.body, ModelReplied) for e in events)
        assert len(test.provider.requests) == 2


async def test_who_only_looks_on_neither_keeps_a_turn_going_nor_lets_it_go_on() -> None:
    """A dashboard that is left open must not spend tokens, whenever it is opened."""
    async with open_test_service() as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        await test.provider.until_called()
        seen: list[Update] = []
        opened = anyio.Event()

        async def look_on() -> None:
            async for update in test.service.watch(submission.session_id, after=0):
                seen.append(update)
                opened.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look_on)
            await opened.wait()
            await submission.leave()
            await test.clock.until_sleeping(0)  # type: ignore[attr-defined]
            test.clock.advance(0)  # type: ignore[attr-defined]
            await until_status(test, submission.session_id, "paused")
            tasks.start_soon(look_on)
            await anyio.wait_all_tasks_blocked()

            assert (await test.service.view(submission.session_id)).status == "paused"
            assert len(test.provider.requests) == 1
            tasks.cancel_scope.cancel()


async def test_looking_at_a_session_that_rests_wakes_nobody() -> None:
    """Reading is free: no actor, no mark, no sync; and who goes on looking sees what comes."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        session_id = (await say(test, "hi")).session_id
    before = (dict(disk.active), disk.appends)
    async with open_test_service(disk=disk) as test:
        assert (await test.service.view(session_id)).turns == 1
        assert (await test.service.reader.context(session_id)).window_tokens > 0
        async with aclosing(test.service.watch(session_id, after=0)) as updates:
            seen = [await anext(updates) for _ in range(6)]
            assert (await test.service.activity.load()).active == 0
            assert (dict(disk.active), disk.appends) == before
            await say(test, "again")
            seen += [await anext(updates) for _ in range(5)]

    assert [u.seq for u in seen if isinstance(u, Event)] == list(range(1, 12))


async def test_continue_finishes_the_turn_without_its_client() -> None:
    """An agent set to go on does its work whoever watches."""
    spec = structs.replace(make_spec(), session=SessionSpec(on_disconnect="continue"))
    async with open_test_service(spec=spec) as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        await test.provider.until_called()
        await submission.leave()
        test.provider.release()
        events = await finished(test, submission.session_id)

        assert isinstance(events[-1].body, TurnFinished)
        assert len(test.provider.requests) == 1


async def test_a_stop_in_the_last_moment_of_a_turn_is_not_held_against_the_next() -> None:
    """A cancel that came too late must not keep the next turn from being paused."""
    async with open_test_service() as test:
        test.provider.hold()
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await test.provider.until_called()
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            test.provider.release()
            tasks.start_soon(test.service.cancel, first.session_id)
        test.provider.hold()
        second = await test.service.submit(IncomingMessage(text="two", key=test.key()))
        await test.provider.until_called(2)
        await second.leave()
        await test.clock.until_sleeping(0)  # type: ignore[attr-defined]
        test.clock.advance(0)  # type: ignore[attr-defined]

        await until_status(test, second.session_id, "paused")


# --- the life of a session ---


async def test_reset_ends_the_session_and_the_next_message_begins_another() -> None:
    """/reset is a fresh start that keeps the old log."""
    async with open_test_service() as test:
        first = await say(test, "old")
        await test.service.reset(first.session_id)
        second = await say(test, "new")

        assert second.session_id != first.session_id
        assert texts(test.provider.requests[1]) == ["new"]
        assert (await log(test, first.session_id))[-1] == "SessionEnded"
        with pytest.raises(SessionEndedError, match="reset"):
            await test.service.submit(IncomingMessage(text="hi", session_id=first.session_id))


async def test_reset_in_the_middle_of_a_turn_closes_it_first() -> None:
    """Whoever waits for the answer is told, and nothing is left open."""
    async with open_test_service() as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="long", key=test.key()))
        await test.provider.until_called()
        await test.service.reset(submission.session_id)

        assert (await submission.result()).outcome == "cancelled"
        assert (await log(test, submission.session_id))[-2:] == ["TurnFinished", "SessionEnded"]


async def test_delete_removes_everything() -> None:
    """What a person asks to be forgotten is forgotten."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        result = await say(test, "secret")
        await test.service.delete(result.session_id)

        with pytest.raises(UnknownSessionError):
            await test.service.view(result.session_id)
        assert await test.service.reader.sessions() == ()
    async with open_test_service(disk=disk) as test:
        assert await test.service.reader.sessions() == ()


async def test_a_session_idle_for_longer_than_its_ttl_is_ended_and_a_new_one_begins() -> None:
    """An old conversation does not leak into one that starts a month later."""
    clock = ManualClock()
    disk = MemoryDisk()
    async with open_test_service(disk=disk, clock=clock) as test:
        first = await say(test, "in January")
    clock.advance(169 * 3600)
    async with open_test_service(disk=disk, clock=clock) as test:
        second = await say(test, "in February")

        assert second.session_id != first.session_id
        events = await test.service.history(first.session_id, after=0, limit=50)
        assert events[-1].body == SessionEnded(reason="expired")


async def test_the_sweep_ends_expired_sessions_nobody_writes_to() -> None:
    """The list of sessions tells the truth about which are alive."""
    clock = ManualClock()
    settings = ServiceSettings(passivate_after_s=0.001, drain_s=0, sweep_s=3600)
    async with open_test_service(clock=clock, settings=settings) as test:
        first = await say(test, "hello")
        await until_passive(test)
        clock.advance(169 * 3600)
        await until_status(test, first.session_id, "ended")

        assert [row.status for row in await test.service.reader.sessions()] == ["ended"]


# --- stateless turns ---


async def test_a_stateless_turn_sees_its_history_and_leaves_nothing() -> None:
    """An OpenAI-style call brings its own history; the gateway keeps none of it."""
    async with open_test_service() as test:
        history = (
            Turn(
                number=1,
                users=(UserMessage(text="my name is Ada"),),
                steps=(Step(reply=Reply(text="Hello Ada")),),
            ),
        )
        submission = await test.service.stateless.submit(
            IncomingMessage(text="who am I?"),
            History(turns=history, instructions="Be brief."),
            agent="test",
        )
        result = await submission.result()

        request = test.provider.requests[0]
        assert texts(request) == ["my name is Ada", "who am I?"]
        assert "Be brief." in request.system
        assert result.text == "reply 1"
        assert await test.service.reader.sessions() == ()


# --- failures ---


async def test_a_failing_actor_tells_its_callers_and_starts_afresh() -> None:
    """A full disk is told to whoever wrote, and is over when it is over."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        await say(test, "before")
        disk.fail_append(errno.ENOSPC)
        with pytest.raises(Exception, match="disk"):
            await test.service.submit(IncomingMessage(text="lost", key=test.key()))
        after = await say(test, "after")

        assert after.outcome == "answered"
        assert texts(test.provider.requests[-1]) == ["before", "after"]


async def test_a_failure_in_the_middle_of_a_turn_reaches_whoever_waits() -> None:
    """Nobody hangs on a turn whose session died; the next message carries it on."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await test.provider.until_called()
        disk.fail_append(errno.ENOSPC)
        test.provider.release()
        with pytest.raises(Exception, match="disk"):
            await submission.result()
        await say(test, "two")

        assert (await log(test, submission.session_id)).count("TurnFinished") == 2


# --- waiting without a clock ---


async def until(condition) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Wait until `condition()` holds, giving way to everything else."""
    with anyio.fail_after(WAIT_S):
        while not condition():
            await anyio.wait_all_tasks_blocked()


async def until_status(test: TestService, session_id: str, status: str) -> None:
    """Wait until a session has a status."""
    with anyio.fail_after(WAIT_S):
        while (await test.service.view(session_id)).status != status:
            await anyio.wait_all_tasks_blocked()


async def until_passive(test: TestService) -> None:
    """Wait until no session is marked awake."""
    with anyio.fail_after(WAIT_S):
        while await test.store.active():
            await anyio.wait_all_tasks_blocked()


async def finished(test: TestService, session_id: str, turns: int = 1) -> list[Event]:
    """Wait until so many turns are finished in a session's log; return its events."""
    events: list[Event] = []
    with anyio.fail_after(WAIT_S):
        async for update in test.service.watch(session_id, after=0):
            if isinstance(update, Event):
                events.append(update)
                if sum(isinstance(e.body, TurnFinished) for e in events) == turns:
                    return events
    return events


async def test_nothing_more_is_read_for_somebody_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """To explain a request of a long log takes a while; who stops waiting for it ends that."""
    monkeypatch.setattr(service_module, "EXPLAIN_PAGE_EVENTS", 4)
    async with open_test_service() as test:
        for text in ("one", "two", "three"):
            await say(test, text)
        session = await test.service.conversations.current(test.key())
        (*_, last) = await test.service.history(session, after=0, limit=100)
        read = test.store.read
        pages: list[int] = []
        with anyio.CancelScope() as scope:

            async def counted(session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
                pages.append(after)
                if len(pages) == 2:
                    scope.cancel()
                return await read(session_id, after=after, limit=limit)

            monkeypatch.setattr(test.store, "read", counted)
            await test.service.reader.explain(session, last.seq)
        monkeypatch.undo()
        (whole,) = await test.service.reader.explain(session, last.seq - 1)

    assert scope.cancelled_caught
    assert pages == [0, 4]
    assert (whole.turn, whole.verdict) == (3, "same")
