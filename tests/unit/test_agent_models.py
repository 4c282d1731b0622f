"""What an agent's file says of fallbacks and limits, and where its mistakes are."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.agents import write_folder
from support.tables import table

from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.model import ModelRequest
from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_actors.testing import ManualClock, ScriptedProvider
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.plugins import installed
from everturn_gateway.specs import check_models, load_agent, open_library
from everturn_gateway.specs.models import provider_for
from everturn_gateway.usage import DailyLimit, Meter, Price, PriceList, Rates, UsageLedger

AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: a}
spec:
  model:
    provider: openai
    name: big
    temperature: 0.5
    max_output_tokens: 2000
    reasoning_effort: high
    fallbacks:
      - {provider: anthropic, name: other, temperature: 0, max_output_tokens: 500}
      - {provider: ollama, name: small, base_url: "http://gpu:11434", context_window: 8192}
"""
LIMITED = f"{AGENT}  usage: {{daily_cost_usd: 2.5, daily_tokens: 1000000}}\n"
PRICE = Price(rates=Rates(input=1, output=1))


def meter(**prices: Price) -> Meter:
    """Return a meter that knows these prices, by provider."""
    clock = ManualClock()
    own = {f"{provider}/*": price for provider, price in prices.items()}
    return Meter(
        ledger=UsageLedger(MemoryKeyedStore(), "usage/", clock),
        prices=PriceList(own, installed().providers.get),
        clock=clock,
    )


def make(model: ModelSpec, folder: Path) -> ModelProvider:
    """Make a model, but none of Anthropic's."""
    del folder
    if model.provider == "anthropic":
        msg = "spec.model.provider 'anthropic' needs a key"
        raise GatewayError(msg)
    return ScriptedProvider()


def test_fallbacks_and_limits_are_read(tmp_path: Path) -> None:
    """Without them an agent has its own model, and uses what it needs."""
    # Fallbacks are models with what the own one says besides. A creative agent stays so on another
    # model; how much that thinks is its own affair.
    file = load_agent(write_folder(tmp_path / "a", AGENT), environ={})

    assert file.spec.model.fallbacks == (
        ModelSpec(provider="anthropic", name="other", temperature=0, max_output_tokens=500),
        ModelSpec(
            provider="ollama",
            name="small",
            base_url="http://gpu:11434",
            temperature=0.5,
            max_output_tokens=2000,
            context_window=8192,
        ),
    )
    assert file.summarizer == file.spec.model
    assert file.inactive == ()

    # Limits are read. Without them an agent may use what it needs.
    plain = load_agent(write_folder(tmp_path / "plain", AGENT), environ={})
    limited = load_agent(write_folder(tmp_path / "limited", LIMITED), environ={})

    assert plain.limit == DailyLimit()
    assert limited.limit == DailyLimit(cost_usd=2.5, tokens=1_000_000)
    assert limited.inactive == ()


@table(
    ("usage", "message"),
    [
        ("daily_cost_usd: 0", "spec.usage.daily_cost_usd: must be more than 0, not '0'"),
        ("daily_tokens: -5", "spec.usage.daily_tokens: must be at least 1, not '-5'"),
        ("daily_cost: 3", "spec.usage.daily_cost: is not a known field"),
    ],
)
def test_a_bad_limit_is_named(tmp_path: Path, usage: str, message: str) -> None:
    """One that is mistyped would be none."""
    folder = write_folder(tmp_path / "a", f"{AGENT}  usage: {{{usage}}}\n")
    with pytest.raises(ConfigError, match=r"agent\.yaml:14") as refused:
        load_agent(folder, environ={})

    assert message in str(refused.value)


def test_a_fallback_that_cannot_be_used_is_named_with_its_line(tmp_path: Path) -> None:
    """It is needed on a bad day, which is no day to find out."""
    file = load_agent(write_folder(tmp_path / "a", AGENT), environ={})
    with pytest.raises(ConfigError) as refused:
        provider_for(file, "spec.model", file.spec.model, make)

    (fault,) = refused.value.faults
    assert (fault.line, fault.field) == (12, "spec.model.fallbacks[0]")
    assert fault.message == "spec.model.fallbacks[0].provider 'anthropic' needs a key"


def test_a_limit_in_dollars_needs_prices(tmp_path: Path) -> None:
    """And one in tokens none."""
    # It would never be reached, and its owner would believe in it.
    file = load_agent(write_folder(tmp_path / "a", LIMITED), environ={})
    known = meter(openai=PRICE, anthropic=PRICE)

    check_models(file, lambda _model, _folder: ScriptedProvider(), known)
    with pytest.raises(ConfigError) as refused:
        check_models(file, lambda _model, _folder: ScriptedProvider(), meter(openai=PRICE))

    (fault,) = refused.value.faults
    assert (fault.line, fault.field) == (14, "spec.usage.daily_cost_usd")
    assert fault.message == (
        "cannot be kept: no price is known for anthropic/other;"
        " add it under prices in everturn.yaml, or limit daily_tokens instead"
    )

    # A limit in tokens needs none. Tokens are counted by everybody.
    text = f"{AGENT}  usage: {{daily_tokens: 5}}\n"
    file = load_agent(write_folder(tmp_path / "a", text), environ={})

    check_models(file, lambda _model, _folder: ScriptedProvider(), meter())


async def test_a_library_counts_what_its_agents_and_their_summaries_use(tmp_path: Path) -> None:
    """Both are metered under the agent's name, and refused together."""
    write_folder(tmp_path / "a", f"{AGENT}  usage: {{daily_tokens: 1}}\n")
    counting = meter(openai=PRICE, anthropic=PRICE)
    library = await open_library(
        tmp_path, {}, lambda _model, _folder: ScriptedProvider(), meter=counting
    )
    agent = library.get("a")
    assert agent.summariser is not None
    request = ModelRequest(model="big", system="", messages=())
    await agent.provider.complete(request, _ignore)
    await agent.summariser.provider.complete(request, _ignore)

    assert counting.ledger.today("a").calls == 2


async def test_an_agent_whose_limit_cannot_be_kept_is_not_loaded(tmp_path: Path) -> None:
    """The others are."""
    write_folder(tmp_path / "a", LIMITED)
    write_folder(tmp_path / "b", AGENT.replace("name: a}", "name: b}"))
    library = await open_library(
        tmp_path, {}, lambda _model, _folder: ScriptedProvider(), meter=meter()
    )

    assert library.names() == ("b",)
    assert [fault.field for fault in library.faults()] == ["spec.usage.daily_cost_usd"]


async def test_a_scripted_fallback_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    """Tests and demos change it while the gateway runs."""
    text = AGENT.replace("provider: ollama, name: small", "provider: scripted, name: s.yaml")
    folder = write_folder(tmp_path / "a", text, s__yaml="one")
    made: list[str] = []

    def count(model: ModelSpec, where: Path) -> ModelProvider:
        del where
        made.append(model.name)
        return ScriptedProvider()

    library = await open_library(tmp_path, {}, count)
    made.clear()
    await library.reload()
    unchanged = tuple(made)
    (folder / "s.yaml").write_text("another", encoding="utf-8")
    await library.reload()

    assert unchanged == ()
    assert made == ["other", "s.yaml", "big"]


def _ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""
