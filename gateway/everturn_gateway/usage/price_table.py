"""Prices of well-known models, in US dollars for a million tokens: what the vendors publish.

Standard processing, by the vendors' own addresses. A model that is not here has no known price;
everturn.yaml can add it, and replace what stands here.

Sources, read 2026-11-22 in stored copies of October and November 2026:
OpenAI, https://developers.openai.com/api/docs/pricing and the models' own pages;
Anthropic, https://platform.claude.com/docs/en/about-claude/pricing (cache writes for 5 minutes);
Google, https://ai.google.dev/gemini-api/docs/pricing (text; the hourly rent of caches that are made
by hand is not in it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from everturn_gateway.usage.prices import Price, Rates

_LONG_OPENAI_TOKENS: Final = 272_000
_LONG_GEMINI_TOKENS: Final = 200_000
_LONG_HAIKU_TOKENS: Final = 100_000


def _plain(
    input_usd: float, cached: float, output: float, cache_write: float | None = None
) -> Price:
    rates = Rates(input=input_usd, cached=cached, cache_write=cache_write, output=output)
    return Price(rates=rates)


def _openai(input_usd: float, cached: float, output: float) -> Price:
    """Return a price of OpenAI since GPT-5.6.

    Cache writes cost a quarter more than input; above 272,000 tokens of input, input and caches
    cost twice as much and output one and a half times.
    """
    write = input_usd * 1.25
    return Price(
        rates=Rates(input=input_usd, cached=cached, cache_write=write, output=output),
        long_above_tokens=_LONG_OPENAI_TOKENS,
        long=Rates(
            input=input_usd * 2, cached=cached * 2, cache_write=write * 2, output=output * 1.5
        ),
    )


def _claude(input_usd: float, cached: float, output: float) -> Price:
    return _plain(input_usd, cached, output, cache_write=input_usd * 1.25)


def _gemini_pro(short: Rates, long: Rates) -> Price:
    return Price(rates=short, long_above_tokens=_LONG_GEMINI_TOKENS, long=long)


OPENAI: Final[Mapping[str, Price]] = {
    "gpt-6.2-sol": _openai(2, 0.10, 10),
    "gpt-6.1-sol": _openai(2, 0.10, 10),
    "gpt-6-astra": _openai(10, 1, 50),
    "gpt-6-sol": _openai(2, 0.20, 10),
    "gpt-6-luna": _openai(0.10, 0.01, 0.50),
    "gpt-5.6": _openai(4, 0.40, 20),
    "gpt-5.6-sol": _openai(4, 0.40, 20),
    "gpt-5.6-terra": _openai(2, 0.20, 12),
    "gpt-5.6-luna": _openai(0.20, 0.02, 1.20),
    "gpt-5.5": _plain(5, 0.50, 30),
    "gpt-5.4": Price(
        rates=Rates(input=2.50, cached=0.25, output=15),
        long_above_tokens=_LONG_OPENAI_TOKENS,
        long=Rates(input=5, cached=0.50, output=22.50),
    ),
    "gpt-5.4-mini": _plain(0.75, 0.075, 4.50),
    "gpt-5.4-nano": _plain(0.20, 0.02, 1.25),
    "gpt-5.2": _plain(1.75, 0.175, 14),
    "gpt-5.1": _plain(1.25, 0.125, 10),
    "gpt-5": _plain(1.25, 0.125, 10),
    "gpt-5-mini": _plain(0.25, 0.025, 2),
    "gpt-4.1": _plain(2, 0.50, 8),
    "gpt-4o": _plain(2.50, 1.25, 10),
    "gpt-4o-mini": _plain(0.15, 0.075, 0.60),
}
_OPUS_ALIKE: Final = ("5", "4-8", "4-7", "4-6", "4-5")
ANTHROPIC: Final[Mapping[str, Price]] = {
    "claude-fable-5-1": _claude(10, 0.25, 50),
    "claude-fable-5": _claude(10, 1, 50),
    "claude-opus-5-5": _claude(4, 0.20, 20),
    **dict.fromkeys([f"claude-opus-{each}" for each in _OPUS_ALIKE], _claude(5, 0.50, 25)),
    "claude-opus-4-1": _claude(15, 1.50, 75),
    "claude-sonnet-5-5": _claude(2, 0.10, 10),
    "claude-sonnet-5": _claude(2, 0.20, 10),
    "claude-sonnet-4-6": _claude(3, 0.30, 15),
    "claude-sonnet-4-5": _claude(3, 0.30, 15),
    "claude-haiku-5-5": Price(
        rates=Rates(input=0.10, cached=0.01, cache_write=0.125, output=0.50),
        long_above_tokens=_LONG_HAIKU_TOKENS,
        long=Rates(input=0.50, cached=0.05, cache_write=0.625, output=2.50),
    ),
    "claude-haiku-4-5": _claude(1, 0.10, 5),
}
GEMINI: Final[Mapping[str, Price]] = {
    "gemini-3.6-flash": _plain(1.50, 0.15, 7.50),
    "gemini-3.5-flash": _plain(1.50, 0.15, 9),
    "gemini-3.5-flash-lite": _plain(0.30, 0.03, 2.50),
    "gemini-3.1-pro-preview": _gemini_pro(
        Rates(input=2, cached=0.20, output=12), Rates(input=4, cached=0.40, output=18)
    ),
    "gemini-3-flash-preview": _plain(0.50, 0.05, 3),
    "gemini-2.5-pro": _gemini_pro(
        Rates(input=1.25, cached=0.125, output=10), Rates(input=2.50, cached=0.25, output=15)
    ),
    "gemini-2.5-flash": _plain(0.30, 0.03, 2.50),
    "gemini-2.5-flash-lite": _plain(0.10, 0.01, 0.40),
}
