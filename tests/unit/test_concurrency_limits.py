"""How many calls a provider gets at the same time."""

from __future__ import annotations

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from support.patience import WAIT_S

from everturn_actors.errors import ModelTransientError
from everturn_actors.model import ModelRequest, UserMessage
from everturn_actors.testing import ScriptedProvider
from everturn_actors.turn.call_status import listening
from everturn_gateway.providers.limits import ConcurrencyLimits, QueueLoad


def request(text: str) -> ModelRequest:
    """Return a request with this text."""
    return ModelRequest(model="m", system="", messages=(UserMessage(text=text),))


def ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""


def asked(model: ScriptedProvider) -> list[str]:
    """Return the texts that a model was asked, in order."""
    return [m.text for r in model.requests for m in r.messages if isinstance(m, UserMessage)]


async def settle() -> None:
    """Let every task go as far as it gets."""
    await anyio.wait_all_tasks_blocked()


async def test_more_calls_than_the_limit_wait_and_the_longest_is_next() -> None:
    """The limit is of a provider, and its owner may set it for the own machine."""
    # A provider that is small answers all, in the order in which they came.
    model = ScriptedProvider()
    provider = ConcurrencyLimits({"openai": 2}).limited("openai", model)
    model.hold()
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            for text in ("a", "b", "c", "d"):
                tasks.start_soon(provider.complete, request(text), ignore)
                await settle()
            at_first = asked(model)
            model.release()

    assert at_first == ["a", "b"]
    assert asked(model) == ["a", "b", "c", "d"]

    # Models of one provider share its places. The limit is the provider's: it counts requests, not
    # models.
    first, second = ScriptedProvider(), ScriptedProvider()
    places = ConcurrencyLimits({"openai": 1})
    first.hold()
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(places.limited("openai", first).complete, request("a"), ignore)
            await settle()
            tasks.start_soon(places.limited("openai", second).complete, request("b"), ignore)
            await settle()
            at_first = asked(second)
            first.release()

    assert at_first == []
    assert asked(second) == ["b"]

    # The owner may let the own machine do more. Somebody has a server with sixty cores.
    model = ScriptedProvider()
    provider = ConcurrencyLimits({"local": 2}).limited("local", model)
    model.hold()
    async with anyio.create_task_group() as tasks:
        for text in ("a", "b"):
            tasks.start_soon(provider.complete, request(text), ignore)
        await settle()
        at_first = asked(model)
        model.release()

    assert sorted(at_first) == ["a", "b"]


async def test_no_place_is_lost() -> None:
    """A provider would be closed within a week."""
    # Waiting counts against the deadline and takes no place. A caller that gives up must not leave
    # a hole that nobody can fill.
    model = ScriptedProvider()
    provider = ConcurrencyLimits({"openai": 1}).limited("openai", model)
    model.hold()
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.complete, request("a"), ignore)
            await settle()
            with anyio.move_on_after(0) as deadline:
                await provider.complete(request("gives up"), ignore)
            tasks.start_soon(provider.complete, request("b"), ignore)
            await settle()
            model.release()

    assert deadline.cancelled_caught
    assert asked(model) == ["a", "b"]

    # A call that fails or is cut off gives its place back. One failure a day would otherwise close
    # the provider within a week.
    model = ScriptedProvider(ModelTransientError("no"), "held", "fine")
    provider = ConcurrencyLimits({"openai": 1}).limited("openai", model)
    with pytest.raises(ModelTransientError):
        await provider.complete(request("a"), ignore)
    model.hold()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(provider.complete, request("b"), ignore)
        await model.until_called(2)
        tasks.cancel_scope.cancel()
    model.release()
    with anyio.fail_after(WAIT_S):
        reply = await provider.complete(request("c"), ignore)

    assert reply.text == "fine"

    # Who gives up as it gets its place leaves it to the next. Both can be true in one moment; the
    # place must not be lost then.
    model = ScriptedProvider()
    queues = ConcurrencyLimits({"openai": 1})
    provider = queues.limited("openai", model)
    model.hold()
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.complete, request("a"), ignore)
            await settle()
            with anyio.CancelScope() as second:

                async def give_up() -> None:
                    model.release()
                    while queues.loads()[0].waiting == 2:
                        await anyio.lowlevel.checkpoint()
                    second.cancel()

                tasks.start_soon(give_up)
                tasks.start_soon(provider.complete, request("c"), ignore)
                await provider.complete(request("b"), ignore)

    assert asked(model)[0] == "a"
    assert "c" in asked(model)
    assert queues.loads() == (QueueLoad(name="openai", limit=1, running=0, waiting=0),)


async def test_however_many_wait_all_are_served() -> None:
    """A queue that is full would cost its callers their turns."""
    model = ScriptedProvider()
    queues = ConcurrencyLimits({"openai": 1})
    provider = queues.limited("openai", model)
    model.hold()
    async with anyio.create_task_group() as tasks:
        for number in range(1000):
            tasks.start_soon(provider.complete, request(str(number)), ignore)
        await settle()
        at_first = queues.loads()
        model.release()

    assert at_first == (QueueLoad(name="openai", limit=1, running=1, waiting=999),)
    assert asked(model) == [str(number) for number in range(1000)]
    assert queues.loads() == (QueueLoad(name="openai", limit=1, running=0, waiting=0),)


async def test_calls_that_nobody_waits_for_let_others_go_first() -> None:
    """A summary has time; a person who wrote has not."""
    model = ScriptedProvider()
    provider = ConcurrencyLimits({"openai": 1}).limited("openai", model)
    model.hold()
    async with anyio.create_task_group() as tasks:
        for text, in_background in (("a", False), ("s", True), ("t", True), ("b", False)):
            asking = replace(request(text), in_background=in_background)
            tasks.start_soon(provider.complete, asking, ignore)
            await settle()
        model.release()

    assert asked(model) == ["a", "b", "s", "t"]


async def test_waits_are_told_to_who_measures_and_to_who_waits() -> None:
    """An operator sees the queue, and a person why nothing comes."""
    model, waits, told = ScriptedProvider(), list[str](), list[str]()
    queues = ConcurrencyLimits({"openai": 1}, lambda queue, _s: waits.append(queue))
    provider = queues.limited("openai", model)

    async def ask() -> None:
        with listening(told.append):
            await provider.complete(request("b"), ignore)

    model.hold()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(provider.complete, request("a"), ignore)
        await settle()
        tasks.start_soon(ask)
        await settle()
        at_first = list(told)
        model.release()

    assert waits == ["openai", "openai"]
    (why, *then) = told
    assert at_first == [why]
    assert why.startswith("a free place for a call to openai: 1 are under way")
    assert why.endswith("(providers.openai.max_concurrent)")
    assert then == [""]


def test_an_address_has_its_limit_and_the_own_machine_too() -> None:
    """A connection is needed for each call; two models here would halve each other's speed."""
    model = ScriptedProvider()
    queues = ConcurrencyLimits({"openrouter": 3})
    limited = [
        queues.limited("openai", model, "https://one.example"),
        queues.limited("openai", model, "https://two.example"),
        queues.limited("ollama", model, "https://two.example"),
        queues.limited("openrouter", model, "https://three.example"),
        queues.limited("local", model, usual=1),
    ]

    assert model not in limited
    assert queues.limited("scripted", model) is model
    assert {queue.name: queue.limit for queue in queues.loads()} == {
        "https://one.example": 256,
        "https://two.example": 256,
        "openrouter": 3,
        "local": 1,
    }
