"""A model that is out of reach for a while costs time and no answer, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import pytest
from msgspec.structs import replace
from support.delivering import Delivering, delivering
from support.patience import WAIT_S
from support.tables import table
from support.tool_doubles import Deed, by_name

from everturn_actors.errors import (
    ModelAuthError,
    ModelTransientError,
    RateLimitedError,
    TruncatedStreamError,
    UnknownSessionError,
)
from everturn_actors.events import OUTAGE_LINE, ModelCallFailed
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import IncomingMessage, ModelRequest, Reply
from everturn_actors.service import ServiceSettings, Submission, TextDelta, TurnResult
from everturn_actors.spec import SessionSpec
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
    texts,
)

LONGEST_S = 75  # that anything here waits between two tries
QUICK = 4  # tries that follow each other at once


class Flaky(ScriptedProvider):
    """A model that is out of reach until it is put right."""

    def __init__(self, *script: str | Reply, error: Exception | None = None) -> None:
        super().__init__(*script)
        self.error: Exception | None = error or ModelTransientError("fake at here: HTTP 503")

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Fail, or answer."""
        if self.error is not None:
            self.requests.append(request)
            self._called.set()
            await anyio.lowlevel.checkpoint()
            raise self.error
        return await super().complete(request, on_text)


class Breaking(Flaky):
    """A model whose replies break off after a few words, until it is put right."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Say a little, and fail; or answer."""
        if self.error is not None:
            on_text("half a ")
        return await super().complete(request, on_text)


async def until_waiting(test: TestService, session_id: str, attempts: int = 1) -> None:
    """Wait until so many failures in a row are durable."""
    with anyio.fail_after(WAIT_S):
        while True:  # not by following it: what a follower has read is not tried again
            turn = (await test.service.view(session_id)).open_turn
            if turn is not None and turn.outage is not None and turn.outage.attempts >= attempts:
                return
            await anyio.sleep(0.001)


async def next_try(test: TestService, longest_s: float = LONGEST_S) -> None:
    """Let the time go by until the model is called again."""
    assert isinstance(test.clock, ManualClock)
    calls = len(test.provider.requests)
    await test.clock.until_sleeping(longest_s)
    test.clock.advance(longest_s)
    await test.provider.until_called(calls + 1)


async def fall_out(test: TestService, text: str = "hi", *, asks: int | None = None) -> Submission:
    """Send a message whose turn ends up waiting for the model."""
    inbound = IncomingMessage(text=text, key=test.key(), retry_for_s=asks)
    submission = await test.service.submit(inbound)
    for _ in range(QUICK - 1):
        await next_try(test, 5)
    await until_waiting(test, submission.session_id)
    return submission


async def result_of(submission: Submission) -> TurnResult:
    """Wait for the end of a turn."""
    with anyio.fail_after(WAIT_S):
        return await submission.result()


async def failures(test: TestService, submission: Submission) -> list[ModelCallFailed]:
    """Return the failures in the log, oldest first."""
    events = await test.service.history(submission.session_id, after=0, limit=1000)
    return [e.body for e in events if isinstance(e.body, ModelCallFailed)]


@asynccontextmanager
async def waiting(**rest: object) -> AsyncGenerator[tuple[TestService, Submission]]:
    """Open a service with a turn that waits for its model."""
    rest = {"provider": Flaky(), "clock": ManualClock(), **rest}
    async with open_test_service(**rest) as test:  # type: ignore[arg-type]
        yield test, await fall_out(test)


def right(test: TestService) -> None:
    """Put the model right."""
    assert isinstance(test.provider, Flaky)
    test.provider.error = None


# --- the wait ---


async def test_an_outage_of_minutes_delays_the_answer_and_no_more() -> None:
    """A model server that restarts must not lose the turns that were under way."""
    async with waiting() as (test, submission):
        for attempts in range(2, 8):
            await next_try(test)
            await until_waiting(test, submission.session_id, attempts)
        right(test)
        await next_try(test)
        result = await result_of(submission)
        failed = await failures(test, submission)
        state = await test.service.view(submission.session_id)

        assert (result.outcome, result.text) == ("answered", "reply 11")
        assert [each.attempt for each in failed] == [1, 2, 3, 4, 5, 6, 7]
        assert [each.tells for each in failed] == [True] + [False] * 6
        waits_s = [each.retry_in_ms / 1000 for each in failed]
        for wait_s, base_s in zip(waits_s, (4, 8, 16, 32, 60, 60, 60), strict=True):
            assert base_s <= wait_s <= min(base_s * 1.25 + 0.001, 60)
        assert len(texts(test.provider.requests[-1])) == 1
        assert state.cache_misses == 0


async def test_an_outage_that_lasts_too_long_ends_the_turn_in_words() -> None:
    """People must not wait for ever, and they read for how long it was tried, and why in vain."""
    async with waiting() as (test, submission):
        async with anyio.create_task_group() as tasks:

            async def pass_time() -> None:
                assert isinstance(test.clock, ManualClock)
                while True:
                    await test.clock.until_sleeping(LONGEST_S)
                    test.clock.advance(5)

            tasks.start_soon(pass_time)
            result = await result_of(submission)
            tasks.cancel_scope.cancel()
        failed = await failures(test, submission)
        right(test)

        assert result.outcome == "failed"
        assert result.error == (
            "no reply in 15 minutes of trying; the last reason: fake at here: HTTP 503"
        )
        assert 15 <= len(failed) <= 20  # few, in a log that is kept
        assert sum(each.tells for each in failed) == 1
        again = await test.service.submit(IncomingMessage(text="still there?", key=test.key()))
        assert (await result_of(again)).outcome == "answered"


@table("asks", [None, 30, 10_000])
async def test_who_asks_may_want_it_tried_for_less_and_never_for_more(asks: int | None) -> None:
    """An interactive client would rather hear of it soon; no client overrules the agent."""
    spec = replace(make_spec(), session=SessionSpec(model_retry_for_s=120))
    async with open_test_service(provider=Flaky(), clock=ManualClock(), spec=spec) as test:
        submission = await fall_out(test, asks=asks)
        async with anyio.create_task_group() as tasks:

            async def pass_time() -> None:
                assert isinstance(test.clock, ManualClock)
                while True:
                    await test.clock.until_sleeping(LONGEST_S)
                    test.clock.advance(1)

            tasks.start_soon(pass_time)
            result = await result_of(submission)
            tasks.cancel_scope.cancel()

        told = "30 seconds" if asks == 30 else "2 minutes"
        assert result.error.startswith(f"no reply in {told} of trying")


async def test_what_may_pass_is_waited_for() -> None:
    """A model that is busy, or hangs once, will answer, whatever the turn may take."""
    # Whoever comes back sooner is refused again, and may be locked out.
    slow = RateLimitedError("slow down", retry_after_s=300)
    async with open_test_service(provider=Flaky(error=slow), clock=ManualClock()) as test:
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        await until_waiting(test, submission.session_id)
        failed = await failures(test, submission)
        calls = len(test.provider.requests)
        right(test)
        await next_try(test, 375)
        result = await result_of(submission)

        assert calls == 1
        assert 300_000 <= failed[0].retry_in_ms <= 375_000
        assert result.outcome == "answered"

    # One call that gets stuck says nothing of the next one.
    session = SessionSpec(call_timeout_s=0.5)
    async with open_test_service(
        spec=replace(make_spec(), session=session), clock=ManualClock()
    ) as test:
        test.provider.hold()
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        await until_waiting(test, submission.session_id)
        test.provider.release()
        await next_try(test)

        assert (await result_of(submission)).text == "reply 2"
        assert "no reply within 0.5 s" in (await failures(test, submission))[0].error

    # An outage may be longer than a turn is allowed to take; that is not the turn's doing.
    session = SessionSpec(turn_timeout_s=1)
    spec = replace(make_spec(), session=session)
    async with waiting(spec=spec) as (test, submission):
        await anyio.sleep(1.1)  # the deadline is one of the loop's clock
        right(test)
        await next_try(test)

        assert (await result_of(submission)).outcome == "answered"


async def test_what_does_not_pass_ends_the_turn_at_once() -> None:
    """Nobody waits in vain, nor who wants no waiting."""
    # A key that was revoked meanwhile will not come back by itself.
    async with waiting() as (test, submission):
        assert isinstance(test.provider, Flaky)
        test.provider.error = ModelAuthError("the key was refused")
        await next_try(test)

        assert (await result_of(submission)).error == "the key was refused"

    # The answer would come when nobody remembers the question.
    slow = RateLimitedError("slow down", retry_after_s=86_400)
    async with open_test_service(provider=Flaky(error=slow), clock=ManualClock()) as test:
        result = await result_of(
            await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        )

        assert result.outcome == "failed"
        assert result.error.startswith("slow down; it asks to wait 1440 minutes")

    # Who wants no waiting gets none.
    spec = replace(make_spec(), session=SessionSpec(model_retry_for_s=0))
    async with open_test_service(provider=Flaky(), clock=ManualClock(), spec=spec) as test:
        submission = await test.service.submit(IncomingMessage(text="hi", key=test.key()))
        for _ in range(QUICK - 1):
            await next_try(test, 5)
        result = await result_of(submission)

        assert (result.outcome, result.error) == ("failed", "fake at here: HTTP 503")
        assert await failures(test, submission) == []


async def test_what_was_shown_of_a_call_that_broke_off_is_no_running_reply_during_the_wait() -> (
    None
):
    """Who looks on meanwhile sees that nothing is being said, and not half of an old try."""
    provider = Breaking()
    async with open_test_service(provider=provider, clock=ManualClock()) as test:
        submission = await fall_out(test)
        seen: list[TextDelta] = []
        async with anyio.create_task_group() as tasks:

            async def look_on() -> None:
                async for update in test.service.watch(submission.session_id, after=0):
                    seen.extend([update] if isinstance(update, TextDelta) else [])

            tasks.start_soon(look_on)
            await anyio.wait_all_tasks_blocked()
            before = list(seen)
            provider.error = None
            await next_try(test)
            result = await result_of(submission)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

        assert before == []
        assert "".join(delta.text for delta in seen) == result.text == "reply 5"


# --- what comes meanwhile ---


async def test_messages_that_come_meanwhile_are_read_with_the_next_try() -> None:
    """One answer to all of it, and not an outdated one first."""
    async with waiting() as (test, submission):
        more = await test.service.submit(IncomingMessage(text="and this", key=test.key()))
        right(test)
        await next_try(test)
        first, second = await result_of(submission), await result_of(more)
        state = await test.service.view(submission.session_id)

        assert texts(test.provider.requests[-1]) == ["hi", "and this"]
        assert (first.turn, second.turn, second.outcome) == (1, 1, "answered")
        assert state.turns == 1

    # After a tool ran too; the model reads them behind what the tool gave.
    provider = Flaky(calling(("c1", "look")), "done")
    provider.error = None

    def break_down(_call: object) -> str:
        provider.error = ModelTransientError("down")
        return "it is blue"

    tools = by_name(Deed("look", gives=break_down))
    async with open_test_service(provider=provider, clock=ManualClock(), tools=tools) as test:
        submission = await test.service.submit(IncomingMessage(text="go", key=test.key()))
        await provider.until_called(2)
        for _ in range(QUICK - 1):
            await next_try(test, 5)
        await until_waiting(test, submission.session_id)
        await test.service.submit(IncomingMessage(text="and red?", key=test.key()))
        right(test)
        await next_try(test)
        result = await result_of(submission)

        assert (result.text, texts(provider.requests[-1])) == ("done", ["go", "and red?"])
        assert (await test.service.view(submission.session_id)).cache_misses == 0


@table("how", ["cancel", "reset", "delete"])
async def test_a_wait_can_be_ended_at_once(how: str) -> None:
    """Whoever has enough of waiting says so and is done."""
    async with waiting() as (test, submission):
        with anyio.fail_after(WAIT_S):
            await getattr(test.service, how)(submission.session_id)
            result = await submission.result()

        assert result.outcome == "cancelled"
        if how == "delete":
            with pytest.raises(UnknownSessionError):
                await test.service.view(submission.session_id)
        right(test)
        again = await test.service.submit(IncomingMessage(text="next", key=test.key()))
        assert (await result_of(again)).outcome == "answered"


async def test_a_client_that_leaves_pauses_the_wait_and_one_that_comes_back_ends_it() -> None:
    """Nobody waits for the answer, so nobody asks for it; the message is kept all the same."""
    async with waiting(settings=ServiceSettings(leave_grace_s=1)) as (test, submission):
        assert isinstance(test.clock, ManualClock)
        await submission.leave()
        await test.clock.until_sleeping(1)
        test.clock.advance(1)
        while (await test.service.view(submission.session_id)).status != "paused":
            await anyio.lowlevel.checkpoint()
        test.clock.advance(3600)
        right(test)
        more = await test.service.submit(IncomingMessage(text="still there?", key=test.key()))

        assert (await result_of(more)).outcome == "answered"
        assert (await result_of(submission)).outcome == "answered"


# --- restarts ---


async def test_a_stop_does_not_wait_for_the_model_and_a_start_goes_on_with_the_same_wait() -> None:
    """Neither the waits nor the end begin anew with every restart."""
    disk, clock = MemoryDisk(), ManualClock()
    settings = ServiceSettings(drain_s=3600)
    async with waiting(disk=disk, clock=clock, settings=settings) as (test, submission):
        for attempts in range(2, 7):
            await next_try(test)
            await until_waiting(test, submission.session_id, attempts)
        turn = (await test.service.view(submission.session_id)).open_turn
        assert turn is not None
        before = turn.outage
        began_s = anyio.current_time()
    assert anyio.current_time() - began_s < WAIT_S
    assert before is not None
    clock.advance(10)
    provider = Flaky()
    async with open_test_service(provider=provider, disk=disk, clock=clock) as test:
        await clock.until_sleeping(50)
        assert provider.requests == []  # the rest of the wait is left
        clock.advance(50)
        await until_waiting(test, submission.session_id, 7)
        turn = (await test.service.view(submission.session_id)).open_turn
        assert turn is not None
        assert turn.outage is not None
        assert (turn.outage.since, turn.outage.give_up_at) == (before.since, before.give_up_at)
        assert len(provider.requests) == 1
        right(test)
        await next_try(test)
        again = await test.service.submit(
            IncomingMessage(text="thanks", session_id=submission.session_id)
        )

        assert (await result_of(again)).outcome == "answered"
        assert (await failures(test, submission))[-1].tells is False


async def test_a_start_at_another_time_holds_no_turn_for_longer() -> None:
    """Neither after an outage of the machine, nor where its clock was set back."""
    # It may have been the machine, and not the model, that was down all the time.
    disk, clock = MemoryDisk(), ManualClock()
    async with waiting(disk=disk, clock=clock) as (test, submission):
        pass
    clock.advance(86_400)
    async with open_test_service(disk=disk, clock=clock) as test:
        await test.provider.until_called()
        again = await test.service.submit(
            IncomingMessage(text="so?", session_id=submission.session_id)
        )
        await result_of(again)
        state = await test.service.view(submission.session_id)

        assert [turn.outcome for turn in state.held_turns] == ["answered"] * len(state.held_turns)

    # The wait was meant to be seconds, and the next start must not make it a day.
    disk, clock = MemoryDisk(), ManualClock()
    async with waiting(disk=disk, clock=clock) as (test, submission):
        pass
    earlier = ManualClock(clock.now() - timedelta(days=1))
    async with open_test_service(disk=disk, clock=earlier) as test:
        await next_try(test, 5)
        again = await test.service.submit(
            IncomingMessage(text="so?", session_id=submission.session_id)
        )

        assert (await result_of(again)).outcome == "answered"


# --- what people of a channel read ---


async def test_people_are_told_once_in_a_turn() -> None:
    """They know that it takes longer, and are not told so every minute."""
    disk, clock, provider = MemoryDisk(), ManualClock(), Flaky()
    async with (
        open_memory_store(disk) as store,
        delivering(provider=provider, store=store, clock=clock) as test,
    ):
        said = await test.say()
        for _ in range(8):
            await _next(test)
        assert test.adapter.world.texts == [f"~{OUTAGE_LINE}"]
        adapter = test.adapter
    async with (
        open_memory_store(disk) as store,
        delivering(provider=provider, store=store, clock=clock, adapter=adapter) as test,
    ):
        for _ in range(3):
            await _next(test)
        provider.error = None
        await _next(test)
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [f"~{OUTAGE_LINE}", "reply 13"]

    # Once a turn is enough: the message is still kept.
    provider = Flaky(calling(("c1", "look")), "done")

    def break_down(_call: object) -> str:
        provider.error = TruncatedStreamError("it broke off")
        return "it is blue"

    tools = by_name(Deed("look", gives=break_down))
    clock = ManualClock()
    async with delivering(provider=provider, tools=tools, clock=clock) as test:
        said = await test.say()
        for _ in range(QUICK):
            await _next(test)
        provider.error = None
        await _next(test)
        for _ in range(QUICK):
            await _next(test)
        provider.error = None
        await _next(test)
        await test.until_delivered(said.session_id)
        log = await test.log(said.session_id)

        assert test.adapter.world.texts == [f"~{OUTAGE_LINE}", "done"]
        assert sum(isinstance(e.body, ModelCallFailed) for e in log) >= 2


async def _next(test: Delivering) -> None:
    """Let the time go by until the model is called again."""
    await test.clock.until_sleeping(LONGEST_S)
    test.clock.advance(LONGEST_S)
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
