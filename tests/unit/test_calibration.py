"""What is learnt from reported usage, by hand-made values."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.tables import table

from everturn_actors.context.estimation.calibration import (
    SCALE_MAX,
    SCALE_MIN,
    ModelStatistics,
    learn,
    prior_statistics,
    session_scale,
)
from everturn_actors.context.estimation.prices import usual_prices

LEARNT = ModelStatistics(scale=1.2, reports=5, units=500_000)


@table(
    ("name", "scale"),
    [
        ("gpt-5-mini", 0.9),
        ("openai/gpt-4o", 0.9),
        ("gpt-4.1-nano", 0.9),
        ("gpt-4-turbo", 0.95),
        ("gpt-3.5-turbo", 0.95),
        ("claude-instant-1.2", 1.1),
        ("claude-2.1", 1.1),
        ("anthropic/claude-3.7-sonnet", 1.1),
        ("claude-3-5-haiku-20241022", 1.1),
        ("claude-sonnet-4-20250514", 1.1),
        ("claude-opus-4-1-20250805", 1.1),
        ("claude-haiku-4.5", 1.1),
        ("claude-opus-4-6", 1.1),
        ("claude-opus-4-7", 1.25),
        ("anthropic/Claude-Sonnet-4.8", 1.25),
        ("claude-opus-5", 1.25),
        ("google/gemini-3-pro", 0.95),
        ("gemma-3-27b", 0.95),
        ("meta-llama/llama-4-maverick", 0.9),
        ("deepseek-chat", 0.9),
        ("qwen3-30b", 1.0),
        ("some-new-model", 1.0),
        ("", 1.0),
    ],
)
def test_a_new_model_starts_with_its_family_and_a_margin(name: str, scale: float) -> None:
    """Before the first report a request must rather be too short than overflow."""
    facts = prior_statistics(name)

    assert facts.scale == pytest.approx(scale * 1.25)
    assert facts == ModelStatistics(scale=facts.scale, prices=usual_prices(scale))
    assert facts.safety == 1.25


def test_reports_weigh_by_their_size_and_the_past_not_for_ever() -> None:
    """A model that is served otherwise is followed, and one odd answer is not."""
    # The first report replaces the guess. The margin of a guess costs a fifth of the window as long
    # as it lasts.
    facts = learn(prior_statistics("m"), units=100_000, tokens=900)

    assert facts.scale == pytest.approx(0.9)
    assert facts.reports == 1

    # A large report weighs more than a small one. A short answer measures the template more than
    # the tokenizer.
    small = learn(LEARNT, units=10_000, tokens=200)
    large = learn(LEARNT, units=1_000_000, tokens=20_000)

    assert LEARNT.scale < small.scale < large.scale < 2.0

    # The scale is the mean of what was reported. One odd answer among many must not decide how long
    # the next request may be.
    facts = prior_statistics("m")
    for tokens in (1_000, 2_000, 3_000):
        facts = learn(facts, units=100_000, tokens=tokens)

    assert facts.scale == pytest.approx(2.0)
    assert (facts.reports, facts.units) == (3, 300_000)

    # The weight of the past is bounded. Else a year of use would make a model's scale as hard as
    # stone.
    old, older = replace(LEARNT, units=2_000_000), replace(LEARNT, units=10**12)

    assert learn(older, units=500_000, tokens=10_000) == learn(old, units=500_000, tokens=10_000)

    # What was learnt long ago weighs less. A model that is served with another tokenizer under its
    # old name is followed.
    facts = replace(LEARNT, units=2_000_000, reports=10_000)
    for _ in range(30):
        facts = learn(facts, units=400_000, tokens=8_000)

    assert facts.scale == pytest.approx(2.0, rel=0.02)


@table(
    ("units", "tokens"),
    [
        (0, 0),
        (100_000, 0),  # no usage reported
        (100_000, -900),  # the prompt before was longer: stale, or cut
        (-100_000, 900),
        (4_999, 60),  # tiny
        (1_000_000, 4_900),  # less than any tokenizer: what was not in a cache
        (1_000_000, 50_001),  # more than any: a prompt that we did not write
    ],
)
def test_a_report_that_cannot_be_is_ignored(units: int, tokens: int) -> None:
    """One wrong number from a provider must not spoil what was learnt."""
    assert learn(LEARNT, units=units, tokens=tokens) == LEARNT


@table(("tokens", "scale"), [(5_100, SCALE_MIN), (49_000, SCALE_MAX)])
def test_the_scale_stays_within_its_bounds(tokens: int, scale: float) -> None:
    """Whatever is reported, an estimate keeps its order of magnitude."""
    assert learn(prior_statistics("m"), units=1_000_000, tokens=tokens).scale == scale


@table(
    ("tokens", "units", "scale"),
    [
        (900.0, 100_000, 0.9),
        (50.0, 100_000, 0.05),
        (1.0, 100_000, 0.02),
        (99_999.0, 1_000, 8.0),
        (5.0, 0, 1.0),
    ],
)
def test_a_request_has_the_scale_that_its_own_text_asks_for(
    tokens: float, units: int, scale: float
) -> None:
    """Separator lines come to a twentieth of the estimate, Amharic to three times it."""
    assert session_scale(tokens, units) == pytest.approx(scale)
