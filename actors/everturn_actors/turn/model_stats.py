"""What was learnt about models, where it need not survive the process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from everturn_actors.context.estimation.calibration import ModelFacts, cold_facts, facts_at
from everturn_actors.spec import ModelSpec


class ShortMemory:
    """A `ModelMemory` that lasts as long as it lives."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        """Begin knowing nothing; without `now`, the present instant, no hint expires."""
        self._now = now
        self._known: dict[tuple[str, str, str], ModelFacts] = {}

    def facts(self, model: ModelSpec) -> ModelFacts:
        """See `ModelMemory.facts`."""
        known = self._known.get(_key(model))
        if known is None:
            return cold_facts(model.name)
        return known if self._now is None else facts_at(known, self._now())

    def learn(self, model: ModelSpec, facts: ModelFacts) -> None:
        """See `ModelMemory.learn`."""
        self._known[_key(model)] = facts


def _key(model: ModelSpec) -> tuple[str, str, str]:
    return model.provider, model.base_url, model.name
