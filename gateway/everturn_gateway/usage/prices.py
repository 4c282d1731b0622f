"""What a model call costs. Pure: no IO, no clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.model import Usage
from everturn_actors.spec import ModelSpec

NANODOLLARS: Final = 1_000_000_000  # in a dollar
_NANODOLLARS_A_TOKEN: Final = 1000  # where a million tokens cost a dollar

# What a vendor appends to the name of a model for one edition of it.
_EDITION: Final = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3}|latest)$")


class Rates(Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    "Of the input, what was read from a cache; None = as the rest of it."
    cache_write: float | None = None
    "Of the input, what was written to a cache; None = as the rest of it."

    def nanodollars(self, usage: Usage) -> int:
        """Return what `usage` costs, in billionths of a dollar."""
        cached, written = usage.cached_tokens, usage.cache_written_tokens
        fresh = max(0, usage.input_tokens - cached - written)
        dollars_a_million = (
            fresh * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + usage.output_tokens * self.output
        )
        return round(dollars_a_million * _NANODOLLARS_A_TOKEN)


class Price(Struct, frozen=True, kw_only=True):
    """What calls to one model cost."""

    rates: Rates
    long_above_tokens: int | None = None
    "A request with more input than this costs `long`; None = all cost the same."
    long: Rates | None = None
    "For all tokens of such a request, those of its reply included."

    def nanodollars(self, usage: Usage) -> int:
        """Return what one call costs, in billionths of a dollar."""
        is_long = self.long_above_tokens is not None and usage.input_tokens > self.long_above_tokens
        return (self.long if is_long and self.long else self.rates).nanodollars(usage)

    def saved_nanodollars(self, usage: Usage) -> int:
        """Return how much more one call would have cost without any cache; may be below 0."""
        plain = replace(usage, cached_tokens=0, cache_written_tokens=0)
        return self.nanodollars(plain) - self.nanodollars(usage)

    @property
    def is_free(self) -> bool:
        """Whether no call costs anything."""
        return self == FREE


FREE: Final = Price(rates=Rates(input=0, output=0))


def model_label(model: ModelSpec) -> str:
    """Return how a model is called in lists of usage and of prices: `provider/name`."""
    return f"{model.provider}/{model.name}"


class Vendor(Protocol):
    """What a provider says of its prices."""

    @property
    def prices(self) -> Mapping[str, Price]:
        """What it takes for models by these names, at its own address."""
        ...

    @property
    def is_free(self) -> Callable[[ModelSpec], bool]:
        """Whether calls to a model cost nothing but this machine's time, or are given away."""
        ...

    @property
    def address(self) -> Callable[[ModelSpec], str]:
        """Where a model is called: scheme, host and port; empty = in this process."""
        ...


@lru_cache(maxsize=256)  # of few models, with each call
def _without_edition(name: str) -> str:
    return _EDITION.sub("", name)


class PriceList:
    """Knows what models cost: the owner's own prices, then those that their providers tell.

    A name stands also for its dated editions; in the owner's list a trailing `*` matches the rest,
    and the longest such entry counts.
    """

    def __init__(self, own: Mapping[str, Price], vendor_of: Callable[[str], Vendor | None]) -> None:
        """Take the owner's prices by `provider/name`, and what finds a provider by its name."""
        self._own = {key: price for key, price in own.items() if not key.endswith("*")}
        by_length = sorted((key for key in own if key.endswith("*")), key=len, reverse=True)
        self._starts = tuple((key[:-1], own[key]) for key in by_length)
        self._vendor_of = vendor_of

    def price(self, model: ModelSpec) -> Price | None:
        """Return what calls to `model` cost; None where nobody said.

        The prices that a provider tells are those of its own address: they say nothing about a
        model behind another `base_url`.
        """
        label = model_label(model)
        for name in (label, _without_edition(label)) if self._own else ():
            if name in self._own:
                return self._own[name]
        for start, price in self._starts:
            if label.startswith(start):
                return price
        vendor = self._vendor_of(model.provider)
        if vendor is None:
            return None
        if vendor.is_free(model):
            return FREE
        prices = vendor.prices
        told = prices.get(model.name) or prices.get(_without_edition(model.name))
        if told is None or not model.base_url:
            return told
        # Asked last: a provider without an address of its own may have none to give.
        own = vendor.address(replace(model, base_url=""))
        return told if own and vendor.address(model) == own else None
