"""What a call costs, and which price a model has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.tables import table

from everturn_actors.model import Usage
from everturn_actors.spec import ModelSpec
from everturn_gateway.builtin.providers import BUILTIN, OPENAI
from everturn_gateway.plugins import ProviderPlugin, installed
from everturn_gateway.usage import NANODOLLARS, Price, PriceList, Rates, model_label

COUNTS = st.integers(min_value=0, max_value=2_000_000)
DOLLARS = st.floats(min_value=0, max_value=1000)
RATES = Rates(input=3, cached=0.3, cache_write=3.75, output=15)


def spec(label: str, base_url: str = "") -> ModelSpec:
    """Return the model of this label."""
    provider, _, name = label.partition("/")
    return ModelSpec(provider=provider, name=name, base_url=base_url)


def vendor(prices: Mapping[str, Price]) -> Callable[[str], ProviderPlugin]:
    """Return what finds a provider that takes these prices, by `provider/name`."""

    def plugin(provider: str) -> ProviderPlugin:
        own = {
            label.partition("/")[2]: price
            for label, price in prices.items()
            if label.startswith(f"{provider}/")
        }
        return replace(BUILTIN, name=provider, prices=own, is_free=lambda _model: False)

    return plugin


def flat(usd: float) -> Price:
    """Return a price that can be told from others."""
    return Price(rates=Rates(input=usd, output=usd))


def test_each_kind_of_token_has_its_rate() -> None:
    """Cached tokens at the full price would make a long conversation look ten times dearer."""
    usage = Usage(
        input_tokens=1_000_000,
        cached_tokens=600_000,
        cache_written_tokens=100_000,
        output_tokens=10_000,
    )

    dollars = 0.3 * 3 + 0.6 * 0.3 + 0.1 * 3.75 + 0.01 * 15
    assert RATES.nanodollars(usage) == round(dollars * NANODOLLARS)

    # Whoever writes two numbers means all input by the first.
    usage = Usage(input_tokens=30, cached_tokens=10, cache_written_tokens=10, output_tokens=1)

    assert Rates(input=1, output=2).nanodollars(usage) == 32_000

    # Some report more cached tokens than input.
    usage = Usage(input_tokens=10, cached_tokens=50)

    assert RATES.nanodollars(usage) == 15_000


def test_a_long_request_costs_more_as_a_whole() -> None:
    """Vendors charge every token of it at the higher rate, the reply included."""
    price = Price(
        rates=Rates(input=1, output=2), long_above_tokens=1000, long=Rates(input=10, output=20)
    )
    at, above = (Usage(input_tokens=count, output_tokens=100) for count in (1000, 1001))

    assert price.nanodollars(at) == 1_200_000
    assert price.nanodollars(above) == 12_010_000


@given(fresh=COUNTS, cached=COUNTS, written=COUNTS, output=COUNTS, rates=st.tuples(*[DOLLARS] * 4))
def test_a_cost_is_never_negative_and_grows_with_use(
    fresh: int, cached: int, written: int, output: int, rates: tuple[float, float, float, float]
) -> None:
    """A limit compares it: one that shrinks would never be reached."""
    price = Rates(input=rates[0], cached=rates[1], cache_write=rates[2], output=rates[3])
    usage = Usage(
        input_tokens=fresh + cached + written,
        cached_tokens=cached,
        cache_written_tokens=written,
        output_tokens=output,
    )
    more = usage + Usage(input_tokens=1, output_tokens=1)

    assert 0 <= price.nanodollars(usage) <= price.nanodollars(more)


@table(
    ("label", "usd"),
    [
        ("openai/gpt-x", 1),
        ("openai/gpt-x-2026-05-07", 1),
        ("openai/gpt-x-20260507", 1),
        ("openai/gpt-x-latest", 1),
        ("openai/gpt-x-mini", None),  # another model, at another price
        ("openai/gpt-xy", None),
        ("gemini/gem-001", 2),
        ("anthropic/gpt-x", None),
        ("openai/gpt", None),
    ],
)
def test_a_name_stands_for_its_editions_and_for_no_other_model(
    label: str, usd: float | None
) -> None:
    """A price that is wrong is worse than none: nobody looks it up."""
    prices = PriceList({}, vendor({"openai/gpt-x": flat(1), "gemini/gem": flat(2)}))

    assert prices.price(spec(label)) == (None if usd is None else flat(usd))


@table(
    ("label", "usd"),
    [
        ("openai/gpt-x", 9),  # replaced
        ("openai/gpt-x-2026-05-07", 8),  # this edition has its own
        ("openai/gpt-y", 2),  # as it came
        ("openai/ft:mine", 4),
        ("openai/ft:mine:long", 5),
        ("openrouter/a/b", 6),
        ("openrouter/a/c", 3),
        ("ollama/llama", 7),  # electricity
    ],
)
def test_the_owners_prices_come_first(label: str, usd: float) -> None:
    """Contracts have prices that no table knows."""
    own = {
        "openai/gpt-x": flat(9),
        "openai/gpt-x-2026-05-07": flat(8),
        "openai/ft:*": flat(4),
        "openai/ft:mine:*": flat(5),
        "openrouter/*": flat(3),
        "openrouter/a/b": flat(6),
        "ollama/*": flat(7),
    }
    prices = PriceList(own, vendor({"openai/gpt-x": flat(1), "openai/gpt-y": flat(2)}))

    assert prices.price(spec(label)) == flat(usd)


def test_another_address_has_no_price_but_the_owners() -> None:
    """A model of the same name on one's own machine costs nothing, elsewhere something else."""
    there = spec("openai/gpt-x", "http://gpu:8000/v1")

    assert PriceList({}, vendor({"openai/gpt-x": flat(1)})).price(there) is None
    assert PriceList({"openai/gpt-x": flat(9)}, vendor({})).price(there) == flat(9)

    # A provider without an address of its own, which tells no prices, is not asked for one.
    def nowhere(_: ModelSpec) -> str:
        raise AssertionError

    placeless = replace(BUILTIN, is_free=lambda _: False, address=nowhere)
    assert PriceList({}, lambda _: placeless).price(there) is None

    # The vendor's other API, at the vendor's own address.
    own = PriceList({}, lambda _: OPENAI)
    responses = spec("openai/gpt-5-mini", "https://api.openai.com/v1/responses")
    assert own.price(responses) == own.price(spec("openai/gpt-5-mini")) is not None


@table(
    ("label", "address", "free"),
    [
        ("builtin/builtin", "", True),
        ("local/smollm2-135m-instruct", "", True),
        ("scripted/replies.yaml", "", True),
        ("ollama/llama3.2", "", True),
        ("ollama/gpt-oss:120b-cloud", "", False),
        ("ollama/gpt-oss", "https://ollama.com", False),  # the vendor's own service takes money
        ("openrouter/meta/llama:free", "", True),
        ("openrouter/meta/llama", "", False),
    ],
)
def test_what_runs_on_this_machine_is_free(label: str, address: str, *, free: bool) -> None:
    """That its cost is not known would be said of every call."""
    price = PriceList({}, installed().providers.get).price(spec(label, address))

    assert (price is not None and price.is_free) == free
    assert not address or price is None


@table(
    ("label", "price"),
    [
        (f"{plugin.name}/{model}", price)
        for plugin in installed().providers.all()
        for model, price in plugin.prices.items()
    ],
)
def test_the_tables_make_sense(label: str, price: Price) -> None:
    """A slipped digit would stand in every report."""
    assert model_label(spec(label)) == label
    for rates in (price.rates, *((price.long,) if price.long else ())):
        assert rates.cached is not None
        assert 0 < rates.cached < rates.input < rates.output <= 100
        assert rates.cache_write is None or rates.input < rates.cache_write < rates.output
    if price.long is not None:
        assert price.long_above_tokens in {100_000, 200_000, 272_000}
        assert price.long.input > price.rates.input


def test_what_a_cache_saves_is_told_by_the_price_list() -> None:
    """To write to it costs more than not to: the first request saves less than nothing."""
    price = Price(rates=Rates(input=3, output=15, cached=0.3, cache_write=3.75))

    assert price.saved_nanodollars(Usage(input_tokens=1_000, cached_tokens=900)) == 2_430_000
    assert price.saved_nanodollars(Usage(input_tokens=100, cache_written_tokens=100)) == -75_000
    assert price.saved_nanodollars(Usage(input_tokens=100)) == 0
