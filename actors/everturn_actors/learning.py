"""What was learnt about models, where it need not survive the process."""

from __future__ import annotations

from dataclasses import dataclass, field

from everturn_actors.context.calibration import ModelFacts, cold_facts
from everturn_actors.spec import ModelSpec


@dataclass(slots=True)
class ShortMemory:
    """A `ModelMemory` that lasts as long as it lives."""

    _known: dict[tuple[str, str], ModelFacts] = field(
        default_factory=dict[tuple[str, str], ModelFacts]
    )
    "By provider and name."

    def facts(self, model: ModelSpec) -> ModelFacts:
        """See `ModelMemory.facts`."""
        return self._known.get((model.provider, model.name)) or cold_facts(model.name)

    def learn(self, model: ModelSpec, facts: ModelFacts) -> None:
        """See `ModelMemory.learn`."""
        self._known[model.provider, model.name] = facts
