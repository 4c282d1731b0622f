"""Model windows by name."""

from __future__ import annotations

from datetime import timedelta

from support.tables import table

from everturn_actors.context.estimation.calibration import Hint, ModelStatistics
from everturn_actors.context.estimation.windows import hint_notes, input_window, model_window
from everturn_actors.spec import ModelSpec
from everturn_actors.testing import START


def hint(tokens: int, *, is_over: bool = False) -> Hint:
    """Return a limit that was learnt."""
    return Hint(
        tokens=tokens,
        said="too long",
        observed_at=START,
        expires_at=START + timedelta(hours=24),
        is_over=is_over,
    )


@table(
    ("name", "tokens"),
    [
        ("claude-sonnet-4-20250514", 200_000),
        ("anthropic/Claude-3-Opus", 200_000),
        ("openai/gpt-5-mini", 400_000),
        ("gpt-4.1-nano", 1_000_000),
        ("gpt-4o-mini", 128_000),
        ("gpt-4-turbo", 128_000),
        ("gpt-4", 128_000),
        ("google/gemini-pro", 1_000_000),
        ("x-ai/grok-4.1-fast", 2_000_000),
        ("grok-code-fast-1", 131_072),
        ("deepseek/deepseek-v3.2", 163_840),
        ("deepseek/deepseek-chat-v3-0324", 163_840),
        ("deepseek/deepseek-r1", 128_000),
        ("qwen/qwen3-30b-a3b", 131_072),
        ("qwen/qwen2-72b", 128_000),
        ("meta-llama/llama-4-maverick", 327_680),
        ("meta-llama/llama-3.3-70b", 128_000),
        ("mistral-large-2512", 262_144),
        ("mistral-small", 128_000),
        ("mixtral-8x7b", 128_000),
        ("some-new-model", 128_000),
        ("", 128_000),
    ],
)
def test_the_first_part_of_a_name_that_matches_decides(name: str, tokens: int) -> None:
    """A version stands before its family: matched in another order, windows come out wrong."""
    assert model_window(name) == tokens


@table(
    ("window", "cap", "tokens"),
    [
        (None, None, 200_000),
        (None, 150_000, 150_000),  # costs less
        (None, 1_000_000, 1_000_000),  # the table is a guess; the operator knows
        (32_000, None, 32_000),
        (32_000, 8_000, 8_000),
        (32_000, 64_000, 32_000),  # a cap never makes a known window larger
    ],
)
def test_what_the_operator_says_beats_the_table(
    window: int | None, cap: int | None, tokens: int
) -> None:
    """Existing agent files set `max_input_tokens` both to save cost and to name a window."""
    model = ModelSpec(
        provider="anthropic", name="claude-sonnet-4", context_window=window, max_input_tokens=cap
    )

    assert input_window(model) == tokens


@table(
    ("window", "cap", "told", "limit", "tokens"),
    [
        (None, None, 32_768, None, 32_768),  # better than the table
        (None, None, None, 16_384, 16_384),
        (None, None, 32_768, 16_384, 16_384),
        (None, None, 8_192, 16_384, 8_192),
        (64_000, None, 32_768, None, 64_000),  # the spec is law
        (None, 64_000, 32_768, None, 64_000),
        (64_000, 48_000, 32_768, None, 48_000),
        (64_000, None, 128_000, 16_384, 64_000),  # above what was refused too
        (64_000, 48_000, 128_000, 16_384, 48_000),
        (None, 64_000, None, 16_384, 16_384),  # a cap is no window
        (None, 8_000, None, 16_384, 8_000),
    ],
)
def test_the_spec_s_window_stands_and_all_others_are_lowered_by_a_refusal(
    window: int | None, cap: int | None, told: int | None, limit: int | None, tokens: int
) -> None:
    """Whoever wrote the file knows; a guess would be refused again, with every turn."""
    model = ModelSpec(provider="openai", name="qwen3", context_window=window, max_input_tokens=cap)
    facts = ModelStatistics(scale=1.0, window_tokens=told, limit=hint(limit) if limit else None)

    assert input_window(model, facts) == tokens


def test_a_limit_that_is_over_lowers_nothing() -> None:
    """It is tried again; what is refused then is learnt anew."""
    facts = ModelStatistics(scale=1.0, limit=hint(8_192, is_over=True))

    assert input_window(ModelSpec(provider="openai", name="gpt-5"), facts) == 400_000


FORGET = "`everturn model forget openai/gpt-5`"
NAMED = "the provider named 8,192 tokens when it refused a request on 2026-01-02 03:04 UTC"
LOWERED = (
    f"the window counts as 8,192 tokens, not 400,000: {NAMED} (too long); it is tried again from"
    f" 2026-01-03 03:04 UTC on, or at once after {FORGET}; spec.model.context_window would stand"
    " above it"
)
CONTRADICTED = (
    f"spec.model.context_window says 64,000 tokens, and stands, but {NAMED} (too long); correct it"
    f" where that is right, or {FORGET}"
)


@table(
    ("window", "limit", "notes"),
    [
        (None, hint(8_192), (LOWERED,)),
        (64_000, hint(8_192), (CONTRADICTED,)),
        (4_000, hint(8_192), ()),  # no contradiction
        (None, hint(500_000), ()),
        (None, hint(8_192, is_over=True), ()),
        (None, None, ()),
    ],
)
def test_what_a_limit_means_is_told_with_what_to_do(
    window: int | None, limit: Hint | None, notes: tuple[str, ...]
) -> None:
    """Whoever wonders at a small window must find the reason, and the way out."""
    model = ModelSpec(provider="openai", name="gpt-5", context_window=window)

    assert hint_notes(model, ModelStatistics(scale=1.0, limit=limit)) == notes


def test_a_model_without_tools_is_told_of() -> None:
    """Else its agent seems to have forgotten them."""
    (note,) = hint_notes(
        ModelSpec(provider="ollama", name="m"), ModelStatistics(scale=1.0, no_tools=hint(0))
    )

    assert note.startswith("the model is offered no tools: the provider refused them on 2026-01-02")
    assert note.endswith("or at once after `everturn model forget ollama/m`")
