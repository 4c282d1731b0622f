"""A turn that failed is asked again, in its own place: nothing is said or done twice."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from support.command import everturn
from support.command import write_agent as write_cli_agent
from support.crashing import CrashingStore, Moment
from support.delivering import delivering
from support.gateway import open_http_gateway
from support.model_api import open_model_api, unauthorized
from support.patience import WAIT_S
from support.stores import MemoryWorld
from support.tables import table
from support.tool_doubles import Deed, by_name

from everturn_actors.errors import (
    CoreError,
    ModelAuthError,
    ModelRefusedError,
    NothingToRetryError,
    SessionEndedError,
)
from everturn_actors.events import Received
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage, ModelRequest, Reply, ToolResult
from everturn_actors.ports import SessionStore
from everturn_actors.service import Submission, TurnResult
from everturn_actors.state.recovery import recover
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    open_test_service,
    texts,
)

DOWN = ModelAuthError("the key was refused")


async def say(test: TestService, text: str, key: str = "") -> Submission:
    """Hand in a message."""
    return await test.service.submit(
        IncomingMessage(text=text, key=test.key(), idempotency_key=key)
    )


async def result_of(submission: Submission) -> TurnResult:
    """Wait for the end of a turn."""
    with anyio.fail_after(WAIT_S):
        return await submission.result()


async def test_the_messages_of_the_turn_are_answered_and_the_model_sees_them_once() -> None:
    """Who asks again need not say it again, and history has no failed attempt in it."""
    async with open_test_service(provider=ScriptedProvider("one", DOWN, "two", "three")) as test:
        await result_of(await say(test, "first"))
        failed = await result_of(await say(test, "second", "k"))
        again = await result_of(await test.service.retry(failed.session_id))
        repeat = await result_of(await say(test, "second", "k"))
        await result_of(await say(test, "third"))
        state = await test.service.view(failed.session_id)

        assert (failed.outcome, failed.turn) == ("failed", 2)
        assert (again.outcome, again.turn, again.text) == ("answered", 3, "two")
        assert (repeat.turn, repeat.text) == (3, "two")
        assert texts(test.provider.requests[2]) == ["first", "second"]
        assert texts(test.provider.requests[3]) == ["first", "second", "third"]
        assert [turn.number for turn in state.held_turns] == [1, 3, 4]
        assert state.cache_misses == 0
        assert state.held_messages == state.logged_messages


async def test_what_tools_have_done_is_not_done_again() -> None:
    """The model goes on behind what it knows; an order that was sent stays one order."""
    send = Deed("send")
    provider = ScriptedProvider(calling(("c1", "send")), DOWN, "sent")
    async with open_test_service(provider=provider, tools=by_name(send)) as test:
        failed = await result_of(await say(test, "go"))
        again = await result_of(await test.service.retry(failed.session_id))

        assert (failed.outcome, again.text) == ("failed", "sent")
        assert send.runs == {"c1": 1}
        results = [m for m in provider.requests[2].messages if isinstance(m, ToolResult)]
        assert [result.call_id for result in results] == ["c1"]


async def test_a_turn_that_went_in_circles_gets_a_fresh_count() -> None:
    """Asked again it may find its way; else it fails of the same, and not at once."""
    provider = ScriptedProvider(*[calling((f"c{n}", "look")) for n in range(5)], "found it")
    async with open_test_service(provider=provider, tools=by_name(Deed("look"))) as test:
        failed = await result_of(await say(test, "go"))
        again = await result_of(await test.service.retry(failed.session_id))

        assert "5 times in a row" in failed.error
        assert (again.outcome, again.text) == ("answered", "found it")


async def test_one_that_fails_again_can_be_asked_again() -> None:
    """As often as people like."""
    async with open_test_service(provider=ScriptedProvider(DOWN, DOWN, "at last")) as test:
        failed = await result_of(await say(test, "go"))
        again = await result_of(await test.service.retry(failed.session_id))
        third = await result_of(await test.service.retry(failed.session_id))

        assert (again.outcome, third.outcome, third.turn) == ("failed", "answered", 3)


async def test_the_same_wish_twice_is_one() -> None:
    """A platform hands a command in again when it did not hear that it was taken."""
    disk = MemoryDisk()
    async with open_test_service(provider=ScriptedProvider(DOWN, DOWN), disk=disk) as test:
        failed = await result_of(await say(test, "go"))
        one = await test.service.retry(failed.session_id, idempotency_key="r1")
        first = await result_of(one)
    async with open_test_service(provider=ScriptedProvider("never"), disk=disk) as test:
        two = await test.service.retry(failed.session_id, idempotency_key="r1")
        second = await result_of(two)

        assert two.duplicate
        assert (first.turn, second.turn, second.outcome) == (2, 2, "failed")
        assert test.provider.requests == []


@table(
    ("script", "why"),
    [
        (["fine"], "the newest message was answered"),
        ([DOWN, "fine"], "the newest message was answered"),
    ],
)
async def test_what_was_answered_is_not_asked_again(script: list[object], why: str) -> None:
    """An older failure is history once something newer was answered."""
    async with open_test_service(provider=ScriptedProvider(*script)) as test:  # type: ignore[arg-type]
        said = [await result_of(await say(test, f"message {n}")) for n in range(len(script))]
        with pytest.raises(NothingToRetryError, match=why):
            await test.service.retry(said[0].session_id)


async def test_it_is_refused_in_words_while_something_is_under_way_or_nothing_is_there() -> None:
    """Whoever asks knows what to do instead."""
    async with open_test_service(provider=ScriptedProvider(DOWN)) as test:
        session = await test.service.conversations.create(test.key())
        with pytest.raises(NothingToRetryError, match="nothing was asked here yet"):
            await test.service.retry(session)
        await result_of(await say(test, "go"))
        test.provider.hold()
        said = await say(test, "and now?")
        await test.provider.until_called(2)
        with pytest.raises(NothingToRetryError, match="a turn is under way"):
            await test.service.retry(session)
        await test.service.cancel(session)
        assert (await result_of(said)).outcome == "cancelled"
        with pytest.raises(NothingToRetryError, match="was cancelled"):
            await test.service.retry(session)
        await test.service.reset(session)
        with pytest.raises(SessionEndedError):
            await test.service.retry(session)


async def test_a_retry_that_a_crash_cuts_short_goes_on() -> None:
    """It is an event like all others."""
    disk, clock = MemoryDisk(), ManualClock()
    async with open_test_service(provider=ScriptedProvider(DOWN), disk=disk, clock=clock) as test:
        failed = await result_of(await say(test, "go", "k"))
        test.provider.hold()
        await test.service.retry(failed.session_id)
        await test.provider.until_called(2)
    async with open_test_service(provider=ScriptedProvider("done"), disk=disk, clock=clock) as test:
        await test.provider.until_called()
        again = await result_of(await say(test, "go", "k"))

        assert (again.turn, again.text) == (2, "done")


async def ask_and_retry(store: SessionStore, send: Deed, calls: list[int]) -> str:
    """Send a message whose turn fails after a call, and ask it again; return the session."""

    def second(_request: ModelRequest) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise DOWN
        return "sent"

    def answer(request: ModelRequest) -> str | Reply:
        called = any(isinstance(message, ToolResult) for message in request.messages)
        return second(request) if called else calling(("c1", "send"))

    provider = ScriptedProvider(*[answer] * 10)
    async with open_test_service(provider=provider, tools=by_name(send), store=store) as test:
        with suppress(CoreError):  # where the process ends on the way
            said = await result_of(await say(test, "go", "k"))
            if said.outcome == "failed":
                again = await test.service.retry(said.session_id, idempotency_key="r")
                assert (await result_of(again)).text == "sent"
            return said.session_id
    return ""


@table("moment", ["before", "half", "after"])
async def test_a_retry_survives_the_end_of_the_process_at_every_write(moment: Moment) -> None:
    """Nothing is done twice by it, and the message has one answer in the end."""
    for number in range(1, 40):
        world, send, calls = MemoryWorld(), Deed("send"), list[int]()
        async with world.open() as inner:
            store = CrashingStore(inner)
            store.at = (number, moment)
            await ask_and_retry(store, send, calls)
        if not store.ended.is_set():
            break
        async with world.open() as inner:
            session_id = await ask_and_retry(inner, send, calls)
            log = await inner.read(session_id, after=0, limit=1000)
        assert sum(isinstance(event.body, Received) for event in log) == 1
        assert send.runs["c1"] <= 1
        recovered = recover(None, log)
        assert recovered is not None
        assert [turn.outcome for turn in recovered.state.held_turns] == ["answered"]
    assert number > 5


async def test_its_answer_is_owed_to_the_people_of_the_chat() -> None:
    """They read why it failed, and then the answer."""
    async with delivering(ModelRefusedError("no such model"), "here it is") as test:
        said = await test.say()
        await test.until_delivered(said.session_id)
        await test.service.retry(said.session_id)
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["I could not answer: no such model", "here it is"]
        assert test.adapter.world.messages["m2"].message.reply_to == "q1"


# --- over HTTP, and on the command line ---


async def test_it_can_be_asked_again_over_http(tmp_path: Path) -> None:
    """The answer is that of a message; the same key is the same request."""
    provider = ScriptedProvider(DOWN, "here", DOWN, "there")
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        gateway.client() as client,
    ):
        path = f"/api/v1/sessions/{await gateway.session()}"
        first = await client.post(f"{path}/messages", json={"content": "one"})
        key = {"Idempotency-Key": "r"}
        again = await client.post(f"{path}/retry", headers=key)
        repeat = await client.post(f"{path}/retry", headers=key)
        needless = await client.post(f"{path}/retry")
        await client.post(f"{path}/messages", json={"content": "two"})
        begun = await client.post(f"{path}/retry", headers={"Prefer": "respond-async"})
        messages = (await client.get(f"{path}/messages")).json()["messages"]

        assert first.status_code == 502
        assert (again.status_code, again.json()["content"]) == (200, "here")
        assert repeat.json() == again.json()
        assert repeat.headers["Idempotent-Replayed"] == "true"
        assert needless.status_code == 409
        assert needless.json()["type"].endswith("nothing-to-retry")
        assert (begun.status_code, begun.json()["events"]) == (202, begun.headers["Location"])
        assert [row["turn_id"] for row in messages if row["role"] == "user"] == ["t2", "t4"]


@table("typed", [False, True], ids=["sessions retry", "/retry"])
async def test_it_can_be_asked_again_from_a_terminal(tmp_path: Path, typed: bool) -> None:
    """After the key was set right, the question still stands."""
    env = {"OPENAI_API_KEY": "sk-test"}
    async with open_model_api() as api:
        write_cli_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        api.script(unauthorized())
        if typed:
            done = await everturn("chat", cwd=tmp_path, env=env, stdin=b"hello\n/retry\n/retry\n")
        else:
            await everturn("run", "hello", cwd=tmp_path, env=env)
            listed = await everturn("sessions", "list", "--json", cwd=tmp_path, env=env)
            session = json.loads(listed.out)[0]["session_id"]
            done = await everturn("sessions", "retry", session, cwd=tmp_path, env=env)
            again = await everturn("sessions", "retry", session, cwd=tmp_path, env=env)

            assert (again.code, again.out) == (2, "")
            assert "the newest message was answered" in again.err

        assert "All right." in done.out
        assert len(api.requests) == 2
