"""What a caller learns of the turn that answered: whether it had read text from outside."""

from __future__ import annotations

import anyio
from msgspec.structs import replace
from support.patience import WAIT_S
from support.tables import table
from support.tool_doubles import Deed

from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import AmbientRules, IncomingMessage, Queueing
from everturn_actors.ports import ToolOutput
from everturn_actors.service import Submission, TurnResult
from everturn_actors.spec import ModelSpec
from everturn_actors.testing import (
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
)

OWN = Queueing(joins="own")


def page(*, untrusted: bool, held: bool = False) -> Deed:
    """Return a tool that reads a page."""
    output = ToolOutput(text="a page", untrusted=untrusted)
    return Deed("fetch", held=held, gives=lambda _call: output)


async def say(test: TestService, text: str = "go", **rest: object) -> Submission:
    """Hand in a message with a key of its own."""
    inbound = IncomingMessage(text=text, key=test.key(), idempotency_key=text, **rest)  # type: ignore[arg-type]
    return await test.service.submit(inbound)


async def result_of(said: Submission) -> TurnResult:
    """Wait for the end of a turn."""
    with anyio.fail_after(WAIT_S):
        return await said.result()


async def both_ways(test: TestService, said: Submission) -> tuple[bool, bool]:
    """Return what is told to who followed the turn, and to who asks when it is over."""
    followed = await result_of(said)
    again = await say(test)
    assert again.duplicate
    return followed.untrusted, (await result_of(again)).untrusted


@table("untrusted", [False, True])
async def test_a_result_of_a_call_taints_it(*, untrusted: bool) -> None:
    """What a scheduled task found on a page must not be passed on as the agent's own word."""
    provider = ScriptedProvider(calling(("a", "fetch")), "done")
    tool = page(untrusted=untrusted)
    async with open_test_service(provider=provider, tools={"fetch": tool}) as test:
        assert await both_ways(test, await say(test)) == (untrusted, untrusted)


@table("untrusted", [False, True])
async def test_its_own_message_taints_it(*, untrusted: bool) -> None:
    """A job may have been written by a turn that had read such text."""
    async with open_test_service() as test:
        said = await say(test, untrusted=untrusted)

        assert await both_ways(test, said) == (untrusted, untrusted)


@table("untrusted", [False, True])
@table("how", ["aside", "announcement", "message"])
async def test_what_it_is_told_besides_taints_it(how: str, *, untrusted: bool) -> None:
    """It came before the message, whose follower does not see it."""
    async with open_test_service() as test:
        if how == "aside":
            await test.service.submit(
                IncomingMessage(kind="ambient", text="psst", key=test.key(), untrusted=untrusted)
            )
        elif how == "announcement":
            await test.service.submit(
                IncomingMessage(
                    kind="announcement", text="psst", key=test.key(), untrusted=untrusted
                )
            )
        else:
            await say(
                test,
                "psst",
                untrusted=untrusted,
                kind="ambient",
                ambient=AmbientRules(shown="message"),
            )

        assert await both_ways(test, await say(test)) == (untrusted, untrusted)


async def test_text_of_the_turn_before_that_is_still_shown_taints_it() -> None:
    """The page still stands in the request, and may be behind the answer."""
    provider = ScriptedProvider(calling(("a", "fetch")), "done", "and done")
    tool = page(untrusted=True, held=True)
    async with open_test_service(provider=provider, tools={"fetch": tool}) as test:
        before = await say(test, "before")
        await tool.until_running("a")
        said = await say(test, queueing=OWN)
        tool.let_go("a")

        assert (await result_of(before)).untrusted
        assert await both_ways(test, said) == (True, True)


async def test_a_message_that_joins_a_running_turn_shares_its_taint() -> None:
    """What the turn had read before stands behind the answer too."""
    provider = ScriptedProvider(calling(("a", "fetch")), calling(("b", "wait")), "done")
    wait = Deed("wait", held=True)
    tools = {"fetch": page(untrusted=True), "wait": wait}
    async with open_test_service(provider=provider, tools=tools) as test:
        await say(test, "before")
        await wait.until_running("b")
        said = await say(test)
        wait.let_go("b")

        assert await both_ways(test, said) == (True, True)


async def test_one_that_joins_taints_the_turn_of_those_before() -> None:
    """The answer that the first one waits for was made with it."""
    provider = ScriptedProvider(calling(("b", "wait")), "done")
    wait = Deed("wait", held=True)
    async with open_test_service(provider=provider, tools={"wait": wait}) as test:
        said = await say(test)
        await wait.until_running("b")
        await say(test, "beside", untrusted=True)
        wait.let_go("b")

        assert await both_ways(test, said) == (True, True)


async def test_who_comes_back_in_the_middle_learns_it_too() -> None:
    """A scheduler that was restarted asks again for the turn that goes on by itself."""
    disk, tool = MemoryDisk(), page(untrusted=True)
    first = ScriptedProvider(calling(("a", "fetch")))
    first.script.append(calling(("b", "wait")))
    wait = Deed("wait", held=True)
    tools = {"fetch": tool, "wait": wait}
    async with open_test_service(disk=disk, provider=first, tools=tools) as test:
        await say(test)
        await wait.until_running("b")
    second = ScriptedProvider("done")
    second.hold()
    async with open_test_service(disk=disk, provider=second, tools=tools) as test:
        await second.until_called()
        said = await say(test)
        assert said.duplicate
        second.release()

        assert (await result_of(said)).untrusted


async def test_of_a_turn_that_is_long_gone_the_worse_is_told() -> None:
    """What its request held besides is not looked up; nobody may take it for harmless."""
    model = ModelSpec(provider="scripted", name="scripted", context_window=6_000)
    async with open_test_service(spec=replace(make_spec(), model=model)) as test:
        first = await result_of(await say(test))
        for number in range(60):
            await result_of(await say(test, f"message {number}"))
        again = await say(test)

        assert (first.untrusted, again.duplicate) == (False, True)
        assert (await result_of(again)).untrusted


async def test_who_comes_back_is_told_of_what_the_turn_before_had_read() -> None:
    """Its log begins with the message; the page came before, and is shown all the same."""
    provider = ScriptedProvider(calling(("a", "fetch")), "done", calling(("b", "wait")), "and done")
    fetch, wait = page(untrusted=True, held=True), Deed("wait", held=True)
    async with open_test_service(provider=provider, tools={"fetch": fetch, "wait": wait}) as test:
        await say(test, "before")
        await fetch.until_running("a")
        await say(test, queueing=OWN)
        fetch.let_go("a")
        await wait.until_running("b")
        again = await say(test)
        wait.let_go("b")

        assert again.duplicate
        assert (await result_of(again)).untrusted
