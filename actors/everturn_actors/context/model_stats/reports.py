"""What a model call teaches of the model: from its answer, and from its refusals. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from everturn_actors.context.estimation.calibration import (
    ModelStatistics,
    learn,
    priced_anew,
)
from everturn_actors.context.estimation.hints import with_limit, with_success
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.model_stats.refusals import Refusals
from everturn_actors.context.rendered import Rendered
from everturn_actors.errors import ContextOverflowError
from everturn_actors.model import PromptFingerprint, Reply, Usage
from everturn_actors.spec import ModelSpec

_BELOW: Final = 0.95  # of the window: a refusal nearer to it is one of the estimate


def observed_in_refusal(
    statistics: ModelStatistics, rendered: Rendered, error: ContextOverflowError, now: datetime
) -> ModelStatistics:
    """Return what is known after a request was refused as too long, with numbers or without."""
    if error.prompt_tokens and not rendered.pictures.counts:
        # Counted by the provider itself, so as good as a report.
        units = rendered.fingerprint.units
        statistics = learn(statistics, units=units, tokens=error.prompt_tokens)
        statistics = _priced(statistics, rendered, error.prompt_tokens)
    if error.window_tokens:
        statistics = with_limit(statistics, error.window_tokens, said=str(error), now=now)
    return statistics


def observed_in_reply(
    statistics: ModelStatistics,
    rendered: Rendered,
    reply: Reply,
    before: tuple[PromptFingerprint, Usage],
) -> ModelStatistics:
    """Return what is known after a request was answered.

    Args:
        statistics: What was known.
        rendered: The request.
        reply: The answer, with what the provider reported.
        before: The session's request before this one, and what was reported for it.
    """
    tokens = reply.usage.input_tokens
    observed = with_success(statistics, tokens, had_tools=bool(rendered.request.tools))
    return _with_report(observed, rendered, tokens, before) if tokens else observed


def observed_in_count(
    statistics: ModelStatistics,
    rendered: Rendered,
    tokens: int,
    before: tuple[PromptFingerprint, Usage],
) -> ModelStatistics:
    """Return what is known after the provider said what a request would cost, unsent; see above."""
    return _with_report(statistics, rendered, tokens, before)


def observed_in_unnamed(
    statistics: ModelStatistics,
    model: ModelSpec,
    rendered: Rendered,
    reply: Reply,
    refused: tuple[Refusals, datetime],
) -> ModelStatistics:
    """Return what is known of a limit that no refusal named, once a smaller request was taken.

    What was refused is an upper bound. Where it is no smaller than the window that is known
    already, only the estimate was wrong, and that is learnt from the report.

    Args:
        statistics: What is known, the report of the answer included.
        model: The agent's model.
        rendered: The request that was taken.
        reply: The answer to it.
        refused: The refusals before it, and the present instant.
    """
    refusals, now = refused
    tokens = refusals.refused_tokens(statistics, rendered, reply.usage.input_tokens)
    if not tokens or tokens >= _BELOW * input_window(model, statistics):
        return statistics
    return with_limit(statistics, tokens, said=refusals.said, now=now, is_named=False)


def _with_report(
    statistics: ModelStatistics,
    rendered: Rendered,
    tokens: int,
    before: tuple[PromptFingerprint, Usage],
) -> ModelStatistics:
    """Compare what the provider reported with what was estimated; return what that tells.

    What one prompt had more than the one before tells most; without one before, all of it does.
    Nothing is learnt where an image is part of it: what one costs is each provider's own affair.
    """
    last, reported = before
    now, reported_tokens = rendered.fingerprint, tokens
    units = now.units
    goes_on = last.prefix and not now.is_cache_miss and reported.input_tokens
    if goes_on:
        tokens -= reported.input_tokens
        units -= last.units
    if _has_image(rendered, newest=bool(goes_on)):
        return statistics
    return _priced(learn(statistics, units=units, tokens=tokens), rendered, reported_tokens)


def _priced(
    statistics: ModelStatistics, rendered: Rendered, reported_tokens: int
) -> ModelStatistics:
    """Return what the report says of the prices of the classes of characters."""
    forecast = rendered.forecast
    if forecast is None or not forecast.counts:
        return statistics
    news = reported_tokens - forecast.known_tokens
    statistics = priced_anew(statistics, forecast.counts, news)
    if forecast.reply:
        statistics = priced_anew(statistics, forecast.reply, forecast.reply_tokens)
    return statistics


def as_priced(rendered: Rendered, statistics: ModelStatistics) -> PromptFingerprint:
    """Return the fingerprint of a request with what it costs by the prices as they are now."""
    forecast = rendered.forecast
    if forecast is None:
        return rendered.fingerprint
    tokens = forecast.priced_tokens(statistics.prices.each)
    return replace(rendered.fingerprint, tokens=tokens)


def _has_image(rendered: Rendered, *, newest: bool) -> bool:
    """Whether the request shows an image; with `newest`, one that no request before it showed."""
    counts = rendered.pictures.counts
    if not counts or not newest:
        return bool(counts)
    for message in reversed(rendered.request.messages):
        if isinstance(message, Reply):
            return False
        if message.seq in counts:
            return True
    return False
