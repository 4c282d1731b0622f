"""Calls that meet a cancel, a pause, a decision, an end or a stop in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import anyio
import pytest
from msgspec import structs
from support.patience import WAIT_S
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.errors import (
    ApprovalClosedError,
    CoreError,
    UnknownApprovalError,
    UnknownSessionError,
)
from everturn_actors.events import (
    ApprovalAsked,
    Body,
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Received,
    SessionEnded,
    SessionStarted,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.ids import new_session_id
from everturn_actors.journal.memory import MemoryDisk, MemoryStore, open_memory_store
from everturn_actors.model import ConversationKey, IncomingMessage, Reply, ToolCall, ToolResult
from everturn_actors.ports import Loaded, ToolCapabilities, ToolContext, ToolOutput, Verdict
from everturn_actors.service import ServiceSettings, Submission
from everturn_actors.spec import SessionSpec
from everturn_actors.testing import (
    START,
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
)

ASK = Verdict(effect="ask", reason="it writes", pattern="builtin:act", timeout_s=60)


def asks() -> Rules:
    """Return a gate that asks about `act`."""
    return Rules({"act": ASK})


async def log_of(test: TestService, session_id: str) -> Sequence[Event]:
    """Return the whole log of a session."""
    return await test.service.history(session_id, after=0, limit=5000)


async def results(test: TestService, session_id: str) -> list[tuple[str, str]]:
    """Return id and text of each result in the log, oldest first."""
    log = await log_of(test, session_id)
    return [(e.body.call_id, e.body.text) for e in log if isinstance(e.body, CallFinished)]


async def until(test: TestService, session_id: str, kind: type[object], *, times: int = 1) -> None:
    """Wait until the log holds so many events of a kind."""
    seen = 0
    with anyio.fail_after(WAIT_S):
        async with aclosing(test.service.watch(session_id, after=0)) as updates:
            async for update in updates:
                if isinstance(update, Event) and isinstance(update.body, kind):
                    seen += 1
                    if seen == times:
                        return


async def begin(test: TestService, text: str = "go") -> Submission:
    """Hand in a message."""
    return await test.service.submit(IncomingMessage(text=text, key=test.key(), sender="alice"))


async def pause(test: TestService, submission: Submission) -> None:
    """Leave, and wait until the turn is paused."""
    await submission.leave()
    assert isinstance(test.clock, ManualClock)
    await test.clock.until_sleeping(0)
    test.clock.advance(0)
    with anyio.fail_after(WAIT_S):
        while (await test.service.view(submission.session_id)).status != "paused":
            await anyio.lowlevel.checkpoint()


class Between(MemoryStore):
    """A store in which something happens while certain events are being written."""

    hook = staticmethod(lambda: None)
    on: type[object] = CallStarted

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """Let it happen, then append."""
        if any(isinstance(event.body, self.on) for event in events):
            self.hook()
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
        await super().append(session_id, events, expected_seq=expected_seq)


# --- pause ---


async def test_a_call_with_effects_that_a_pause_cut_short_is_not_run_again() -> None:
    """Whoever closes the window while a mail is sent must not send it twice by coming back."""
    send = Deed("send", held=True)
    provider = ScriptedProvider(calling(("a", "send")), "done")
    async with open_test_service(provider=provider, tools=by_name(send)) as test:
        submission = await begin(test)
        await send.until_running("a")
        await pause(test, submission)
        assert await test.service.resume(submission.session_id)
        await until(test, submission.session_id, TurnFinished)

        assert send.runs == {"a": 1}
        ((call_id, text),) = await results(test, submission.session_id)
        assert call_id == "a"
        assert "outcome unknown" in text


async def test_a_call_with_effects_is_not_run_again_where_a_message_comes_during_a_pause() -> None:
    """The pause that is called off in its last moment has stopped the tool all the same."""
    send = Deed("send", held=True)
    provider = ScriptedProvider(calling(("a", "send")), "done")
    async with open_test_service(provider=provider, tools=by_name(send)) as test:
        submission = await begin(test)
        await send.until_running("a")
        await submission.leave()
        assert isinstance(test.clock, ManualClock)
        await test.clock.until_sleeping(0)
        async with anyio.create_task_group() as tasks:
            test.clock.advance(0)
            tasks.start_soon(begin, test, "wait")
        with anyio.fail_after(WAIT_S):
            assert (await submission.result()).outcome == "answered"

        assert send.runs == {"a": 1}


async def test_a_call_that_only_reads_runs_again_after_a_pause() -> None:
    """Nothing is lost by it, and the model gets what it asked for."""
    look = Deed("look", capabilities=ToolCapabilities(read_only=True), held=True)
    provider = ScriptedProvider(calling(("a", "look")), "done")
    async with open_test_service(provider=provider, tools=by_name(look)) as test:
        submission = await begin(test)
        await look.until_running("a")
        await pause(test, submission)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submission.result)
            tasks.start_soon(begin, test, "on")
            await look.until_running("a")
            look.let_go("a")

        assert look.runs == {"a": 2}
        assert await results(test, submission.session_id) == [("a", "a done")]


async def test_a_word_given_while_the_turn_is_being_paused_lets_it_go_on() -> None:
    """Who allows a call expects it to run, also when the one who asked has just left."""
    act = Deed("act")
    provider = ScriptedProvider(calling(("a", "act")), "done")
    async with open_test_service(provider=provider, tools=by_name(act), gate=asks()) as test:
        submission = await begin(test)
        await until(test, submission.session_id, ApprovalAsked)
        await submission.leave()
        assert isinstance(test.clock, ManualClock)
        await test.clock.until_sleeping(0)
        async with anyio.create_task_group() as tasks:
            test.clock.advance(0)
            await anyio.lowlevel.checkpoint()  # it is on its way to the pause
            tasks.start_soon(test.service.decide, submission.session_id, "a", "allow_once")
        with anyio.fail_after(WAIT_S):
            assert (await submission.result()).text == "done"

        assert act.runs == {"a": 1}


async def test_an_approval_is_answered_while_the_turn_is_paused() -> None:
    """Nobody watches, and the answer comes by another way: the turn goes on with it."""
    act = Deed("act")
    provider = ScriptedProvider(calling(("a", "act")), "done")
    async with open_test_service(provider=provider, tools=by_name(act), gate=asks()) as test:
        submission = await begin(test)
        await until(test, submission.session_id, ApprovalAsked)
        await pause(test, submission)
        await test.service.decide(submission.session_id, "a", "allow_once", by="alice")
        with anyio.fail_after(WAIT_S):
            assert (await submission.result()).text == "done"

        assert act.runs == {"a": 1}


# --- cancel ---


async def test_a_call_that_is_cancelled_in_the_moment_it_is_logged_does_not_begin() -> None:
    """Stop means stop: a tool that writes at once has not even a moment."""
    act = Deed("act")
    provider = ScriptedProvider(calling(("a", "act")), "not said")
    disk = MemoryDisk()
    store = disk.user = Between(disk, results_max_bytes=10_000)
    async with open_test_service(provider=provider, tools=by_name(act), store=store) as test:
        async with anyio.create_task_group() as tasks:
            submission = await begin(test)
            store.hook = lambda: tasks.start_soon(test.service.cancel, submission.session_id)  # type: ignore[assignment]
            assert (await submission.result()).outcome == "cancelled"

        assert act.runs == {}
        assert await results(test, submission.session_id) == [("a", "cancelled before it finished")]


@table("cancel_first", [True, False])
async def test_a_cancel_and_a_word_in_the_same_moment_run_nothing(*, cancel_first: bool) -> None:
    """Of two people, one stops the turn and one allows its call: it was stopped."""
    act = Deed("act")
    provider = ScriptedProvider(calling(("a", "act")), "not said")
    async with open_test_service(provider=provider, tools=by_name(act), gate=asks()) as test:
        submission = await begin(test)
        await until(test, submission.session_id, ApprovalAsked)

        async def allow() -> None:
            try:
                await test.service.decide(submission.session_id, "a", "allow_once")
            except UnknownApprovalError:
                assert cancel_first

        async def cancel() -> None:
            await test.service.cancel(submission.session_id)

        async with anyio.create_task_group() as tasks:
            for each in (cancel, allow) if cancel_first else (allow, cancel):
                tasks.start_soon(each)

        assert (await submission.result()).outcome == "cancelled"
        assert act.runs == {}
        assert len(await results(test, submission.session_id)) == 1


async def test_a_tool_that_will_not_be_cancelled_does_not_keep_the_turn_alive() -> None:
    """A tool may swallow what stops it; its late result is kept, and nothing more is done."""

    class Stubborn(Deed):
        async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
            try:
                return await super().run(call, context)
            except anyio.get_cancelled_exc_class():
                return "went on regardless"

    act = Stubborn("act", held=True)
    provider = ScriptedProvider(calling(("a", "act"), ("b", "act")), "not said")
    async with open_test_service(provider=provider, tools=by_name(act)) as test:
        submission = await begin(test)
        await act.until_running("a")
        with anyio.fail_after(WAIT_S):
            await test.service.cancel(submission.session_id)

        assert act.runs == {"a": 1}
        assert [call_id for call_id, _ in await results(test, submission.session_id)] == ["a", "b"]
        assert (await submission.result()).outcome == "cancelled"
        assert len(provider.requests) == 1


async def test_a_tool_whose_own_work_is_cancelled_from_inside_gives_an_error() -> None:
    """A library that cancels its own task must not leave a turn that nobody carries on."""

    def fails(call: ToolCall) -> str:
        raise asyncio.CancelledError(call.call_id)

    provider = ScriptedProvider(calling(("a", "broken")), "I see")
    async with open_test_service(
        provider=provider, tools=by_name(Deed("broken", gives=fails))
    ) as test:
        submission = await begin(test)
        with anyio.fail_after(WAIT_S):
            assert (await submission.result()).text == "I see"

        ((_, text),) = await results(test, submission.session_id)
        assert text == "the tool failed: CancelledError"


# --- words ---


async def test_a_word_that_comes_with_the_expiry_is_too_late() -> None:
    """The instant decides, not who of the two is quicker to be heard."""
    act = Deed("act")
    provider = ScriptedProvider(calling(("a", "act")), "too bad")
    async with open_test_service(provider=provider, tools=by_name(act), gate=asks()) as test:
        submission = await begin(test)
        await until(test, submission.session_id, ApprovalAsked)
        assert isinstance(test.clock, ManualClock)
        await test.clock.until_sleeping(60)
        test.clock.advance(60)
        with pytest.raises(ApprovalClosedError, match="expired"):
            await test.service.decide(submission.session_id, "a", "allow_once")

        assert (await submission.result()).text == "too bad"
        assert act.runs == {}


async def test_a_call_that_was_not_allowed_says_so_though_a_message_came_after() -> None:
    """A model that reads "overtaken" for a "no" tries the same again."""
    act = Deed("act")
    provider = ScriptedProvider(calling(("a", "act"), ("b", "act")), "understood")
    disk = MemoryDisk()
    async with open_test_service(
        provider=provider, tools=by_name(act), gate=asks(), disk=disk
    ) as test:
        submission = await begin(test)
        await until(test, submission.session_id, ApprovalAsked)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: test.service.decide(submission.session_id, "a", "deny", by="alice")
            )
            tasks.start_soon(begin, test, "do something else")
        await submission.result()

        assert await results(test, submission.session_id) == [
            ("a", "not allowed by alice"),
            ("b", "not run: a new message came first"),
        ]
        assert act.runs == {}


async def test_results_are_logged_in_call_order_where_a_message_overtakes_an_allowed_call() -> None:
    """What was allowed runs, what follows does not, and the log reads in the order of the calls."""
    act = Deed("act", held=True)
    gate = asks()
    provider = ScriptedProvider(calling(("a", "act"), ("b", "act")), "done")
    async with open_test_service(provider=provider, tools=by_name(act), gate=gate) as test:
        submission = await begin(test)
        await until(test, submission.session_id, ApprovalAsked)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: test.service.decide(submission.session_id, "a", "allow_once", by="alice")
            )
            tasks.start_soon(begin, test, "and now stop")
        await act.until_running("a")
        act.let_go("a")
        await submission.result()

        assert act.runs == {"a": 1}
        assert [call_id for call_id, _ in await results(test, submission.session_id)] == ["a", "b"]


async def test_a_restart_runs_what_had_begun_and_nothing_that_a_message_overtook() -> None:
    """A crash may keep the beginning of one read of two; only that one is still pending."""
    look = Deed("look", capabilities=ToolCapabilities(read_only=True))
    session_id = new_session_id(START, "00000001")
    key = ConversationKey(channel="test", chat="chat", agent="test")
    reply = calling(("a", "look"), ("b", "look"))
    bodies: tuple[Body, ...] = (
        SessionStarted(session_id=session_id, key=key),
        Received(text="go", sender="alice"),
        TurnStarted(turn=1, received=(2,), window_messages=100),
        StepStarted(turn=1, step=1, model="scripted"),
        ModelReplied(text="", calls=reply.calls, stop_reason=reply.stop_reason),
        Received(text="stop", sender="alice"),
        CallStarted(call_id="a"),
    )
    disk = MemoryDisk()
    async with open_memory_store(disk) as store:
        events = [Event(seq=seq, at=START, body=body) for seq, body in enumerate(bodies, 1)]
        await store.append(session_id, events, expected_seq=0)
        await store.mark_active(session_id)
    async with open_test_service(tools=by_name(look), disk=disk) as test:
        await until(test, session_id, TurnFinished)

        assert look.runs == {"a": 1}
        assert await results(test, session_id) == [
            ("a", "a done"),
            ("b", "not run: a new message came first"),
        ]


# --- the end of a session, the stop of a service ---


@table("ends", ["reset", "delete"])
async def test_a_session_ends_while_a_call_runs_and_while_one_waits(ends: str) -> None:
    """/reset is an answer to a turn that hangs, whatever it hangs on."""
    act, work = Deed("act"), Deed("work", held=True)
    for name in ("act", "work"):
        provider = ScriptedProvider(calling(("a", name), ("b", name)))
        async with open_test_service(
            provider=provider, tools=by_name(act, work), gate=asks()
        ) as test:
            submission = await begin(test)
            await until(
                test, submission.session_id, ApprovalAsked if name == "act" else CallStarted
            )
            with anyio.fail_after(WAIT_S):
                await getattr(test.service, ends)(submission.session_id)
            log = await log_of(test, submission.session_id)

            assert work.running == {}
            assert (await submission.result()).outcome == "cancelled"
            if ends == "reset":
                assert isinstance(log[-1].body, SessionEnded)
                finished = [e.body.call_id for e in log if isinstance(e.body, CallFinished)]
                assert finished == ["a", "b"]
            else:
                assert log == ()
            with pytest.raises(CoreError):
                await test.service.decide(submission.session_id, "a", "allow_once")
    assert act.runs == {}


async def test_a_stop_does_not_wait_for_a_person() -> None:
    """A gateway is restarted while a question is open; the question is there afterwards."""
    act = Deed("act")
    provider = ScriptedProvider(calling(("a", "act")), "done")
    disk = MemoryDisk()
    settings = ServiceSettings(leave_grace_s=0, drain_s=3600)
    with anyio.move_on_after(WAIT_S) as limit:
        async with open_test_service(
            provider=provider, tools=by_name(act), gate=asks(), disk=disk, settings=settings
        ) as test:
            submission = await begin(test)
            await until(test, submission.session_id, ApprovalAsked)
    assert not limit.cancel_called
    async with open_test_service(
        provider=provider, tools=by_name(act), gate=asks(), disk=disk
    ) as test:
        state = await test.service.view(submission.session_id)
        assert [each.call_id for each in state.open_approvals] == ["a"]
        await test.service.decide(submission.session_id, "a", "allow_once")
        await until(test, submission.session_id, TurnFinished)

        assert act.runs == {"a": 1}


async def test_a_stop_waits_for_a_tool_that_runs() -> None:
    """What can finish does, so that nothing is left whose outcome nobody knows."""
    act = Deed("act", held=True)
    provider = ScriptedProvider(calling(("a", "act")), "done")
    disk = MemoryDisk()
    settings = ServiceSettings(leave_grace_s=0, drain_s=3600)

    async def let_go() -> None:
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        act.let_go("a")

    async with (
        anyio.create_task_group() as tasks,
        open_test_service(
            provider=provider, tools=by_name(act), disk=disk, settings=settings
        ) as test,
    ):
        submission = await begin(test)
        await act.until_running("a")
        tasks.start_soon(let_go)
    async with open_memory_store(disk) as store:
        log = await store.read(submission.session_id, after=0, limit=100)

    assert [e.body.text for e in log if isinstance(e.body, CallFinished)] == ["a done"]


class Slow(MemoryStore):
    """A store whose first load takes until it is told to go on."""

    go = anyio.Event()

    async def load(self, session_id: str) -> Loaded | None:
        """Wait, then load."""
        await self.go.wait()
        return await super().load(session_id)


async def test_a_message_is_not_refused_because_somebody_only_wakes_its_session() -> None:
    """A crash between binding a session and its first line leaves one that every start looks at."""
    disk = MemoryDisk()
    store = disk.user = Slow(disk, results_max_bytes=10_000)
    store.go = anyio.Event()
    async with open_test_service(store=store) as test:
        session_id = new_session_id(START, "00000001")
        await store.bind(test.key(), session_id)
        refused: list[str] = []

        async def wake() -> None:
            try:
                await test.service.resume(session_id)
            except UnknownSessionError as error:
                refused.append(error.session_id)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(begin, test)
            await anyio.wait_all_tasks_blocked()
            store.go.set()
        state = await test.service.view(session_id)

        assert refused == [session_id]
        assert state.turns == 1


# --- deadlines, and an agent that is gone ---


async def test_the_deadline_of_a_turn_stops_its_tools_and_leaves_a_whole_history() -> None:
    """The next message must find a history that a provider takes."""
    look = Deed("look", capabilities=ToolCapabilities(read_only=True), held=True)
    provider = ScriptedProvider(calling(("a", "look"), ("b", "look"), ("c", "look")), "well")
    spec = structs.replace(make_spec(), session=SessionSpec(turn_timeout_s=0.5))
    async with open_test_service(provider=provider, tools=by_name(look), spec=spec) as test:
        submission = await begin(test)
        result = await submission.result()

        assert (result.outcome, result.error) == (
            "failed",
            "the turn took longer than its 0.5 s",
        )
        assert look.running == {}
        assert [each for each, _ in await results(test, submission.session_id)] == ["a", "b", "c"]
        assert (await (await begin(test, "again")).result()).text == "well"


async def test_an_agent_that_is_gone_after_a_restart_fails_the_turn_that_waits() -> None:
    """The question can no longer be followed by anything; the conversation must not hang on it."""
    act = Deed("act")
    disk = MemoryDisk()
    provider = ScriptedProvider(calling(("a", "act")))
    async with open_test_service(
        provider=provider, tools=by_name(act), gate=asks(), disk=disk
    ) as test:
        submission = await begin(test)
        await until(test, submission.session_id, ApprovalAsked)
    settings = ServiceSettings(leave_grace_s=0, drain_s=0, resume=False)
    async with open_test_service(disk=disk, settings=settings) as test:
        agent = test.agents.agents.pop("test")
        assert not await test.service.resume(submission.session_id)  # it wakes, and was not paused
        await until(test, submission.session_id, TurnFinished)
        state = await test.service.view(submission.session_id)

        assert state.held_turns[0].outcome == "failed"
        assert "test" in state.held_turns[0].error
        test.agents.agents["test"] = agent
        assert (await (await begin(test, "again")).result()).outcome == "answered"
    assert act.runs == {}


async def test_a_tool_that_is_gone_after_a_restart_is_told_when_its_call_is_allowed() -> None:
    """Tools come and go with their servers; a word for one that went must not stop the turn."""
    disk = MemoryDisk()
    provider = ScriptedProvider(calling(("a", "act")), "I see")
    async with open_test_service(
        provider=provider, tools=by_name(Deed("act")), gate=asks(), disk=disk
    ) as test:
        submission = await begin(test)
        await until(test, submission.session_id, ApprovalAsked)
    async with open_test_service(provider=provider, gate=asks(), disk=disk) as test:
        await test.service.decide(submission.session_id, "a", "allow_once")
        await until(test, submission.session_id, TurnFinished)

        assert await results(test, submission.session_id) == [
            ("a", "there is no tool 'act'; there are: none")
        ]


# --- replies out of the ordinary ---


async def test_a_thousand_calls_in_one_reply_all_get_their_result() -> None:
    """A model that loses its head must cost time in proportion, and no conversation."""
    look = Deed("look", capabilities=ToolCapabilities(read_only=True))
    calls = calling(*((f"c{n}", "look" if n % 3 else "nothing") for n in range(1000)))
    async with open_test_service(
        provider=ScriptedProvider(calls, "enough"), tools=by_name(look)
    ) as test:
        submission = await begin(test)
        with anyio.fail_after(WAIT_S * 3):
            assert (await submission.result()).text == "enough"

        assert sum(look.runs.values()) == 666
        given = await results(test, submission.session_id)
        assert [call_id for call_id, _ in given] == [f"c{n}" for n in range(1000)]


async def test_a_reply_may_say_something_beside_its_calls() -> None:
    """What a model says on the way is a part of the history, and not the end of the turn."""
    first = structs.replace(calling(("a", "act")), text="let me see")
    provider = ScriptedProvider(first, "done")
    async with open_test_service(provider=provider, tools=by_name(Deed("act"))) as test:
        submission = await begin(test)

        assert (await submission.result()).text == "done"
        _, reply, result = provider.requests[1].messages
        assert isinstance(reply, Reply)
        assert isinstance(result, ToolResult)
        assert reply.text == "let me see"
