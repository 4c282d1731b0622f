"""Model windows by name."""

from __future__ import annotations

import pytest

from everturn_actors.context.calibration import ModelFacts
from everturn_actors.context.windows import input_window, model_window
from everturn_actors.spec import ModelSpec


@pytest.mark.parametrize(
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
        ("SmolLM2-135M-Instruct", 4096),
        ("", 128_000),
    ],
)
def test_the_first_part_of_a_name_that_matches_decides(name: str, tokens: int) -> None:
    """A version stands before its family: matched in another order, windows come out wrong."""
    assert model_window(name) == tokens


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("window", "cap", "told", "limit", "tokens"),
    [
        (None, None, 32_768, None, 32_768),  # better than the table
        (None, None, None, 16_384, 16_384),
        (None, None, 32_768, 16_384, 16_384),
        (None, None, 8_192, 16_384, 8_192),
        (64_000, None, 32_768, None, 64_000),  # the spec is law
        (None, 64_000, 32_768, None, 64_000),
        (64_000, 48_000, 32_768, None, 48_000),
        (64_000, 48_000, 128_000, 16_384, 16_384),  # but for what was refused
        (None, 8_000, None, 16_384, 8_000),
    ],
)
def test_what_the_provider_says_beats_the_table_and_what_it_refuses_beats_all(
    window: int | None, cap: int | None, told: int | None, limit: int | None, tokens: int
) -> None:
    """A request larger than what was refused would be refused again, with every turn."""
    model = ModelSpec(provider="openai", name="qwen3", context_window=window, max_input_tokens=cap)
    facts = ModelFacts(scale=1.0, window_tokens=told, limit_tokens=limit)

    assert input_window(model, facts) == tokens
