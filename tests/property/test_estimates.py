"""What holds for every text and every report."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from support.conversations import turns
from support.examples import examples

from everturn_actors.context.estimation.calibration import (
    SCALE_MAX,
    SCALE_MIN,
    ModelStatistics,
    correction_tokens,
    learn,
    prior_statistics,
    session_scale,
)
from everturn_actors.context.estimation.estimates import (
    Estimates,
    message_units,
    text_units,
    turn_units,
)
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


@examples(20)
@given(turns())
def test_a_turn_costs_the_sum_of_its_messages(turn: Turn) -> None:
    """Turns are dropped whole; what that gains is counted by messages."""
    assert turn_units(turn) == sum(map(message_units, turn.messages))


@given(FACTS, AMOUNTS, AMOUNTS)
def test_no_report_takes_the_scale_out_of_its_bounds(
    facts: ModelStatistics, units: int, tokens: int
) -> None:
    """Whatever a provider reports, the next estimate is one."""
    learnt = learn(facts, units=units, tokens=tokens)

    assert SCALE_MIN <= learnt.scale <= SCALE_MAX
    assert learnt.units >= facts.units or learnt.units == 2_000_000


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
        learnt = learn(facts, units=units, tokens=round(units * rate / 100))

        assert abs(learnt.scale - rate) <= abs(facts.scale - rate) + 0.02
        facts = learnt


@given(st.floats(SCALE_MIN, SCALE_MAX), st.sampled_from(["gpt-5", "claude-opus-5", "m"]))
def test_after_a_hundred_thousand_tokens_the_scale_is_found(rate: float, name: str) -> None:
    """The guess by name must not outlive what was seen."""
    facts = prior_statistics(name)
    for _ in range(50):
        facts = learn(facts, units=200_000, tokens=round(2_000 * rate))

    assert abs(facts.scale / rate - 1) < 0.01


@given(FACTS, AMOUNTS, AMOUNTS, st.integers(0, 100_000_000))
def test_a_correction_is_at_most_half_of_the_estimate(
    facts: ModelStatistics, sent: int, reported: int, now: int
) -> None:
    """A wrong report may cost room; it must not make a request look empty, or like ten."""
    correction = correction_tokens(facts, sent_units=sent, reported_tokens=reported, now_units=now)

    assert abs(correction) <= 0.5 * facts.scale * now / 100 + 1
    assert SCALE_MIN <= session_scale(facts, sent_units=sent, reported_tokens=reported) <= SCALE_MAX


@given(FACTS, st.integers(10_000, 10_000_000), st.floats(0.9, 1.1), st.integers(0, 1_000_000))
def test_more_to_send_is_never_predicted_to_be_less(
    facts: ModelStatistics, sent: int, drift: float, more: int
) -> None:
    """R8: dropping a message must not make the rest look larger."""
    reported = round(sent * facts.scale * drift / 100)

    def predicted(now: int) -> int:
        correction = correction_tokens(
            facts, sent_units=sent, reported_tokens=reported, now_units=now
        )
        return Estimates(facts.scale).tokens(now) + correction

    assert predicted(sent) - 2 <= predicted(sent + more)
    assert abs(predicted(sent) - reported) <= 2
