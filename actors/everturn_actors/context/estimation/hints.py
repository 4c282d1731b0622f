"""What single refusals teach of a model, for how long it is believed, and what disproves it. Pure.

A refusal may be of one server behind an address, or of another day's settings, so it is a hint: it
expires, and is tried again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from everturn_actors.context.estimation.calibration import Hint, ModelStatistics

# How long is believed what one refusal said; each time that it is said again, for twice as long.
HINT_FOR_S: Final = 24 * 3600.0
CONTRADICTED_FOR_S: Final = 3600.0  # against what the server tells, or what it took before
HINT_MAX_S: Final = 7 * 24 * 3600.0
_SAID_CHARACTERS = 200
_NEAR = 0.25  # two refusals without a number mean the same limit where they are so near


def with_window(statistics: ModelStatistics, window_tokens: int) -> ModelStatistics:
    """Return what is known after the provider told the window of the model as it is served now.

    Where that is new, and larger than a limit that it once named in a refusal, the limit is in
    doubt: the model is served anew, or the refusal was of something else.
    """
    told, limit = replace(statistics, window_tokens=window_tokens), statistics.limit
    if limit is None or window_tokens <= limit.tokens or window_tokens == statistics.window_tokens:
        return told
    return replace(told, limit=None, doubted_tokens=limit.tokens)


def with_limit(
    statistics: ModelStatistics, tokens: int, *, said: str, now: datetime, is_named: bool = True
) -> ModelStatistics:
    """Return what is known after the provider refused a request as too long.

    A limit that contradicts what the server tells, or is below what it took before, is believed
    only when it is said again, and not for long.

    Args:
        statistics: What was known.
        tokens: The limit that the provider named, or the size of the request that it refused.
        said: The provider's words.
        now: The present instant, UTC.
        is_named: Whether the provider named it. Two sizes that are near each other count as the
            same limit, and the smaller one holds.
    """
    proven = statistics.proven_tokens
    if not is_named and proven * (1 - _NEAR) < tokens < proven:
        tokens = proven  # the estimate was a little low
    limit = statistics.limit
    known = (
        limit if limit is not None and _is_same(limit.tokens, tokens, is_named=is_named) else None
    )
    if known is not None and not known.is_over:
        less = min(known.tokens, tokens)
        again = replace(known, tokens=less, refusals=known.refusals + 1)
        return replace(statistics, limit=again)
    contradicted = tokens < max(proven, statistics.window_tokens or 0)
    doubted = _is_same(statistics.doubted_tokens, tokens, is_named=is_named)
    if contradicted and known is None and not doubted:
        return replace(statistics, doubted_tokens=tokens)
    first_s = CONTRADICTED_FOR_S if contradicted else HINT_FOR_S
    made = _hint(known, tokens, said=said, now=now, first_s=first_s)
    made = replace(made, is_named=is_named, refusals=2 if doubted else made.refusals)
    return replace(statistics, limit=made, doubted_tokens=0)


def _is_same(one: int, two: int, *, is_named: bool) -> bool:
    """Whether two refusals are about the same limit."""
    return one == two if is_named else abs(one - two) <= _NEAR * max(one, two)


def with_tools_refused(statistics: ModelStatistics, *, said: str, now: datetime) -> ModelStatistics:
    """Return what is known after the provider refused a request because of its tools."""
    return replace(
        statistics, no_tools=_hint(statistics.no_tools, 0, said=said, now=now, first_s=HINT_FOR_S)
    )


def with_success(statistics: ModelStatistics, tokens: int, *, had_tools: bool) -> ModelStatistics:
    """Return what is known after a prompt of so many tokens was answered, as reported.

    What it disproves is forgotten.
    """
    limit = statistics.limit
    return replace(
        statistics,
        proven_tokens=max(statistics.proven_tokens, tokens),
        limit=None if limit is not None and tokens > limit.tokens else limit,
        doubted_tokens=0 if tokens > statistics.doubted_tokens else statistics.doubted_tokens,
        no_tools=None if had_tools else statistics.no_tools,
    )


def without_hints(statistics: ModelStatistics) -> ModelStatistics:
    """Return what is known without what single refusals said, and what they would contradict."""
    return replace(statistics, limit=None, no_tools=None, doubted_tokens=0, proven_tokens=0)


def statistics_at(statistics: ModelStatistics, now: datetime) -> ModelStatistics:
    """Return what is known at an instant: hints that have expired are marked as over."""
    if (
        statistics.limit is None and statistics.no_tools is None
    ):  # of most models; asked for several times
        return statistics  # in each turn
    limit, no_tools = _at(statistics.limit, now), _at(statistics.no_tools, now)
    if limit is statistics.limit and no_tools is statistics.no_tools:
        return statistics
    return replace(statistics, limit=limit, no_tools=no_tools)


def _at(hint: Hint | None, now: datetime) -> Hint | None:
    if hint is None or hint.is_over == (now >= hint.expires_at):
        return hint
    return replace(hint, is_over=not hint.is_over)


def _hint(before: Hint | None, tokens: int, *, said: str, now: datetime, first_s: float) -> Hint:
    """Return a hint that begins now; `before` is the same one as it was believed last."""
    times = 1 if before is None else before.times + 1
    believed_s = min(first_s * 2.0 ** min(times - 1, 16), HINT_MAX_S)
    line = " ".join(said.split())
    return Hint(
        tokens=tokens,
        said=line if len(line) <= _SAID_CHARACTERS else line[:_SAID_CHARACTERS] + "…",
        observed_at=now,
        expires_at=now + timedelta(seconds=believed_s),
        times=times,
        refusals=1 if before is None else before.refusals + 1,
    )
