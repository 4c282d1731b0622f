"""What holds for every text and every report."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.conversations import turns
from support.examples import examples

from everturn_actors.context.estimation.calibration import (
    SCALE_MAX,
    SCALE_MIN,
    ModelStatistics,
    learn,
    prior_statistics,
)
from everturn_actors.context.estimation.classes import (
    USUAL,
    priced,
    text_counts,
)
from everturn_actors.context.estimation.estimates import (
    Estimates,
    message_units,
    text_units,
    turn_units,
)
from everturn_actors.context.estimation.prices import checked, corrected, usual_prices
from everturn_actors.model import Turn, UserMessage

TEXTS = st.text(st.characters(exclude_categories=()))  # lone surrogates included
LONG_TEXTS = st.builds(lambda text, times: text * times, TEXTS, st.integers(1, 400))
CJK = st.text(
    st.one_of(
        st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF),  # Chinese characters
        st.characters(min_codepoint=0x3041, max_codepoint=0x30FF),  # kana
        st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),  # Hangul
        st.characters(min_codepoint=0x20000, max_codepoint=0x2FA1F),  # rare Chinese characters
    ),
    min_size=1,
)
SAMPLES = (
    "The quick brown fox jumps over the lazy dog, twice a day. " * 9,
    "def run(self) -> None:\n        return self._value[0]\n" * 9,
    "漢字とかな" * 60,
    "-" * 400,
    "2026-11-26T10:00:00Z 12345 " * 12,
)
SCALES = st.floats(SCALE_MIN, SCALE_MAX)
FACTS = st.builds(
    ModelStatistics,
    scale=SCALES,
    reports=st.integers(0, 1000),
    units=st.integers(0, 2_000_000),
)
AMOUNTS = st.integers(-10_000, 100_000_000)


@given(LONG_TEXTS, TEXTS, SCALES)
@example("\ud83d", "\udd25", 1.0)  # together they are one emoji only in UTF-16
def test_a_longer_text_never_costs_less(text: str, more: str, scale: float) -> None:
    """IN-11: a trimmer that appends its marker must not make a text cheaper."""
    count = Estimates(scale)

    assert 0 <= count.text(text) <= count.text(text + more)
    assert text_units(text + more) == text_units(text) + text_units(more)


@given(CJK, SCALES)
def test_chinese_japanese_and_korean_are_not_undercounted(text: str, scale: float) -> None:
    """IN-11: bytes by four gives too little for them, and such sessions overflow."""
    assert Estimates(scale).text(text) >= 0.6 * len(text)


@given(st.lists(LONG_TEXTS, max_size=5), SCALES)
def test_sums_hold_however_a_conversation_is_counted(parts: list[str], scale: float) -> None:
    """What stays and what goes is decided by sums; they must not depend on the pieces."""
    messages = [UserMessage(text=part) for part in parts]
    whole = UserMessage(text="".join(parts))
    envelopes = message_units(UserMessage(text=""))
    units = sum(map(message_units, messages))

    assert units - len(parts) * envelopes == message_units(whole) - envelopes
    assert Estimates(scale).tokens(units) <= sum(Estimates(scale).message(m, 0) for m in messages)


@examples(12)
@given(turns())
def test_a_turn_costs_the_sum_of_its_messages(turn: Turn) -> None:
    """Turns are dropped whole; what that gains is counted by messages."""
    assert turn_units(turn) == sum(map(message_units, turn.messages))


@given(FACTS, AMOUNTS, AMOUNTS)
def test_no_report_takes_the_scale_out_of_its_bounds(
    facts: ModelStatistics, units: int, tokens: int
) -> None:
    """Whatever a provider reports, the next estimate is one."""
    observed = learn(facts, units=units, tokens=tokens)

    assert SCALE_MIN <= observed.scale <= SCALE_MAX
    assert observed.units >= facts.units or observed.units == 2_000_000


@given(FACTS, st.integers(max_value=0), AMOUNTS)
def test_reports_of_nothing_change_nothing(
    facts: ModelStatistics, nothing: int, units: int
) -> None:
    """Zero usage is what a server without usage reports; a negative one is stale."""
    assert learn(facts, units=units, tokens=nothing) == facts
    assert learn(facts, units=nothing, tokens=units) == facts


@given(FACTS, st.floats(SCALE_MIN, SCALE_MAX), st.lists(st.integers(5_000, 500_000), min_size=1))
def test_reports_of_one_rate_only_bring_the_scale_nearer(
    facts: ModelStatistics, rate: float, sizes: list[int]
) -> None:
    """A mean never overshoots, however the sizes vary."""
    for units in sizes:
        observed = learn(facts, units=units, tokens=round(units * rate / 100))

        assert abs(observed.scale - rate) <= abs(facts.scale - rate) + 0.02
        facts = observed


@given(st.floats(SCALE_MIN, SCALE_MAX), st.sampled_from(["gpt-5", "claude-opus-5", "m"]))
def test_after_a_hundred_thousand_tokens_the_scale_is_found(rate: float, name: str) -> None:
    """The guess by name must not outlive what was seen."""
    facts = prior_statistics(name)
    for _ in range(50):
        facts = learn(facts, units=200_000, tokens=round(2_000 * rate))

    assert abs(facts.scale / rate - 1) < 0.01


COUNTED = st.lists(LONG_TEXTS, min_size=1, max_size=6)


@given(COUNTED, st.lists(AMOUNTS, min_size=1, max_size=6))
def test_no_report_takes_a_price_out_of_its_bounds(parts: list[str], reports: list[int]) -> None:
    """Whatever a provider says, every text costs something, and none a thousand times too much."""
    prices = usual_prices(1.0)
    for text, tokens in zip(parts * 6, reports, strict=False):
        prices = corrected(prices, text_counts(text), tokens)

    assert checked(prices) == prices
    assert all(doubt >= 0 for doubt in prices.doubts)


@given(st.floats(0.3, 3.0), st.lists(st.sampled_from(SAMPLES), min_size=30, max_size=60))
def test_a_tokenizer_that_goes_by_class_is_found(scale: float, texts: list[str]) -> None:
    """After some reports what comes next is predicted within a few percent."""
    prices, own = usual_prices(1.0), [scale * price for price in USUAL]
    for text in texts:
        counts = text_counts(text)
        prices = corrected(prices, counts, round(priced(counts, own)))
    for text in set(texts[:20]) & set(texts[20:]):
        counts = text_counts(text)

        assert priced(counts, prices.each) == pytest.approx(priced(counts, own), rel=0.15)


@given(st.text(st.characters(max_codepoint=127), max_size=300))
def test_the_class_of_a_character_is_the_same_in_any_text(text: str) -> None:
    """Short texts of plain characters are counted in another way than all others."""
    assert text_counts(text)[:10] == text_counts(f"{text}é")[:10]
