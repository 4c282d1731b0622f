"""What a prompt will cost, before the provider says it. Pure.

What the provider counted of the last prompt, and of the reply to it, is known. The rest is priced
by the classes of its characters (see `estimation.prices`), and by how much this session cost beyond
those prices so far: a session in Finnish goes on in Finnish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from operator import mul
from typing import Final

from msgspec import Struct

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.classes import (
    Counts,
    added,
    message_counts,
    priced,
    prompt_counts,
)
from everturn_actors.context.estimation.estimates import (
    UNITS_PER_TOKEN,
    message_units,
    tools_units,
)
from everturn_actors.context.estimation.prices import NOISE, NOISE_TOKENS, is_plausible
from everturn_actors.model import Conversation, ModelRequest, PromptFingerprint, Reply

_OWN_TOKENS: Final = 300  # so much of a session counts as much as all that is known of its model
_OWN_RANGE: Final = (0.1, 8.0)
_SMALL_UNITS: Final = 2_000 * UNITS_PER_TOKEN  # counted whatever the window is
_DENSE: Final = 3  # tokens for an estimated one, at most, of a text of any kind
_NEAR_SHARE: Final = 4  # a prompt below a quarter of the window is far from anything


class Forecast(Struct, frozen=True, kw_only=True):
    """What a prompt is predicted to cost, and what of it is known."""

    tokens: float
    known_tokens: int = 0
    "The part of them that the provider itself has counted."
    counts: tuple[float, ...] = ()
    "What the rest was priced by; empty where it was not counted, or has images."
    before_tokens: float = 0.0
    "What the prices alone said of the part that is known."
    reply: tuple[float, ...] = ()
    "The counts of the newest reply, whose tokens were reported; empty where they are not used."
    reply_tokens: int = 0
    prompt_tokens: float = 0.0
    "What the prices that it was made by say of the whole prompt, see `priced_tokens`."

    def priced_tokens(self, prices: Sequence[float]) -> int:
        """Return what other prices, and these alone, say of the whole prompt."""
        news = priced(self.counts, prices) if self.counts else self.tokens - self.known_tokens
        reply = priced(self.reply, prices) if self.reply else 0.0
        return round(self.before_tokens + news + reply)

    def doubt_tokens(self, doubts: Sequence[float]) -> float:
        """Return the standard deviation of what is predicted.

        Args:
            doubts: The variances of the model's prices, see `Prices.doubts`.
        """
        news = self.tokens - self.known_tokens
        noise = (NOISE * news) ** 2 + NOISE_TOKENS**2
        squares = map(mul, self.counts, self.counts)
        return sqrt(noise + sum(map(mul, doubts, squares)))


class Sizes(Struct, frozen=True, kw_only=True):
    """How large a request and its window are."""

    units: int
    "What all of it costs by the script-aware estimate, images included."
    image_units: int
    window_tokens: int
    is_next: bool
    "Whether it begins with the session's request before it."


def forecast_of(
    statistics: ModelStatistics,
    conversation: Conversation,
    request: ModelRequest,
    sizes: Sizes,
    count: Callable[[], Counts],
) -> Forecast:
    """Return what a request is predicted to cost.

    Args:
        statistics: Of the model.
        conversation: With the request before it, and what was reported for that.
        request: The request.
        sizes: Of it.
        count: Counts the characters of its messages, where that is worth the time.
    """
    if sizes.is_next and conversation.reported.input_tokens:
        return _goes_on(statistics, conversation, request, sizes.units)
    if sizes.units > _SMALL_UNITS and surely_far(
        sizes.units, sizes.window_tokens * UNITS_PER_TOKEN
    ):
        tokens = sizes.units * statistics.scale / UNITS_PER_TOKEN
        return Forecast(tokens=tokens, prompt_tokens=tokens)
    counts = added(prompt_counts(request.system, tools_units(request.tools)), count())
    by_prices = priced(counts, statistics.prices.each)
    tokens = by_prices * own_rate(conversation.fingerprint, conversation.reported.input_tokens)
    tokens = tokens * statistics.safety + sizes.image_units / UNITS_PER_TOKEN
    return Forecast(
        tokens=tokens,
        counts=() if sizes.image_units else tuple(counts),
        prompt_tokens=tokens if sizes.image_units else by_prices,
    )


def _goes_on(
    statistics: ModelStatistics, conversation: Conversation, request: ModelRequest, units: int
) -> Forecast:
    last, reported = conversation.fingerprint, conversation.reported
    news = request.messages[last.messages :]
    known, reply_tokens, reply = reported.input_tokens, 0, tuple[float, ...]()
    by_prices = float(last.tokens)
    if news and isinstance(news[0], Reply) and (own := _reply_counts(statistics, news[0])):
        expected = priced(own, statistics.prices.each)
        if _is_whole(news[0]) and is_plausible(own, reported.output_tokens, expected):
            reply, reply_tokens = tuple(own), reported.output_tokens
            news = news[1:]
            known += reply_tokens
            by_prices += expected
    counts = message_counts(news)
    images = units - last.units - sum(map(message_units, request.messages[last.messages :]))
    of_news = priced(counts, statistics.prices.each)
    tokens = of_news * own_rate(last, reported.input_tokens) + images / UNITS_PER_TOKEN
    return Forecast(
        tokens=known + tokens,
        known_tokens=known,
        counts=() if images else tuple(counts),
        before_tokens=last.tokens,
        reply=reply,
        reply_tokens=reply_tokens,
        prompt_tokens=by_prices + (tokens if images else of_news),
    )


def surely_far(units: int, window_units: int) -> bool:
    """Whether a prompt is far from filling a window, of whatever kind of text it is."""
    return units * _DENSE * _NEAR_SHARE < window_units


def own_rate(last: PromptFingerprint, reported_tokens: int) -> float:
    """Return what a session costs for what its model's prices say; 1 where nothing is known."""
    if last.tokens <= 0 or reported_tokens <= 0:
        return 1.0
    rate = (reported_tokens + _OWN_TOKENS) / (last.tokens + _OWN_TOKENS)
    return min(max(rate, _OWN_RANGE[0]), _OWN_RANGE[1])


def _is_whole(reply: Reply) -> bool:
    """Whether what was reported for a reply is what is sent back of it: no thoughts beside it."""
    return not reply.reasoning and not reply.opaque


def _reply_counts(statistics: ModelStatistics, reply: Reply) -> Counts:
    counts = message_counts((reply,))
    return counts if statistics.reports else []
