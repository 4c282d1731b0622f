"""What a model takes for a character of each class, as its provider's reports taught. Pure.

Each class has a price and a doubt. A report moves the prices of the classes that it is made of:
those that are doubted most, and weigh most in it, the furthest. So what is seen every day is known
to a percent, and a script that a model meets for the first time is learnt from one report, without
spoiling what was known of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final

from msgspec import Struct

from everturn_actors.context.estimation.classes import CLASSES, LEAST, PROMPT, USUAL, priced

_DOUBT: Final = 0.6  # of a price that only the name of a model tells
_DOUBT_LEAST: Final = 0.016  # of the usual price, added with each report: what was learnt grows old
NOISE, NOISE_TOKENS = 0.02, 6.0  # what prices by class cannot explain of any report
_BELOW_LEAST: Final = 0.9
_MOST, _MOST_TOKENS = 5.0, 500.0  # times what was expected; more is a prompt that we did not write
_PRICE_MAX: Final = 8.0  # tokens a character; a price without end is no price
_OVERHEAD_MAX: Final = 4_000.0  # tokens around a prompt


class Prices(Struct, frozen=True, kw_only=True):
    """The prices of one model, in tokens for each character of a class."""

    each: tuple[float, ...]
    doubts: tuple[float, ...]
    "The variance of each price."


def usual_prices(scale: float) -> Prices:
    """Return the prices of a model of which only the name is known.

    Args:
        scale: Its tokens for one of an ordinary tokenizer.
    """
    each = tuple(scale * price for price in USUAL)
    return Prices(each=each, doubts=tuple((_DOUBT * price) ** 2 for price in each))


def checked(prices: Prices) -> Prices | None:
    """Return prices as a file has them; None where they are not of the classes that there are."""
    if not len(prices.each) == len(prices.doubts) == CLASSES:
        return None
    if not all(isfinite(value) and value >= 0 for value in (*prices.each, *prices.doubts)):
        return None
    each = tuple(
        min(max(price, least / 2), _most(index))
        for index, (price, least) in enumerate(zip(prices.each, LEAST, strict=True))
    )
    return Prices(each=each, doubts=prices.doubts)


def _most(index: int) -> float:
    return _OVERHEAD_MAX if index == PROMPT else _PRICE_MAX


def corrected(prices: Prices, counts: Sequence[float], tokens: float) -> Prices:
    """Return the prices after a report: text of these counts came to so many tokens.

    A report that no tokenizer could give changes nothing.
    """
    expected = priced(counts, prices.each)
    if not is_plausible(counts, tokens, expected):
        return prices
    noise = (NOISE * tokens) ** 2 + NOISE_TOKENS**2
    moves = [doubt * count for doubt, count in zip(prices.doubts, counts, strict=True)]
    total = priced(moves, counts) + noise
    error = (tokens - expected) / total
    each = list(prices.each)
    doubts = list(prices.doubts)
    for index, move in enumerate(moves):
        if not move:
            continue
        each[index] = min(max(each[index] + move * error, LEAST[index] / 2), _most(index))
        doubts[index] += (_DOUBT_LEAST * USUAL[index]) ** 2 - move * move / total
    return Prices(each=tuple(each), doubts=tuple(doubts))


def is_plausible(counts: Sequence[float], tokens: float, expected: float) -> bool:
    """Whether a tokenizer could need so many tokens for text of these counts."""
    least = _BELOW_LEAST * priced(counts, LEAST)
    return max(least, 1.0) <= tokens <= _MOST * expected + _MOST_TOKENS
