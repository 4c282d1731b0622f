"""What each Claude takes, by its name; the rest is found out. Pure: no IO.

Source: https://platform.claude.com/docs/en/build-with-claude/thinking, /effort and
https://platform.claude.com/docs/en/about-claude/models/migration-guide (read 2026-11-22): a budget
of tokens up to 4.5; adaptive thinking and an effort from 4.6 on; no temperature from 4.7 on.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_actors.model import ModelRequest

Effort: TypeAlias = Literal["low", "medium", "high"]
Thinking: TypeAlias = Literal["adaptive", "budget", "none"]

# Where an agent names no limit. Thoughts count towards it, and the newer models think unasked.
OUTPUT_TOKENS = 4096
THINKING_OUTPUT_TOKENS = 16_384

# Tokens of thought; the least that the API takes is 1,024.
BUDGET_TOKENS: Final[dict[Effort, int]] = {"low": 2048, "medium": 8192, "high": 16_384}
BUDGET_FLOOR_TOKENS = 1024

_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_Version: TypeAlias = tuple[int, int]

_NEWEST: Final[_Version] = (99, 0)
_FIRST_THINKING: Final[_Version] = (3, 7)
_FIRST_ADAPTIVE: Final[_Version] = (4, 6)
_FIRST_WITHOUT_TEMPERATURE: Final[_Version] = (4, 7)


class ModelCapabilities(Struct, frozen=True, kw_only=True):
    """How a model wants its requests."""

    thinking: Thinking
    "How it is made to think, where the agent says how much."
    takes_temperature: bool
    output_tokens: int
    "Its limit where the agent names none."


def capabilities_of(name: str) -> ModelCapabilities:
    """Return the capabilities of the model `name`; one that is unknown is taken for a new one."""
    lowered = name.lower()
    if "claude" not in lowered:  # somebody else's model behind the same API
        return ModelCapabilities(
            thinking="budget", takes_temperature=True, output_tokens=OUTPUT_TOKENS
        )
    version = _version_of(lowered)
    adaptive = version >= _FIRST_ADAPTIVE
    thinking: Thinking = "budget" if version >= _FIRST_THINKING else "none"
    return ModelCapabilities(
        thinking="adaptive" if adaptive else thinking,
        takes_temperature=version < _FIRST_WITHOUT_TEMPERATURE,
        output_tokens=THINKING_OUTPUT_TOKENS if adaptive else OUTPUT_TOKENS,
    )


def _version_of(name: str) -> _Version:
    found = _VERSION.search(name)
    if found is None:
        return _NEWEST
    return int(found[1]), int(found[2] or 0)


class Manner(Struct, frozen=True, kw_only=True):
    """How one model wants its requests, as far as is known."""

    thinking: Thinking
    tried: frozenset[Thinking] = frozenset()
    "Ways to think that it refused."
    takes_temperature: bool
    takes_effort: bool = True
    output_tokens: int
    most_tokens: int | None = None
    "The highest limit that it takes, where it named one."
    replays: bool = True
    "Whether it takes back its thoughts."
    marks: bool = True
    "Whether it takes marks for the cache."

    def options(self, request: ModelRequest, *, may_think: bool) -> dict[str, object]:
        """Return the options of a request beside its model, tools and texts.

        `may_think` is False where the API would refuse a budget: in the middle of calls to which
        no thought of this model led.
        """
        limit, effort = request.max_output_tokens or self.output_tokens, request.reasoning_effort
        options: dict[str, object] = {}
        thinks = False
        if effort is not None and self.thinking == "adaptive":
            options["thinking"] = {"type": "adaptive"}
            if self.takes_effort:
                options["output_config"] = {"effort": effort}
            thinks = True
        elif effort is not None and self.thinking == "budget" and may_think:
            budget = BUDGET_TOKENS[effort]
            if request.max_output_tokens is None:
                limit += budget
            if self.most_tokens is not None:
                limit = min(limit, self.most_tokens)
            budget = min(budget, limit // 2)
            if budget >= BUDGET_FLOOR_TOKENS:
                options["thinking"] = {"type": "enabled", "budget_tokens": budget}
                thinks = True
        if self.most_tokens is not None:
            limit = min(limit, self.most_tokens)
        # With thoughts it takes no temperature but its own.
        if request.temperature is not None and self.takes_temperature and not thinks:
            options["temperature"] = min(request.temperature, 1.0)
        return {"max_tokens": limit, **options}


def manner_of(name: str) -> Manner:
    """Return what is known of a model before its first call."""
    capabilities = capabilities_of(name)
    return Manner(
        thinking=capabilities.thinking,
        takes_temperature=capabilities.takes_temperature,
        output_tokens=capabilities.output_tokens,
    )
