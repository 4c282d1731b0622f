"""What single refusals teach of a model, for how long it is believed, and what disproves it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.hints import (
    statistics_at,
    with_limit,
    with_success,
    with_tools_refused,
    with_window,
    without_hints,
)
from everturn_actors.testing import START

HOUR = timedelta(hours=1)
FACTS = ModelStatistics(scale=1.2, reports=5, units=500_000)


def limited(
    facts: ModelStatistics = FACTS, tokens: int = 8_192, after: timedelta = 0 * HOUR
) -> ModelStatistics:
    """Return what is known after a refusal that names a limit."""
    now = START + after
    return with_limit(statistics_at(facts, now), tokens, said="too\nlong", now=now)


def held_h(facts: ModelStatistics) -> float:
    """Return for how many hours the limit is believed."""
    assert facts.limit is not None
    return (facts.limit.expires_at - facts.limit.observed_at) / HOUR


def test_a_limit_is_believed_for_a_day_and_longer_each_time() -> None:
    """One refusal is no law; a server that is small stays small."""
    # A limit is believed for a day. One refusal is no law: the day after, the model is asked for
    # more again.
    known = limited()

    assert known.limit is not None
    assert (known.limit.tokens, known.limit.said, known.limit.times) == (8_192, "too long", 1)
    assert statistics_at(known, START + 23 * HOUR).limit_tokens == 8_192
    assert statistics_at(known, START + 24 * HOUR).limit_tokens is None

    # While it is believed the same refusal renews nothing. Otherwise agents that go on above it
    # would renew it for ever. It is counted all the same.
    known = limited()
    again = limited(known, after=23 * HOUR)

    assert known.limit is not None
    assert again.limit == replace(known.limit, refusals=2)

    # What is said again is believed for longer. A server that is small stays small; it need not be
    # tried every day.
    hours, facts, after = list[float](), FACTS, 0 * HOUR
    for _ in range(5):
        facts = limited(facts, after=after)
        hours.append(held_h(facts))
        after += timedelta(hours=hours[-1])

    assert hours == [24, 48, 96, 168, 168]

    # Another limit begins anew. The model is served by somebody else now.
    again = limited(limited(), tokens=4_096, after=25 * HOUR)

    assert (again.limit_tokens, held_h(again)) == (4_096, 24)


def test_refusals_without_a_number_are_an_upper_bound_that_only_comes_down() -> None:
    """What was refused is no window; and who never names a number is learnt from all the same."""
    facts = FACTS
    for tokens in (9_000, 8_600, 8_900):
        facts = with_limit(facts, tokens, said="too long", now=START, is_named=False)

    assert facts.limit is not None
    assert (facts.limit_tokens, facts.limit.refusals, facts.limit.is_named) == (8_600, 3, False)
    assert limited(facts).limit == limited().limit  # who names it knows it better
    proven = with_success(FACTS, 8_400, had_tools=False)
    near = with_limit(proven, 8_300, said="too long", now=START, is_named=False)
    assert near.limit_tokens == 8_400  # the estimate was a little low


@table(
    "known",
    [
        pytest.param(with_window(FACTS, 131_072), id="the server tells more"),
        pytest.param(with_success(FACTS, 20_000, had_tools=False), id="it took more"),
    ],
)
def test_a_limit_against_better_knowledge_is_believed_the_second_time_and_for_an_hour(
    known: ModelStatistics,
) -> None:
    """One odd error among many good answers must not make every agent small."""
    once = limited(known)
    twice = limited(once)

    assert once.limit_tokens is None
    assert (twice.limit_tokens, held_h(twice)) == (8_192, 1)


def test_what_disproves_a_limit() -> None:
    """What is taken, and what the server says of itself, count for more than a refusal."""
    # A larger answer between two refusals takes the doubt back. Whoever said it first was wrong,
    # and is not counted.
    known = limited(with_success(FACTS, 20_000, had_tools=False))
    known = limited(with_success(known, 9_000, had_tools=False))

    assert known.limit_tokens is None

    # A larger prompt that is taken disproves a limit. It was of another request, or of a server
    # that is gone.
    assert with_success(limited(), 8_192, had_tools=False).limit_tokens == 8_192
    assert with_success(limited(), 8_193, had_tools=False).limit is None

    # A server that tells a larger window puts a limit in doubt. What the server itself says of
    # itself comes before one error; the next one counts again.
    known = limited()
    told = with_window(known, 32_768)

    assert with_window(known, 4_096).limit_tokens == 8_192
    assert (told.window_tokens, told.limit_tokens) == (32_768, None)
    assert limited(told).limit_tokens == 8_192
    assert with_window(limited(told), 32_768).limit_tokens == 8_192  # it says nothing new


def test_refused_tools_are_offered_again_a_day_later() -> None:
    """And at once, where somebody forgets what was learnt."""
    # A server that was started without its parser is started anew some day.
    known = with_tools_refused(FACTS, said="no tools", now=START)
    later = statistics_at(known, START + 24 * HOUR)
    again = with_tools_refused(later, said="no tools", now=START + 24 * HOUR)

    assert (known.calls_tools, later.calls_tools, again.calls_tools) == (False, True, False)
    assert again.no_tools is not None
    assert again.no_tools.times == 2
    assert with_success(later, 0, had_tools=True).no_tools is None
    assert with_success(known, 0, had_tools=False).no_tools is not None

    # Forgetting leaves what was measured. The tokenizer is still the same.
    known = with_window(with_tools_refused(limited(), said="no", now=START), 4_096)

    assert without_hints(known) == with_window(FACTS, 4_096)
