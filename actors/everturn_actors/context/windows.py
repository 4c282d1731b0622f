"""The context window of a model, known by its name. Pure.

Source: the seed design "Context Window Management", which read OpenRouter's model pages.
"""

from __future__ import annotations

from everturn_actors.context.calibration import ModelFacts
from everturn_actors.spec import ModelSpec

DEFAULT_WINDOW_TOKENS = 128_000

# A part of the lower-cased name, window in tokens. The first match wins, so a version stands
# before its family.
_WINDOWS = (
    ("claude", 200_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 128_000),
    ("gemini", 1_000_000),
    ("grok-4", 2_000_000),
    ("grok", 131_072),
    ("deepseek-v3", 163_840),
    ("deepseek-chat-v3", 163_840),
    ("deepseek", 128_000),
    ("qwen3", 131_072),
    ("qwen", 128_000),
    ("llama-4", 327_680),
    ("llama", 128_000),
    ("mistral-large", 262_144),
    ("mistral", 128_000),
    ("mixtral", 128_000),
    ("smollm2-135m", 4096),  # ours: trained for 2,048, and served with no more than this
)


def model_window(name: str) -> int:
    """Return the window of the model `name`, in tokens; 128,000 for an unknown one."""
    lowered = name.lower()
    return next((tokens for part, tokens in _WINDOWS if part in lowered), DEFAULT_WINDOW_TOKENS)


def input_window(model: ModelSpec, facts: ModelFacts | None = None) -> int:
    """Return how many tokens a request to `model` may hold, the reply included.

    `max_input_tokens` caps a window that the spec names. Where the spec names none, the rest is
    only a guess, and `max_input_tokens` stands in its place: it lowers it (cost), or raises it (a
    model the table does not know). What the provider tells comes before the table. What it named
    when it refused a request is law.

    Args:
        model: The agent's model.
        facts: What was learnt about it; None = nothing.
    """
    window, cap = model.context_window, model.max_input_tokens
    if window is not None:
        window = window if cap is None else min(window, cap)
    elif cap is not None:
        window = cap
    else:
        window = (facts.window_tokens if facts else None) or model_window(model.name)
    limit = facts.limit_tokens if facts else None
    return window if limit is None else min(window, limit)
