"""How many sessions are in memory: bounded, cheaply, and never at the cost of work."""

from __future__ import annotations

import anyio
from support.patience import WAIT_S

from everturn_actors.model import IncomingMessage
from everturn_actors.service import ServiceSettings
from everturn_actors.testing import ScriptedProvider, TestService, open_test_service

LIMIT = ServiceSettings(leave_grace_s=0, drain_s=0, max_active=3)


async def say(test: TestService, chat: str, text: str = "hi") -> str:
    """Submit a message, wait for its answer, return its session."""
    submission = await test.service.submit(IncomingMessage(text=text, key=test.key(chat)))
    result = await submission.result()
    assert result.outcome == "answered"
    return result.session_id


async def until_active(test: TestService, count: int) -> None:
    """Wait until no more than so many actors live."""
    with anyio.fail_after(WAIT_S):
        while (await test.service.activity.load()).active > count:
            await anyio.wait_all_tasks_blocked()


def active(test: TestService) -> list[str]:
    """Return who is in memory, by chat."""
    bound = test.service.conversations._bindings._key_of.values()
    return sorted(key.chat for key in bound)


async def test_beyond_the_limit_the_longest_idle_goes_to_rest() -> None:
    """Ten thousand people who write once a day need not be in memory at the same time."""
    async with open_test_service(settings=LIMIT) as test:
        for chat in ("a", "b", "c"):
            await say(test, chat)
        await say(test, "a")
        await say(test, "d")
        await until_active(test, 3)
        assert active(test) == ["a", "c", "d"]
        for number in range(20):
            await say(test, f"n{number}")
            await until_active(test, 3)
        load = await test.service.activity.load()
        again = await say(test, "b", "still there?")

        assert (load.active, load.max_active) == (3, 3)
        assert (await test.service.view(again)).turns == 2
        assert len(await test.store.active()) <= 4


async def test_a_session_with_work_is_never_cut_short() -> None:
    """The limit is soft: fifty turns at once are fifty actors, and all of them answer."""
    async with open_test_service(settings=LIMIT, provider=ScriptedProvider()) as test:
        test.provider.hold()
        sent = [
            await test.service.submit(IncomingMessage(text="hi", key=test.key(f"c{number}")))
            for number in range(50)
        ]
        await test.provider.until_called(50)
        assert (await test.service.activity.load()).active == 50
        test.provider.release()
        assert {(await each.result()).outcome for each in sent} == {"answered"}
        for number in range(8):  # each that starts looks at a few
            await say(test, f"d{number}")
        await until_active(test, 3)


async def test_a_message_that_meets_a_session_on_its_way_out_is_answered() -> None:
    """Between the decision and the rest somebody may write: nothing of it is lost or doubled."""
    async with open_test_service(settings=LIMIT) as test:
        chats = [f"c{number}" for number in range(12)]
        async with anyio.create_task_group() as tasks:

            async def talk(chat: str) -> None:
                for number in range(15):
                    await say(test, chat, f"message {number}")

            for chat in chats:
                tasks.start_soon(talk, chat)
        for chat in chats:
            session_id = await test.service.conversations.current(test.key(chat))
            assert (await test.service.view(session_id)).turns == 15
