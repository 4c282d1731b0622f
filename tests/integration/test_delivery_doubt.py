"""What may have arrived stays pending until the platform says yes or no, or as long as is set."""

from __future__ import annotations

from datetime import timedelta

from support.delivering import Delivering, delivering, idle
from support.scripted_adapter import Platform, ScriptedAdapter
from support.tables import table

from everturn_actors.events import ChunkMarked
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import UserMessage
from everturn_actors.testing import ManualClock
from everturn_channels.errors import NotSentError, RefusedError, SendError, UnknownOutcomeError
from everturn_channels.settings import ChannelSettings

HOUR_S = 3600.0
CUT = UnknownOutcomeError("cut")


async def pass_time(test: Delivering, seconds: float, *, step_s: float = 600) -> None:
    """Let the clock go on in steps, and everybody do what falls due in each."""
    end = test.clock.now() + timedelta(seconds=seconds)
    while test.clock.now() < end:
        await idle()
        test.clock.advance(min(step_s, (end - test.clock.now()).total_seconds()))
    await idle()


async def marks(test: Delivering, session_id: str) -> list[str]:
    """Return the marks of all chunks, in the order of the log."""
    return [e.body.mark for e in await test.log(session_id) if isinstance(e.body, ChunkMarked)]


async def test_a_reply_survives_any_number_of_unknown_outcomes() -> None:
    """Two answers that were lost, half a minute apart, cost a finished reply before."""
    async with delivering("fine") as test:
        test.adapter.fail("send", *[CUT] * 7)
        said = await test.say()
        await pass_time(test, 300, step_s=1)
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["(again) fine"]
        assert (await marks(test, said.session_id)).count("unknown") == 7


async def test_each_repeat_says_so_and_their_number_is_bounded() -> None:
    """A platform that shows everything and confirms nothing must not fill a chat in a day."""
    async with delivering("fine") as test:
        test.adapter.fail("send", *[CUT] * 1_000, when="after")
        said = await test.say()
        await pass_time(test, 25 * HOUR_S, step_s=300)

        texts = test.adapter.world.texts
        assert texts.count("fine") == 1
        assert 30 < texts.count("(again) fine") < 100
        [told] = [each for each in texts if "fine" not in each and "(again)" not in each]
        assert told.startswith("~A reply from 2026-01-02 03:04 UTC could not be delivered.")
        assert told.endswith("It may have come all the same.")
        assert (await marks(test, said.session_id)).count("given_up") == 1


async def test_pauses_grow_while_nothing_is_heard() -> None:
    """An outage is not met with a storm of calls, and one lost answer costs two seconds."""
    async with delivering("fine") as test:
        test.adapter.fail("send", *[CUT] * 5)
        said = await test.say()
        for expected_s in (2, 4, 8, 16, 32):
            await test.clock.until_sleeping(expected_s)
            calls = len(test.adapter.calls)
            test.clock.advance(expected_s - 0.1)
            await idle()
            assert len(test.adapter.calls) == calls
            test.clock.advance(0.1)
        await test.until_delivered(said.session_id)


async def test_what_waits_for_a_person_is_not_tried_again_and_again() -> None:
    """Each try is written down, and a person may stay away for days; others are no reason."""
    waits = NotSentError("a day is over", waits_for_person=True)
    async with delivering("fine") as test:
        test.adapter.fail("send", *[waits] * 99)
        said = await test.say()
        for _ in range(3):
            await pass_time(test, HOUR_S, step_s=600)
            test.limiter.heard(answer=True)
        tries = (await marks(test, said.session_id)).count("unsent")
        test.adapter.mend()
        test.limiter.stop_backing_off()
        await test.until_delivered(said.session_id)

    assert 2 <= tries <= 4


async def test_another_chat_that_is_reached_ends_the_pause() -> None:
    """Any answer of the platform counts: what waits for it goes at once."""
    async with delivering() as test:
        test.adapter.fail("send", *[CUT] * 9)
        one = await test.say(chat="one")
        await pass_time(test, 600, step_s=1)
        assert test.adapter.world.texts == []

        test.adapter.mend()
        other = await test.say(chat="other")
        await test.until_delivered(other.session_id)
        await test.until_delivered(one.session_id)

        assert test.adapter.world.texts == ["reply 2", "(again) reply 1"]


@table(
    ("error", "expected"),
    [
        (CUT, "It may have come all the same."),
        (NotSentError("offline"), ""),
    ],
)
async def test_what_is_given_up_is_told_to_people_and_to_the_model(
    error: SendError, expected: str
) -> None:
    """Nothing that was accepted ends in silence."""
    settings = ChannelSettings(streaming=False, give_up_after_s=6 * HOUR_S)
    async with delivering("fine", "again", settings=settings) as test:
        test.adapter.fail("send", *[error] * 10_000)
        said = await test.say()
        await pass_time(test, 5 * HOUR_S)
        assert "given_up" not in await marks(test, said.session_id)
        await pass_time(test, 2 * HOUR_S)
        assert (await marks(test, said.session_id)).count("given_up") == 1
        assert test.counter.given_up == 1
        assert test.adapter.world.texts == []

        test.adapter.mend()
        await pass_time(test, HOUR_S)
        [told] = test.adapter.world.texts
        assert "~A reply from 2026-" in told
        assert "could not be delivered." in told
        assert told.endswith(expected or "delivered.")

        await test.until_delivered(said.session_id)
        await (await test.say("are you there?")).result()
        users = [m for m in test.provider.requests[-1].messages if isinstance(m, UserMessage)]
        assert "your reply from 2026-" in users[-1].text.lower()
        assert users[-1].text.endswith("are you there?")


async def test_several_that_are_given_up_are_told_of_in_one_message() -> None:
    """A day of outage must not end in a flood."""
    settings = ChannelSettings(streaming=False, give_up_after_s=2 * HOUR_S)
    async with delivering(settings=settings) as test:
        test.adapter.fail("send", *[NotSentError("offline")] * 100_000)
        said = await test.say()
        await said.result()
        for number in range(7):
            await (await test.say(str(number))).result()
        await pass_time(test, 4 * HOUR_S, step_s=60)
        test.adapter.mend()
        await pass_time(test, HOUR_S)
        await test.until_delivered(said.session_id)

        text = "".join(test.adapter.world.texts)
        assert text.count("A reply from") + text.count("More than that") >= 2
        assert len(test.adapter.world.texts) <= 5


async def test_what_is_given_up_counts_from_when_it_was_owed_across_restarts() -> None:
    """A gateway that is started every hour would otherwise try for ever."""
    disk, platform, clock = MemoryDisk(), Platform(), ManualClock()
    settings = ChannelSettings(streaming=False, give_up_after_s=6 * HOUR_S)
    session_id = ""
    for life in range(8):
        adapter = ScriptedAdapter(platform)
        adapter.fail("send", *[CUT] * 10_000)
        async with (
            open_memory_store(disk) as store,
            delivering(
                "fine", adapter=adapter, store=store, clock=clock, settings=settings
            ) as test,
        ):
            if not life:
                session_id = (await test.say()).session_id
            else:
                assert await test.service.conversations.current(test.key()) == session_id
                await test.state(session_id)
            await pass_time(test, HOUR_S, step_s=60)
            said = await marks(test, session_id)
            assert ("given_up" in said) == (life >= 6), life


async def test_a_gateway_that_was_down_for_days_still_delivers() -> None:
    """Only who tried for so long gives up: the time that it did not run does not count alone."""
    disk, platform, clock = MemoryDisk(), Platform(), ManualClock()
    adapter = ScriptedAdapter(platform)
    adapter.fail("send", *[NotSentError("offline")] * 10_000)
    async with (
        open_memory_store(disk) as store,
        delivering("fine", adapter=adapter, store=store, clock=clock) as test,
    ):
        session_id = (await test.say()).session_id
        await pass_time(test, 60, step_s=1)
    clock.advance(5 * 86_400)
    adapter = ScriptedAdapter(platform)
    adapter.fail("send", *[NotSentError("not connected yet")] * 5)
    async with (
        open_memory_store(disk) as store,
        delivering(adapter=adapter, store=store, clock=clock) as test,
    ):
        await test.state(session_id)
        await pass_time(test, 60, step_s=1)
        await test.until_delivered(session_id)

    assert platform.texts == ["fine"]


async def test_a_message_in_doubt_holds_up_what_is_said_later_for_minutes_only() -> None:
    """One message that the platform never confirms must not silence a chat for a day."""

    class Picky(ScriptedAdapter):
        async def send(self, message: object) -> str:
            if getattr(message, "payload", "") == "bad":
                raise CUT
            return await super().send(message)  # type: ignore[arg-type]

    async with delivering("bad", "good", "better", adapter=Picky()) as test:
        said = await test.say()
        await said.result()
        await (await test.say("more")).result()

        async def hear() -> None:  # other chats are answered meanwhile
            other = await test.say("hello", chat="other")
            await test.until_delivered(other.session_id)

        await pass_time(test, 100, step_s=1)
        await hear()
        await pass_time(test, 100, step_s=1)
        assert test.adapter.world.chat("chat") == []
        for _ in range(3):
            await hear()
            await pass_time(test, 100, step_s=1)

        assert test.adapter.world.chat("chat") == ["good"]


async def test_in_an_outage_nothing_is_overtaken() -> None:
    """Where nothing gets through, order costs nothing: it is kept however long it takes."""
    async with delivering("one", "two", "three") as test:
        test.adapter.fail("send", *[NotSentError("offline")] * 10_000)
        said = await test.say()
        await said.result()
        for text in ("2", "3"):
            await (await test.say(text)).result()
        await pass_time(test, 2 * HOUR_S, step_s=30)
        test.adapter.mend()
        await pass_time(test, 300, step_s=1)
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["one", "two", "three"]


async def test_a_definite_no_is_no_doubt() -> None:
    """Who blocked the bot is not tried for a day."""
    async with delivering("fine") as test:
        test.adapter.fail("send", CUT, RefusedError("blocked", is_chat_gone=True))
        said = await test.say()
        await pass_time(test, 10, step_s=1)
        await test.until_delivered(said.session_id)

        assert (await marks(test, said.session_id))[-1] == "failed"
        assert test.adapter.world.texts == []
