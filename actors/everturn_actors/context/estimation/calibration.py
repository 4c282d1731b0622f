"""What is learnt about a model from what its provider reports. Pure.

The estimate of `estimates` fits no tokenizer exactly. Two things make up for that. A model's
`scale`, how many of its tokens one estimated token is, is learnt from everything that is sent to
it and kept for good. A session's own last report says more still, since what comes next in it is
mostly like what was there: see `session_scale` and `correction_tokens`.

Nothing here decides whether a request is sent: where a number is wrong, a request is shorter than
it could be, or the provider refuses it as too long and it is shortened then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN
from everturn_actors.context.estimation.prices import Prices, corrected, usual_prices

SCALE_MIN: Final = 0.8  # a Chinese character stays above 0.6 tokens
SCALE_MAX: Final = 3.0
LEAST_SCALE: Final = 0.5  # no tokenizer needs less for a prompt of words and a few tools
# Tokens per estimated token that a report may come to. What was measured is 0.65 to 1.7; a report
# outside of this counts something else, such as only what was not in the provider's cache.
PLAUSIBLE_MIN: Final = 0.5
PLAUSIBLE_MAX: Final = 5.0

_SAFETY = 1.25  # on what is known by the name alone
_REPORT_MIN_UNITS = 50 * UNITS_PER_TOKEN  # below, what a template adds is all one would measure
_MEMORY_UNITS = 20_000 * UNITS_PER_TOKEN  # as much of the past weighs against the newest report
_SESSION_MIN, _SESSION_MAX = 0.02, 8.0

# Part of the lower-cased name, scale; the first match wins. What 26 kinds of text come to in the
# middle, with the tokenizer of each family (OpenAI's o200k and cl100k, Gemma 3, Qwen 3, Llama 3,
# DeepSeek 3, Claude as reconstructed by the package ctok).
_CLAUDE_BEFORE_4_7 = re.compile(r"claude-(?:instant|[23])|claude.*-4(?![.-][7-9](?!\d))")
_PRIORS: Final = (
    ("claude", 1.25),
    ("gpt-4o", 0.9),
    ("gpt-4.", 0.9),
    ("gpt-4", 0.95),
    ("gpt-3", 0.95),
    ("gpt", 0.9),
    ("gemini", 0.95),
    ("gemma", 0.95),
    ("llama", 0.9),
    ("deepseek", 0.9),
)
_CLAUDE_PRIOR = 1.1
_PRIOR = 1.0  # Qwen's, and of all others


class Hint(Struct, frozen=True, kw_only=True):
    """What one refusal said of a model. Believed for a while; then it is tried again.

    A refusal may be of one server behind an address, or of another day's settings.
    """

    tokens: int = 0
    "The limit that it named; 0 where it was about something else."
    said: str = ""
    "The provider's own words, shortened."
    observed_at: datetime
    expires_at: datetime
    times: int = 1
    "How often in a row it was said, each time after it was tried again."
    refusals: int = 1
    "How many requests were refused so since it was said first."
    is_named: bool = True
    "Whether the provider named the number; otherwise it is the size of what it refused."
    is_over: bool = False
    "Whether it is believed no longer; it is kept, to know when it is said again."


_USUAL: Final = usual_prices(1.0)


class ModelStatistics(Struct, frozen=True, kw_only=True):
    """What is known about one model of one provider, at one address."""

    scale: float
    "Tokens of this model for one estimated token."
    prices: Prices = _USUAL
    "Its tokens for a character of each class."
    reports: int = 0
    "How many reports the scale was learnt from, or 1 where they told of prices alone; 0 = a guess."
    units: int = 0
    "How much these reports were about, as far as it still weighs."
    window_tokens: int | None = None
    "The window as the provider told it; None = it did not."
    proven_tokens: int = 0
    "The largest prompt that it took, as it reported itself."
    limit: Hint | None = None
    "The limit it named when it refused a request as too long; None = it did not."
    doubted_tokens: int = 0
    "A limit that was named once, and not believed, as more was told or taken; 0 = none."
    no_tools: Hint | None = None
    "That it refused tools; None = it did not."

    @property
    def safety(self) -> float:
        """By how much a prompt is taken for larger as long as nothing was reported."""
        return 1.0 if self.reports else _SAFETY

    @property
    def limit_tokens(self) -> int | None:
        """The limit that is believed now; None = there is none."""
        return None if self.limit is None or self.limit.is_over else self.limit.tokens

    @property
    def calls_tools(self) -> bool:
        """Whether it takes tools at all; it does until it has refused them."""
        return self.no_tools is None or self.no_tools.is_over


def prior_statistics(model_name: str) -> ModelStatistics:
    """Return what the name of a model tells: on the safe side until the first report."""
    name = model_name.lower()
    if _CLAUDE_BEFORE_4_7.search(name):
        prior = _CLAUDE_PRIOR
    else:
        prior = next((scale for part, scale in _PRIORS if part in name), _PRIOR)
    return ModelStatistics(scale=prior * _SAFETY, prices=usual_prices(prior))


def priced_anew(
    statistics: ModelStatistics, counts: Sequence[float], tokens: int
) -> ModelStatistics:
    """Return what is known after text of these counts by class came to so many tokens."""
    prices = corrected(statistics.prices, counts, tokens)
    if prices is statistics.prices:
        return statistics
    # Capitals and lines of one sign say nothing of the scale, but they are no guess any more.
    first = 1 if tokens * UNITS_PER_TOKEN >= _REPORT_MIN_UNITS else 0
    return replace(statistics, prices=prices, reports=statistics.reports or first)


def learn(statistics: ModelStatistics, *, units: int, tokens: int) -> ModelStatistics:
    """Return what is known after a report: `units` of the estimate came to `tokens`.

    Both are of a whole first prompt, or of what a prompt had more than the one before it. The
    scale is the mean over what was reported, large reports weighing more, and old ones less with
    everything that comes after. Reports that are zero, negative, tiny or implausible change
    nothing.
    """
    if units < _REPORT_MIN_UNITS or not _is_plausible(units, tokens):
        return statistics
    known = min(statistics.units, _MEMORY_UNITS)
    scale = (statistics.scale * known + tokens * UNITS_PER_TOKEN) / (known + units)
    return replace(
        statistics,
        scale=bounded(scale),
        reports=statistics.reports + 1,
        units=min(known + units, _MEMORY_UNITS),
    )


def bounded(scale: float) -> float:
    """Return the nearest scale that a model may have; 1 for what is no number."""
    return min(max(scale, SCALE_MIN), SCALE_MAX) if isfinite(scale) else 1.0


def session_scale(tokens: float, units: int) -> float:
    """Return the scale for one request, whose units are predicted to come to so many tokens.

    It may be far from the model's: separator lines come to a twentieth, Amharic to three times.
    """
    if units <= 0:
        return 1.0
    return min(max(tokens * UNITS_PER_TOKEN / units, _SESSION_MIN), _SESSION_MAX)


def _is_plausible(units: int, tokens: int) -> bool:
    return PLAUSIBLE_MIN * units <= tokens * UNITS_PER_TOKEN <= PLAUSIBLE_MAX * units
