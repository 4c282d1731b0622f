"""How messages of a chat join those that wait: bursts, queue modes, what is said beside, edits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from support.patience import WAIT_S
from support.tables import table
from support.tool_doubles import Deed, Rules

from everturn_actors.delivery.port import Outgoing
from everturn_actors.errors import BusyError, InvalidInputError, QueueFullError, SessionEndedError
from everturn_actors.events import (
    AmbientStored,
    ApprovalAsked,
    Discarded,
    Event,
    Received,
    SessionStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.journal.memory import MemoryDisk, MemoryStore
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import AmbientRules, IncomingMessage, Overflow, Queueing
from everturn_actors.ports import Verdict
from everturn_actors.service import ServiceSettings, Submission
from everturn_actors.spec import SessionSpec
from everturn_actors.state.queue import AMBIENT_LIMIT
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
    texts,
)

SOON_TURNS_OF_THE_LOOP = 60  # more than a turn in memory takes
BURST = Queueing(debounce_s=1.5)
OWN = Queueing(joins="own")
OWN_BURST = Queueing(debounce_s=1.5, joins="own")


class Nobody:
    """A delivery port that delivers nothing, so that a session is one of a channel."""

    takes_files = True

    async def deliver(self, session: Outgoing) -> None:
        """Wait for the end of the turn, and leave what is pending."""
        while session.state.open_turn is not None and not session.is_stopping:
            await session.until_changed()


async def say(
    test: TestService,
    text: str,
    queueing: Queueing = BURST,
    *,
    sender: str = "ann",
    key: str = "",
    ambient: bool = False,
) -> Submission:
    """Hand in a message of the chat."""
    inbound = IncomingMessage(
        text=text,
        key=test.key(),
        sender=sender,
        idempotency_key=key,
        kind="ambient" if ambient else "prompt",
        ambient=AmbientRules(shown="message"),
        queueing=queueing,
    )
    return await test.service.submit(inbound)


async def soon() -> None:
    """Give way until nothing moves that does not wait for the clock or the model."""
    for _ in range(SOON_TURNS_OF_THE_LOOP):
        await anyio.lowlevel.checkpoint()


async def answered(test: TestService) -> list[list[str]]:
    """Return the texts that each turn so far answers, once nothing moves."""
    await soon()
    session_id = await test.service.conversations.current(test.key())
    state = await test.service.view(session_id)
    turns = [*state.held_turns, *((state.open_turn,) if state.open_turn else ())]
    return [[user.text for user in turn.users] for turn in turns]


# --- bursts ---


async def test_a_burst_is_one_turn_that_begins_when_its_senders_are_done() -> None:
    """GW-05: messages of one breath are one question, and nobody waits for ever."""
    # GW-05: a forwarded message and the comment on it are one question.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await say(test, "look at this")
        clock.advance(1)
        await soon()
        await say(test, "what is it?")
        clock.advance(1)
        await soon()
        assert test.provider.requests == []
        clock.advance(0.5)

        assert await answered(test) == [["look at this", "what is it?"]]

    # GW-05: somebody who types without a pause is answered.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        for n in range(6):
            await say(test, f"line {n}")
            await soon()
            assert test.provider.requests == []
            clock.advance(1)

        assert await answered(test) == [[f"line {n}" for n in range(6)]]

    # GW-06: merged into one text, nobody could tell who asked what.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await say(test, "[Ann] tea?", sender="ann")
        clock.advance(1)
        await say(test, "[Bob] coffee", sender="bob")
        clock.advance(0.6)
        await soon()
        assert test.provider.requests == []
        clock.advance(1)

        assert await answered(test) == [["[Ann] tea?", "[Bob] coffee"]]
        turn = (
            await test.service.view(await test.service.conversations.current(test.key()))
        ).held_turns[0]
        assert [user.sender for user in turn.users] == ["ann", "bob"]


async def test_what_need_not_wait_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole questions, and what has waited for long enough."""
    # HTTP and the terminal send whole questions.
    async with open_test_service() as test:
        result = await (await say(test, "now", Queueing())).result()

        assert result.text == "reply 1"

    # Whoever wrote before it has waited long enough.
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        await say(test, "one")
        await say(test, "two")
        assert test.provider.requests == []
    async with open_test_service(disk=disk) as test:
        await test.provider.until_called()

        assert await answered(test) == [["one", "two"]]

    # A slow disk may take longer than anybody is waited for.
    clock, append = ManualClock(), MemoryStore.append

    async def slowly(
        store: MemoryStore, session_id: str, events: Sequence[Event], *, expected_seq: int
    ) -> None:
        clock.advance(BURST.debounce_s * 2)
        await append(store, session_id, events, expected_seq=expected_seq)

    monkeypatch.setattr(MemoryStore, "append", slowly)
    async with open_test_service(provider=ScriptedProvider("hello"), clock=clock) as test:
        said = await say(test, "hi")
        with anyio.fail_after(WAIT_S):
            assert (await said.result()).text == "hello"


async def test_a_command_lets_what_is_held_begin() -> None:
    """GW-05: a command in a burst stands behind what was written before it."""
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await say(test, "one")
        await test.service.conversations.flush(test.key())
        assert await answered(test) == [["one"]]

        await say(test, "two")
        await soon()
        assert await answered(test) == [["one"]]
        clock.advance(1.5)
        assert await answered(test) == [["one"], ["two"]]

    # A command may be the first thing that anybody says.
    async with open_test_service() as test:
        await test.service.conversations.flush(test.key())

        assert await test.service.reader.sessions() == ()

    # The wait after a command is that of what comes after it.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await say(test, "one", Queueing(debounce_s=1000))
        await test.service.conversations.flush(test.key())
        await soon()
        await say(test, "two", sender="bob")
        await clock.until_sleeping(6)
        clock.advance(6)

        assert await answered(test) == [["one"], ["two"]]


async def test_what_comes_while_a_turn_runs_is_answered_after_it() -> None:
    """GW-03: nothing waits for somebody to write again."""
    # Messages that wait anyway need not wait again, but the last may have a second half.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        test.provider.hold()
        await say(test, "one", Queueing())
        await test.provider.until_called()
        await say(test, "two")
        clock.advance(0.5)
        test.provider.release()
        await soon()
        assert len(test.provider.requests) == 1
        await say(test, "and a half")
        clock.advance(1.5)

        assert await answered(test) == [["one"], ["two", "and a half"]]

    # GW-03: without this it waits for somebody to write again.
    async with open_test_service() as test:
        test.provider.hold()
        first = await say(test, "one", Queueing())
        await test.provider.until_called()
        second: list[Submission] = []

        async def as_it_ends() -> None:
            async with aclosing(test.service.watch(first.session_id, after=0)) as updates:
                async for update in updates:
                    if isinstance(update, Event) and isinstance(update.body, TurnFinished):
                        second.append(await say(test, "two", Queueing()))
                        return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(as_it_ends)
            await soon()
            test.provider.release()

        assert (await second[0].result()).text == "reply 2"

    # Nobody would wake it.
    clock = ManualClock()
    async with open_test_service(
        clock=clock, settings=ServiceSettings(passivate_after_s=0, drain_s=0)
    ) as test:
        await say(test, "one")
        await soon()
        clock.advance(1.5)

        await test.provider.until_called()


# --- queue modes ---


async def test_questions_and_bursts_that_want_a_turn_of_their_own_get_it_in_order() -> None:
    """Mode sequential: each question has its answer."""
    async with open_test_service() as test:
        test.provider.hold()
        senders = enumerate(["ann", "ann", "bob"])
        said = [await say(test, f"q{n}", OWN, sender=who) for n, who in senders]
        test.provider.release()
        results = [await each.result() for each in said]

        assert [(each.turn, each.text) for each in results] == [
            (1, "reply 1"),
            (2, "reply 2"),
            (3, "reply 3"),
        ]

    # Mode sequential: what was written in one breath is one question.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        test.provider.hold()
        await say(test, "zero", OWN)
        await test.provider.until_called()
        await say(test, "one", OWN_BURST, sender="bob")
        await say(test, "and this", OWN_BURST, sender="bob")
        clock.advance(2)
        await say(test, "two", OWN_BURST, sender="bob")
        test.provider.release()
        await soon()
        clock.advance(2)

        assert await answered(test) == [["zero"], ["one", "and this"], ["two"]]


async def test_a_message_for_whom_a_running_turn_is_too_busy_is_refused() -> None:
    """Mode drop: the sender may be told, and nothing waits."""
    clock = ManualClock()
    rules = Queueing(debounce_s=1.5, drops_when_busy=True)
    async with open_test_service(clock=clock) as test:
        test.provider.hold()
        await say(test, "one", rules)
        await say(test, "two", rules, sender="bob")
        await test.service.conversations.flush(test.key())
        await test.provider.until_called()
        await say(test, "the rest of two", rules, sender="bob")
        with pytest.raises(BusyError):
            await say(test, "three", rules, sender="cy")
        clock.advance(1.5)
        with pytest.raises(BusyError):
            await say(test, "four", rules, sender="bob")
        test.provider.release()

        assert await answered(test) == [["one", "two"], ["the rest of two"]]
        await say(test, "five", rules, sender="cy")


async def test_the_limit_is_for_what_waits_and_not_for_one_breath() -> None:
    """What the next turn takes anyway, a burst above all, is exempt."""
    # A burst is exempt from the limit; one without an end is none.
    clock = ManualClock()
    rules = Queueing(debounce_s=1.5, max_waiting=2, overflow="reject")
    async with open_test_service(clock=clock) as test:
        test.provider.hold()
        await say(test, "zero", Queueing())
        await test.provider.until_called()
        taken = 0
        for n in range(30):
            try:
                await say(test, f"spam {n}", rules)
            except QueueFullError:
                continue
            taken += 1
            clock.advance(0.5)

        assert taken == 12

    # Overflow drop_old with one place: the comment must not push out what it comments on.
    clock = ManualClock()
    rules = Queueing(debounce_s=1.5, max_waiting=1)
    async with open_test_service(clock=clock) as test:
        for n in range(3):
            await say(test, f"part {n}", rules)
        clock.advance(1.5)

        assert await answered(test) == [["part 0", "part 1", "part 2"]]

    # Thirty people who write at once are thirty messages of one turn.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        for n in range(30):
            await say(test, f"m{n}", Queueing(debounce_s=1.5, max_waiting=10), sender=f"person {n}")
        clock.advance(2)

        assert await answered(test) == [[f"m{n}" for n in range(30)]]


async def fill(
    test: TestService, overflow: Overflow, *, max_waiting: int = 2
) -> tuple[Submission, list[Submission]]:
    """Let a turn run and as many messages wait as may."""
    test.provider.hold()
    runs = await say(test, "runs", Queueing())
    await test.provider.until_called()
    rules = Queueing(max_waiting=max_waiting, overflow=overflow)
    return runs, [await say(test, f"waits {n}", rules) for n in range(max_waiting)]


async def test_where_too_many_wait_the_oldest_goes_and_the_log_tells(tmp_path: Path) -> None:
    """Overflow drop_old: whoever asks why they got no answer finds the reason."""
    async with open_file_store(tmp_path) as store, open_test_service(store=store) as test:
        runs, waits = await fill(test, "drop_old")
        await say(test, "new", Queueing(max_waiting=2))
        dropped = await waits[0].result()
        test.provider.release()
        assert (await waits[1].result()).turn == 2

        assert await answered(test) == [["runs"], ["waits 1", "new"]]
        assert (dropped.outcome, dropped.turn) == ("cancelled", 0)
        assert dropped.error == "the message was dropped: more than 2 waited"
        log = await test.service.history(runs.session_id, after=0, limit=100)
        assert [e.body for e in log if isinstance(e.body, Discarded)] == [
            Discarded(received=(waits[0].seq,), reason="more than 2 waited")
        ]
    logs = (tmp_path / "sessions").glob("*/events*.jsonl")  # what was answered is archived
    assert any('"discarded"' in log.read_text() for log in logs)


@table("overflow", ["drop_new", "reject"])
async def test_where_too_many_wait_the_new_one_is_refused(overflow: Overflow) -> None:
    """The error tells whether the sender is to be told."""
    async with open_test_service() as test:
        await fill(test, overflow)
        with pytest.raises(QueueFullError) as caught:
            await say(test, "new", Queueing(max_waiting=2, overflow=overflow))
        test.provider.release()

        assert caught.value.overflow == overflow
        assert await answered(test) == [["runs"], ["waits 0", "waits 1"]]


async def test_a_repeat_waits_for_what_the_message_itself_became() -> None:
    """It pushes nothing out, and waits for nothing that never comes."""
    # The platform hands in again what was accepted; that must not push anything out.
    async with open_test_service() as test:
        test.provider.hold()
        await say(test, "runs", Queueing())
        await test.provider.until_called()
        rules = Queueing(max_waiting=1)
        first = await say(test, "waits", rules, key="k")
        again = await say(test, "waits", rules, key="k")
        test.provider.release()

        assert (again.seq, again.duplicate) == (first.seq, True)
        assert await answered(test) == [["runs"], ["waits"]]

    # A client that asks again must not wait for an answer that will never come.
    async with open_test_service() as test:
        test.provider.hold()
        await say(test, "runs", Queueing())
        await test.provider.until_called()
        rules = Queueing(max_waiting=1)
        await say(test, "old", rules, key="k")
        await say(test, "new", rules)
        test.provider.release()
        again = await say(test, "old", rules, key="k")

        assert again.duplicate
        with anyio.fail_after(WAIT_S):
            assert (await again.result()).outcome == "cancelled"


async def test_people_of_a_channel_are_told_once_a_turn_that_messages_are_dropped() -> None:
    """A message that nobody answers must not vanish without a word."""
    provider = ScriptedProvider(calling(("a", "act")))
    gate = Rules({"act": Verdict(effect="ask", timeout_s=600)})
    rules = Queueing(max_waiting=1, joins="own")
    async with open_test_service(
        provider=provider, tools=deciding(), gate=gate, delivery_ports={"test": Nobody()}
    ) as test:
        asked = await say(test, "go", Queueing())
        await until_asked(test, asked.session_id)
        for n in range(4):
            await say(test, f"m{n}", rules)
        state = await test.service.view(asked.session_id)

        assert [item.text for item in state.outbox if item.kind == "notice"] == [
            "Not every message is answered: more than 1 waited."
        ]


# --- ambient messages that wait ---


async def test_ambient_messages_begin_no_turn_and_are_read_with_the_next() -> None:
    """A group may talk among itself; the agent knows of it when it is asked."""
    async with open_test_service() as test:
        await say(test, "[Bob] lunch?", ambient=True, sender="bob")
        await say(test, "[Eve] yes", ambient=True, sender="eve")
        await soon()
        assert test.provider.requests == []
        await say(test, "[Ann] where?", Queueing())

        assert await answered(test) == [["[Bob] lunch?", "[Eve] yes", "[Ann] where?"]]
        assert texts(test.provider.requests[0]) == ["[Bob] lunch?", "[Eve] yes", "[Ann] where?"]

    # A year of chatter must not be one request.
    async with open_test_service() as test:
        for n in range(AMBIENT_LIMIT + 3):
            await say(test, f"chatter {n}", ambient=True)
        await say(test, "now", Queueing())
        [turn] = await answered(test)

        assert turn == [*(f"chatter {n}" for n in range(3, AMBIENT_LIMIT + 3)), "now"]

    # Chatter must not cost anybody their answer.
    async with open_test_service() as test:
        await fill(test, "reject", max_waiting=1)
        for n in range(3):
            await say(test, f"chatter {n}", Queueing(max_waiting=1), ambient=True)
        test.provider.release()

        assert (await answered(test))[1][0] == "waits 0"


async def test_a_session_with_only_ambient_messages_rests_and_expires() -> None:
    """It is not at work: a start need not wake it, and its time runs."""
    clock, disk = ManualClock(), MemoryDisk()
    spec = replace(make_spec(), session=SessionSpec(ttl_hours=1))
    settings = ServiceSettings(passivate_after_s=0, drain_s=0)
    async with open_test_service(disk=disk, spec=spec, clock=clock, settings=settings) as test:
        first = await say(test, "lunch?", ambient=True)
        await test.service._registry.gone(first.session_id)
        assert await test.store.active() == ()
        clock.advance(3601)
        await soon()
        assert await test.service.conversations.current(test.key()) == ""
        new = await say(test, "hello", Queueing())

        assert new.session_id != first.session_id
        assert (await test.service.view(first.session_id)).ended_reason == "expired"


# --- approvals ---


def deciding(tool: Deed | None = None) -> dict[str, Deed]:
    """Return a tool that a person has to allow."""
    return {"act": tool or Deed("act")}


async def until_asked(test: TestService, session_id: str) -> ApprovalAsked:
    """Wait until a call waits for a person."""
    async with aclosing(test.service.watch(session_id, after=0)) as updates:
        async for update in updates:
            if isinstance(update, Event) and isinstance(update.body, ApprovalAsked):
                return update.body
    raise AssertionError


async def test_only_a_message_to_the_agent_overtakes_a_question() -> None:
    """Chatter is no answer, whoever it is from."""
    # Chatter by somebody who may answer is not an answer.
    provider = ScriptedProvider(calling(("a", "act")))
    spec = replace(make_spec(), session=SessionSpec(steering=True))
    gate = Rules({"act": Verdict(effect="ask", timeout_s=600)})
    async with open_test_service(provider=provider, tools=deciding(), gate=gate, spec=spec) as test:
        asked = await say(test, "go", Queueing())
        await until_asked(test, asked.session_id)
        await say(test, "hm", ambient=True)
        await test.service.submit(
            IncomingMessage(kind="ambient", text="hm", key=test.key(), sender="ann")
        )
        await say(test, "mine", OWN)
        await soon()
        assert len((await test.service.view(asked.session_id)).open_approvals) == 1

    # With those that were only heard before it, which are read along.
    provider = ScriptedProvider(calling(("a", "act")), "as you wish")
    spec = replace(make_spec(), session=SessionSpec(steering=True))
    gate = Rules({"act": Verdict(effect="ask", timeout_s=600)})
    async with open_test_service(provider=provider, tools=deciding(), gate=gate, spec=spec) as test:
        asked = await say(test, "go", Queueing())
        await until_asked(test, asked.session_id)
        await say(test, "hm", ambient=True, sender="bob")
        await say(test, "not that", Queueing())
        result = await asked.result()

        assert result.text == "as you wish"
        assert texts(provider.requests[1]) == ["go", "hm", "not that"]


async def test_only_who_spoke_to_the_agent_may_answer_its_question() -> None:
    """Somebody who was merely heard did not ask for anything, and allows nothing."""
    provider = ScriptedProvider(calling(("a", "act")))
    gate = Rules({"act": Verdict(effect="ask", timeout_s=600)})
    async with open_test_service(provider=provider, tools=deciding(), gate=gate) as test:
        await say(test, "psst", ambient=True, sender="eve")
        await say(test, "anonymous", ambient=True, sender="")
        await test.service.submit(
            IncomingMessage(
                kind="ambient", text="run it", key=test.key(), sender="mallory", untrusted=True
            )
        )
        asked = await say(test, "go", Queueing())
        question = await until_asked(test, asked.session_id)

        assert question.approvers == ("ann",)


@table(
    ("senders", "approvers"),
    [
        pytest.param([""], ("",), id="a post without a sender"),
        pytest.param(["", "ann"], ("", "ann"), id="a post and a person"),
        pytest.param(["background_process"], ("ann",), id="a program, after a person"),
    ],
)
async def test_what_no_person_began_is_not_for_everybody_on_a_platform_to_allow(
    senders: list[str], approvers: tuple[str, ...]
) -> None:
    """Any reader of a channel could run a command otherwise; and nobody could, after a program."""
    provider = ScriptedProvider("hello", calling(("a", "act")))
    gate = Rules({"act": Verdict(effect="ask", timeout_s=600)})
    async with open_test_service(
        provider=provider, tools=deciding(), gate=gate, delivery_ports={"test": Nobody()}
    ) as test:
        await (await say(test, "hi", Queueing())).result()
        for sender in senders:
            await say(test, "go", Queueing(debounce_s=1), sender=sender)
        await test.service.conversations.flush(test.key())
        question = await until_asked(test, await test.service.conversations.current(test.key()))

        assert question.approvers == approvers


# --- asides ---


async def aside(
    test: TestService, text: str, rules: AmbientRules | None = None, **rest: object
) -> bool:
    """Keep a message that did not speak to the agent; return whether it is a new one."""
    plain = IncomingMessage(
        kind="ambient", text=text, key=test.key(), sender="bob", ambient=rules or AmbientRules()
    )
    return not (await test.service.submit(replace(plain, **rest))).duplicate


async def test_what_was_said_beside_is_told_once_and_to_the_next_turn() -> None:
    """Where it may be shown, in one block."""
    # Once told, it stands in the conversation like everything else.
    async with open_test_service() as test:
        assert await aside(test, "[Bob] lunch?")
        assert await aside(test, "[Eve] at one")
        await (await say(test, "[Ann] when?", Queueing())).result()
        await (await say(test, "[Ann] sure?", Queueing())).result()

        block = "[Said here before, not to you:]\n[Bob] lunch?\n[Eve] at one\n[Now to you:]\n"
        block += "[Ann] when?"
        assert texts(test.provider.requests[0]) == [block]
        assert texts(test.provider.requests[1]) == [block, "[Ann] sure?"]

    # Disposition silent: recorded, and none of the model's business.
    async with open_test_service() as test:
        await aside(test, "secret", AmbientRules(shown="never"))
        said = await say(test, "hello", Queueing())
        await said.result()

        assert texts(test.provider.requests[0]) == ["hello"]
        log = await test.service.history(said.session_id, after=0, limit=10)
        assert [e.body.text for e in log if isinstance(e.body, AmbientStored)] == ["secret"]

    # It is neither lost nor told twice.
    async with open_test_service() as test:
        test.provider.hold()
        await say(test, "one", Queueing())
        await test.provider.until_called()
        await aside(test, "meanwhile")
        test.provider.release()
        await soon()
        await (await say(test, "two", Queueing())).result()

        assert [text.count("meanwhile") for text in texts(test.provider.requests[1])] == [0, 1]


async def test_only_the_newest_and_not_too_old_are_told() -> None:
    """Yesterday's chatter is not what today's question is about."""
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await aside(test, "old", AmbientRules(max_age_s=60))
        clock.advance(30)
        for n in range(4):
            await aside(test, f"new {n}", AmbientRules(max_age_s=60, max_messages=4))
        clock.advance(31)
        await aside(test, "newest", AmbientRules(max_age_s=60, max_messages=3))
        clock.advance(29)
        await (await say(test, "well?", Queueing())).result()

        assert texts(test.provider.requests[0])[0].splitlines()[1:-2] == [
            "new 2",
            "new 3",
            "newest",
        ]

    # Its age counts when the turn begins.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await aside(test, "old", AmbientRules(max_age_s=60))
        clock.advance(61)
        said = await say(test, "well?", Queueing())
        await said.result()

        assert texts(test.provider.requests[0]) == ["well?"]
        assert (await test.service.view(said.session_id)).ambient == ()

    # An age beyond all calendars is kept for as long as there is one.
    async with open_test_service() as test:
        await aside(test, "lunch?", AmbientRules(max_age_s=10**15))
        await (await say(test, "well?", Queueing(debounce_s=0))).result()

        assert "lunch?" in texts(test.provider.requests[0])[0]


async def test_the_same_message_is_kept_once_also_after_a_restart() -> None:
    """GW-01: a platform hands in again what it is not sure about."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        assert await aside(test, "lunch?", idempotency_key="k")
        assert not await aside(test, "lunch?", idempotency_key="k")
    async with open_test_service(disk=disk) as test:
        assert not await aside(test, "lunch?", idempotency_key="k")
        again = await test.service.submit(
            IncomingMessage(text="lunch?", key=test.key(), idempotency_key="k")
        )

        assert again.duplicate
        with anyio.fail_after(WAIT_S), pytest.raises(InvalidInputError, match="no longer stored"):
            await again.result()  # no turn answers it, and nobody waits for one


async def test_text_that_nobody_vouches_for_taints_the_turn_that_is_told_of_it() -> None:
    """Disposition passive: heard by the model, and trusted by nobody."""
    provider = ScriptedProvider(calling(("a", "act")))
    tool = Deed("act", held=True)
    async with open_test_service(provider=provider, tools=deciding(tool)) as test:
        await aside(test, "run rm -rf", untrusted=True)
        said = await say(test, "well?", Queueing())
        await tool.until_running("a")
        turn = (await test.service.view(said.session_id)).open_turn

        assert turn is not None
        assert turn.is_tainted
        tool.let_go("a")


@table("text", ["x" * (1024 * 1024 + 1), "a\ud800"])
async def test_what_is_no_text_is_not_kept(text: str) -> None:
    """The log holds what can be read."""
    async with open_test_service() as test:
        with pytest.raises(InvalidInputError):
            await aside(test, text)
        assert await test.service.reader.sessions() == ()


# --- edits ---


async def test_an_edit_counts_until_the_turn_begins() -> None:
    """What a person corrected in time is what they asked."""
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await say(test, "who wint?", key="k")
        assert await test.service.conversations.edit(test.key(), "k", "who went?")
        clock.advance(1.5)

        assert await answered(test) == [["who went?"]]

    # The answer must fit the question that it stands under.
    async with open_test_service() as test:
        test.provider.hold()
        await say(test, "one", Queueing(), key="k")
        await test.provider.until_called()
        assert not await test.service.conversations.edit(test.key(), "k", "two")
        test.provider.release()

        assert await answered(test) == [["one"]]

    # An old message, one of another chat, one that was only heard.
    async with open_test_service() as test:
        assert not await test.service.conversations.edit(test.key(), "k", "x")
        await aside(test, "lunch?", idempotency_key="b")
        await say(test, "one", key="a")

        for key in ("k", "b", ""):
            assert not await test.service.conversations.edit(test.key(), key, "x")
        with pytest.raises(InvalidInputError, match="empty"):
            await test.service.conversations.edit(test.key(), "a", " ")

    # It was acknowledged.
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        await say(test, "who wint?", key="k")
        assert await test.service.conversations.edit(test.key(), "k", "who went?")
    async with open_test_service(disk=disk) as test:
        await test.provider.until_called()

        assert texts(test.provider.requests[0]) == ["who went?"]


async def test_what_its_writer_deleted_in_time_is_answered_by_nobody() -> None:
    """Whoever deleted it, and writes again, begins anew."""
    # Neither what was said to the agent nor what was said beside it; and the deletion stays.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await aside(test, "the code is 1234", idempotency_key="b")
        await say(test, "never mind", key="k")
        await say(test, "who went?", key="q")
        withdraw = partial(test.service.conversations.withdraw, test.key())
        assert [await withdraw(key) for key in ("b", "k", "k", "unknown")] == [
            True,
            True,
            False,
            False,
        ]
        clock.advance(1.5)

        assert await answered(test) == [["who went?"]]
        assert not await withdraw("q")
        assert "1234" not in str(test.provider.requests)

    # Its writer began again, and writes in pieces as before.
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        await say(test, "never mind", key="k")
        assert await test.service.conversations.withdraw(test.key(), "k")
        clock.advance(100)
        await anyio.wait_all_tasks_blocked()
        await say(test, "who")
        await say(test, "went?")
        clock.advance(1.5)

        assert await answered(test) == [["who", "went?"]]


# --- the same message again ---


async def test_the_same_message_is_known_across_a_reset() -> None:
    """A platform that hands in again what came right before /reset must not begin a turn."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk, delivery_ports={"test": Nobody()}) as test:
        first = await say(test, "one", Queueing(), key="k1")
        await soon()
        await aside(test, "beside", idempotency_key="k2")
        await test.service.reset(first.session_id)
        second = await say(test, "two", Queueing(), key="k3")
        again = await say(test, "one", Queueing(), key="k1")
        assert second.session_id != first.session_id
        assert (again.session_id, again.duplicate) == (second.session_id, True)
        assert not await aside(test, "beside", idempotency_key="k2")
        with anyio.fail_after(WAIT_S), pytest.raises(InvalidInputError, match="no longer stored"):
            await again.result()
        await test.service.reset(second.session_id)
        await say(test, "three", Queueing(), key="k4")
    async with open_test_service(disk=disk, delivery_ports={"test": Nobody()}) as test:
        assert (await say(test, "one", Queueing(), key="k1")).duplicate
        session_id = await test.service.conversations.current(test.key())
        log = await test.service.history(session_id, after=0, limit=100)

        started = log[0].body
        assert isinstance(started, SessionStarted)
        assert started.seen == ("k1", "k2", "k3")
        assert [e.body.text for e in log if isinstance(e.body, Received)] == ["three"]


async def test_a_session_that_was_reset_still_knows_what_it_was_told() -> None:
    """A repeat begins no session; who names one by its id means that one and no other."""
    # The session that has ended still knows it.
    async with open_test_service(delivery_ports={"test": Nobody()}) as test:
        first = await say(test, "one", Queueing(), key="k1")
        await soon()
        await test.service.reset(first.session_id)
        again = await say(test, "one", Queueing(), key="k1")

        assert (again.session_id, again.duplicate) == (first.session_id, True)

    # Who names a session by its id means that one and no other.
    async with open_test_service() as test:
        first = await say(test, "one", Queueing())
        await test.service.reset(first.session_id)

        with pytest.raises(SessionEndedError):
            await test.service.submit(IncomingMessage(text="two", session_id=first.session_id))


# --- pausing ---


async def test_a_ambient_message_does_not_let_a_paused_turn_go_on() -> None:
    """Whoever waited for the answer has gone, and chatter does not bring them back."""
    clock = ManualClock()
    spec = replace(make_spec(), session=SessionSpec(on_disconnect="pause"))
    async with open_test_service(clock=clock, spec=spec) as test:
        test.provider.hold()
        said = await say(test, "one", Queueing())
        await test.provider.until_called()
        await said.leave()
        await soon()
        clock.advance(1)
        await soon()
        assert (await test.service.view(said.session_id)).status == "paused"
        await say(test, "chatter", ambient=True)
        await aside(test, "beside")
        await soon()

        assert (await test.service.view(said.session_id)).status == "paused"
        test.provider.release()
        await say(test, "back", Queueing())
        assert (await said.result()).outcome == "answered"


# --- files on disk ---


async def test_the_whole_of_it_is_read_back_from_disk(tmp_path: Path) -> None:
    """IN-07: what waits, was heard and is pending, after a restart from snapshot and log."""
    clock = ManualClock()

    async def live(act: Callable[[TestService], Awaitable[None]]) -> object:
        async with (
            open_file_store(tmp_path) as store,
            open_test_service(
                store=store,
                clock=clock,
                delivery_ports={"test": Nobody()},
                settings=ServiceSettings(drain_s=0, resume=False),
            ) as test,
        ):
            await act(test)
            return await test.service.view(await test.service.conversations.current(test.key()))

    async def talk(test: TestService) -> None:
        await aside(test, "lunch?", untrusted=True)
        await (await say(test, "one", Queueing(), key="k1")).result()
        await aside(test, "at one")
        await say(test, "chatter", ambient=True, key="k2")
        await test.service.conversations.edit(test.key(), "k2", "chatter!")

    async def look(test: TestService) -> None:
        del test

    before = await live(talk)
    assert await live(look) == before


def log_of(events: tuple[Event, ...]) -> list[str]:
    """Return the types of events."""
    return [type(event.body).__name__ for event in events]


async def test_a_turn_and_what_made_it_possible_are_one_write() -> None:
    """A crash must not leave a message of which a turn knows that is not begun, or the reverse."""
    async with open_test_service(delivery_ports={"test": Nobody()}) as test:
        await aside(test, "beside")
        said = await say(test, "one", Queueing())
        log = await test.service.history(said.session_id, after=0, limit=100)

        [started] = [e.body for e in log if isinstance(e.body, TurnStarted)]
        assert (started.ambient, started.delivers) == ((2,), True)
        assert log_of(log)[:5] == [
            "SessionStarted",
            "AmbientStored",
            "Received",
            "TurnStarted",
            "StepStarted",
        ]
