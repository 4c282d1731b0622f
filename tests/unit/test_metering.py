"""What agents' calls are counted as, and when no more of them are made."""

from __future__ import annotations

import logging

import anyio
import pytest
from msgspec import structs
from support.tables import table

from everturn_actors.errors import ModelTransientError
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.model import ModelRequest, Reply, Usage, UserMessage
from everturn_actors.spec import ModelSpec
from everturn_actors.testing import ManualClock, Scripted, ScriptedProvider
from everturn_gateway.plugins import installed
from everturn_gateway.usage import (
    DailyLimit,
    Meter,
    Price,
    PriceList,
    Rates,
    Tally,
    UsageLedger,
    UsageLimitError,
)

OTHER = ModelSpec(provider="anthropic", name="other")
MODEL = ModelSpec(provider="openai", name="m", fallbacks=(OTHER,))
REQUEST = ModelRequest(model="m", system="", messages=(UserMessage(text="Hi"),))
PRICES = {
    "openai/m": Price(rates=Rates(input=1, output=2)),
    "anthropic/other": Price(rates=Rates(input=10, output=20)),
}
USED = Usage(input_tokens=1000, output_tokens=500)  # 2,000,000 nanodollars of m


def ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""


class Case:
    """A metered model, and what it counts in. Nothing is written."""

    def __init__(
        self,
        *script: Scripted,
        limit: DailyLimit | None = None,
        prices: dict[str, Price] | None = None,
        model: ModelSpec = MODEL,
        agent: str = "a",
    ) -> None:
        self.clock = ManualClock()
        self.ledger = UsageLedger(MemoryKeyedStore(), "usage/", self.clock)
        own = PRICES if prices is None else prices
        self.meter = Meter(
            ledger=self.ledger, prices=PriceList(own, installed().providers.get), clock=self.clock
        )
        self.model = ScriptedProvider(*script)
        self.provider = self.meter.metered(
            self.model, agent=agent, model=model, limit=limit or DailyLimit()
        )

    async def ask(self) -> Reply:
        """Make a call."""
        return await self.provider.complete(REQUEST, ignore)

    @property
    def used(self) -> Tally:
        """What was counted today."""
        return self.ledger.today("a")


async def test_a_reply_tells_what_it_cost() -> None:
    """By its price, unless its provider knows better, and by who answered."""
    # Turn and session add it up.
    case = Case(Reply(text="x", usage=USED), Reply(text="y", usage=USED))
    reply = await case.ask()
    await case.ask()

    assert reply.usage == structs.replace(USED, cost_nanodollars=2_000_000)
    assert case.used == Tally(
        calls=2, input_tokens=2000, output_tokens=1000, cost_nanodollars=4_000_000
    )

    # What the provider says it cost counts. It knows its own bill.
    told = structs.replace(USED, cost_nanodollars=77)
    case = Case(Reply(text="x", usage=told))
    reply = await case.ask()

    assert reply.usage == told
    assert case.used.cost_nanodollars == 77

    # A fallback is priced as what it is. It may cost ten times as much, which is what its owner
    # wants to see.
    case = Case(Reply(text="x", usage=USED, fallback="anthropic/other"))
    reply = await case.ask()

    assert reply.usage.cost_nanodollars == 20_000_000
    assert reply.fallback == "anthropic/other"


async def test_a_model_without_a_price_is_counted_and_said_to_have_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Zero dollars would be a lie; one line in the log is enough."""
    case = Case(Reply(text="x", usage=USED), Reply(text="y", usage=USED), prices={})
    with caplog.at_level(logging.WARNING):
        reply = await case.ask()
        await case.ask()

    assert reply.usage == USED
    assert (case.used.calls, case.used.unpriced_calls, case.used.tokens) == (2, 2, 3000)
    assert [record.__dict__["model"] for record in caplog.records] == ["openai/m"]


@table(("free", "unpriced"), [(True, 0), (False, 1)])
async def test_usage_that_is_not_reported_costs_nobody_knows_what(
    *, free: bool, unpriced: int
) -> None:
    """Of a model that is free it is known all the same."""
    price = Price(rates=Rates(input=0, output=0)) if free else PRICES["openai/m"]
    case = Case(Reply(text="x"), prices={"openai/m": price})
    await case.ask()

    assert (case.used.calls, case.used.unpriced_calls) == (1, unpriced)


async def test_a_call_without_an_end_counts_as_nothing() -> None:
    """Nobody says what it used."""
    # A call that fails counts as nothing. Nobody says what it used.
    case = Case(ModelTransientError("no"))
    with pytest.raises(ModelTransientError):
        await case.ask()

    assert case.used == Tally()

    # A call that is cut off counts as nothing. Its usage would have come with its end.
    case = Case(Reply(text="x y", usage=USED))
    case.model.hold()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(case.ask)
        await case.model.until_called()
        tasks.cancel_scope.cancel()

    assert case.used == Tally()


@table(
    ("limit", "words"),
    [
        (
            DailyLimit(cost_usd=0.004),
            "its daily limit of $0.004 ($0.0040 spent)",
        ),
        (
            DailyLimit(tokens=3000, cost_usd=9),
            "its daily limit of 3,000 tokens (3,000 used)",
        ),
    ],
)
async def test_at_its_limit_an_agent_makes_no_more_calls(limit: DailyLimit, words: str) -> None:
    """Whoever reads it knows what was used up, when it goes on, and where to change it."""
    case = Case(*[Reply(text="x", usage=USED)] * 3, limit=limit)
    await case.ask()
    await case.ask()
    with pytest.raises(UsageLimitError) as refused:
        await case.ask()

    assert str(refused.value) == (
        f"agent 'a' has used up {words}; it goes on at 2026-01-03 00:00 UTC,"
        " or when spec.usage in its agent.yaml allows more"
    )
    assert not refused.value.retryable
    assert len(case.model.requests) == 2


async def test_a_limit_is_that_of_one_agent_and_one_day() -> None:
    """All that its owner pays for counts against it, and nothing else."""
    # A new day begins at midnight utc. What was used yesterday is yesterday's.
    case = Case(*[Reply(text="x", usage=USED)] * 2, limit=DailyLimit(tokens=1500))
    await case.ask()
    until_midnight_s = 24 * 3600 - (3 * 3600 + 4 * 60 + 5)
    case.clock.advance(until_midnight_s - 1)
    with pytest.raises(UsageLimitError):
        await case.ask()
    case.clock.advance(1)
    await case.ask()

    assert case.used.tokens == 1500

    # Agents have limits of their own. One that runs wild must not silence the others.
    case = Case(*[Reply(text="x", usage=USED)] * 3, limit=DailyLimit(tokens=1500))
    await case.ask()
    other = case.meter.metered(case.model, agent="b", model=MODEL, limit=DailyLimit(tokens=1500))

    assert (await other.complete(REQUEST, ignore)).text == "x"
    with pytest.raises(UsageLimitError):
        await case.ask()

    # A summary counts for the agent and against its limit. It is paid for by the same owner.
    case = Case(*[Reply(text="x", usage=USED)] * 3, limit=DailyLimit(tokens=3000))
    summariser = case.meter.metered(
        case.model, agent="a", model=OTHER, limit=DailyLimit(tokens=3000)
    )
    await case.ask()
    await summariser.complete(REQUEST, ignore)

    assert case.used.cost_nanodollars == 22_000_000
    with pytest.raises(UsageLimitError):
        await summariser.complete(REQUEST, ignore)

    # Calls that are under way at the limit come on top. Nobody knows before what a call will use;
    # those that run are not cut off.
    case = Case(*[Reply(text="x y", usage=USED)] * 3, limit=DailyLimit(tokens=1500))
    case.model.hold()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(case.ask)
        await case.model.until_called(3)
        case.model.release()

    assert case.used.tokens == 4500
    with pytest.raises(UsageLimitError):
        await case.ask()


@table(
    ("model", "unknown"),
    [
        (MODEL, ()),
        (structs.replace(MODEL, name="x"), ("openai/x",)),
        (structs.replace(MODEL, fallbacks=(structs.replace(OTHER, name="y"),)), ("anthropic/y",)),
        (ModelSpec(provider="openrouter", name="a/b"), ()),  # says with each reply what it cost
        (ModelSpec(provider="builtin", name="builtin"), ()),
    ],
)
def test_models_without_a_price_are_named(model: ModelSpec, unknown: tuple[str, ...]) -> None:
    """A limit in dollars cannot be kept for them."""
    assert Case().meter.unpriced(model) == unknown
