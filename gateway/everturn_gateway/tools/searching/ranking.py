"""Which tools fit what a model looks for, the best first. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from everturn_actors.json_values import as_object
from everturn_actors.model import ToolDefinition

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+")
_NAME_WEIGHT: Final = 4  # a word of the name says more than one of the description
_START_CHARACTERS: Final = 4  # `issues` finds `issue`, `searching` finds `search`


def ranked(query: str, tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
    """Return the tools that have words of `query`, the best first; of equals by name.

    A word that few tools have counts more. Whoever names a tool gets it first.
    """
    wanted = list(dict.fromkeys(map(_stem, _words(query))))
    named = query.casefold()
    entries = [(tool, _weights(tool)) for tool in sorted(tools, key=lambda each: each.name)]
    rarity = {
        word: math.log(1 + len(entries) / (1 + sum(word in weights for _, weights in entries)))
        for word in wanted
    }
    scored = [
        (
            tool.name.casefold() not in named,
            -sum(rarity[word] * weights.get(word, 0) for word in wanted),
            tool,
        )
        for tool, weights in entries
    ]
    fitting = [each for each in scored if each[1] or not each[0]]
    return [tool for *_, tool in sorted(fitting, key=lambda each: each[:2])]


def _weights(tool: ToolDefinition) -> dict[str, int]:
    arguments = as_object(tool.parameters.get("properties"))
    weights = dict.fromkeys(map(_stem, _words(f"{tool.description} {' '.join(arguments)}")), 1)
    return weights | dict.fromkeys(map(_stem, _words(tool.name)), _NAME_WEIGHT)


def _words(text: str) -> Sequence[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    """Return what the forms of a word begin with, roughly; no list of languages is needed."""
    for end in ("ing", "es", "s", "ed"):
        if word.endswith(end) and len(word) - len(end) >= _START_CHARACTERS:
            return word[: -len(end)].removesuffix("e")
    return word.removesuffix("e") if len(word) > _START_CHARACTERS else word
