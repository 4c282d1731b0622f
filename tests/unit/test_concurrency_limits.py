"""How many calls a provider gets at the same time."""

from __future__ import annotations

import anyio
import pytest

from everturn_actors.errors import ModelTransientError
from everturn_actors.model import ModelRequest, UserMessage
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.providers import limits
from everturn_gateway.providers.limits import ConcurrencyLimits

WAIT_S = 10.0


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
    """A provider that is small answers all, in the order in which they came."""
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


async def test_models_of_one_provider_share_its_places() -> None:
    """The limit is the provider's: it counts requests, not models."""
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


async def test_waiting_counts_against_the_deadline_and_takes_no_place() -> None:
    """A caller that gives up must not leave a hole that nobody can fill."""
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


async def test_a_call_that_fails_or_is_cut_off_gives_its_place_back() -> None:
    """One failure a day would otherwise close the provider within a week."""
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


async def test_a_queue_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those at its end would wait beyond their deadline; a fallback can have them at once."""
    monkeypatch.setattr(limits, "WAITING_MAX", 2)
    model = ScriptedProvider()
    provider = ConcurrencyLimits({"openai": 1}).limited("openai", model)
    model.hold()
    async with anyio.create_task_group() as tasks:
        for text in ("a", "b", "c"):
            tasks.start_soon(provider.complete, request(text), ignore)
            await settle()
        with pytest.raises(ModelTransientError, match="2 calls wait for the provider openai"):
            await provider.complete(request("d"), ignore)
        tasks.cancel_scope.cancel()

    assert asked(model) == ["a"]


def test_remote_providers_have_no_limit_and_the_own_machine_has_one() -> None:
    """A remote API has its own; two models on this machine would halve each other's speed."""
    model = ScriptedProvider()
    places = ConcurrencyLimits({})

    assert places.limited("openai", model) is model
    assert places.limited("local", model) is not model


async def test_the_owner_may_let_the_own_machine_do_more() -> None:
    """Somebody has a server with sixty cores."""
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
