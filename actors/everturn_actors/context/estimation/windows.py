"""The context window of a model, known by its name. Pure.

Source: the seed design "Context Window Management", which read OpenRouter's model pages.
"""

from __future__ import annotations

from functools import lru_cache

from everturn_actors.context.estimation.calibration import Hint, ModelStatistics
from everturn_actors.context.estimation.hints import without_hints
from everturn_actors.spec import ModelSpec

DEFAULT_WINDOW_TOKENS = 128_000
_TWICE = 2  # one refusal may be of something else, or of another server

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
)


@lru_cache(maxsize=256)  # each request asks it of the same few names
def model_window(name: str) -> int:
    """Return the window of the model `name`, in tokens; 128,000 for an unknown one."""
    lowered = name.lower()
    return next((tokens for part, tokens in _WINDOWS if part in lowered), DEFAULT_WINDOW_TOKENS)


def input_window(model: ModelSpec, statistics: ModelStatistics | None = None) -> int:
    """Return how many tokens a request to `model` may hold, the reply included.

    A window that the spec names stands, whatever a server says of itself; `max_input_tokens` caps
    it. Where the spec names none, the rest is only a guess, and `max_input_tokens` stands in its
    place: it lowers it (cost), or raises it (a model no table knows). What the provider tells comes
    before what its plug-in lists, and that before the table here. A limit by which it refused a
    request lowers all of them, for as long as it is believed; the spec's window only once it
    refused a second one so.

    Args:
        model: The agent's model.
        statistics: What was learnt about it; None = nothing.
    """
    window, cap = model.context_window, model.max_input_tokens
    if window is not None:
        window = window if cap is None else min(window, cap)
        limit = _twice_refused(statistics)
        return window if limit is None else min(window, limit)
    if cap is not None:
        window = cap
    else:
        told = statistics.window_tokens if statistics else None
        window = told or model.usual_window or model_window(model.name)
    limit = statistics.limit_tokens if statistics else None
    return window if limit is None else min(window, limit)


def _twice_refused(statistics: ModelStatistics | None) -> int | None:
    """Return the limit that more than one refusal was about; None = there is none."""
    hint = statistics.limit if statistics else None
    return None if hint is None or hint.is_over or hint.refusals < _TWICE else hint.tokens


def hint_notes(model: ModelSpec, statistics: ModelStatistics) -> tuple[str, ...]:
    """Return what single refusals taught of a model and what that means, as sentences for people.

    Empty where nothing follows from them.
    """
    return tuple(filter(None, (_limit_note(model, statistics), _tools_note(model, statistics))))


def _limit_note(model: ModelSpec, statistics: ModelStatistics) -> str:
    hint = statistics.limit
    if hint is None or hint.is_over:
        return ""
    words = (
        "named {:,} tokens when it" if hint.is_named else "named no number, but {:,} was where it"
    )
    said = f"the provider {words.format(hint.tokens)} refused a request {_source(hint)}"
    taken = input_window(model, statistics)
    if model.context_window is not None:
        usual = input_window(model, without_hints(statistics))
        if hint.tokens >= usual:
            return ""
        stands = (
            "stands"
            if taken == usual
            else f"requests are made for {taken:,} until {hint.expires_at:%Y-%m-%d %H:%M} UTC"
        )
        return (
            f"spec.model.context_window says {model.context_window:,} tokens, and {stands}, but"
            f" {said}; correct it where that is right, or {_forget(model)}"
        )
    usual = input_window(model, without_hints(statistics))
    if taken == usual:
        return ""
    return (
        f"the window counts as {taken:,} tokens, not {usual:,}: {said}; it is tried again from"
        f" {hint.expires_at:%Y-%m-%d %H:%M} UTC on, or at once after {_forget(model)};"
        " spec.model.context_window would stand above it"
    )


def _tools_note(model: ModelSpec, statistics: ModelStatistics) -> str:
    hint = statistics.no_tools
    if hint is None or hint.is_over:
        return ""
    return (
        f"the model is offered no tools: the provider refused them {_source(hint)}; they are tried"
        f" again from {hint.expires_at:%Y-%m-%d %H:%M} UTC on, or at once after {_forget(model)}"
    )


def _source(hint: Hint) -> str:
    return f"on {hint.observed_at:%Y-%m-%d %H:%M} UTC ({hint.said})"


def _forget(model: ModelSpec) -> str:
    return f"`everturn model forget {model.provider}/{model.name}`"
