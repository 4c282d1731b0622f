"""What was learnt about models, where it need not survive the process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from everturn_actors.context.estimation.calibration import ModelStatistics, prior_statistics
from everturn_actors.context.estimation.hints import statistics_at
from everturn_actors.spec import ModelSpec


class InMemoryModelStatistics:
    """A `ModelStatisticsStore` that lasts as long as it lives."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        """Begin knowing nothing; without `now`, the present instant, no hint expires."""
        self._now = now
        self._known: dict[tuple[str, str, str], ModelStatistics] = {}

    def of(self, model: ModelSpec) -> ModelStatistics:
        """See `ModelStatisticsStore.of`."""
        known = self._known.get(_key(model))
        if known is None:
            return prior_statistics(model.name)
        return known if self._now is None else statistics_at(known, self._now())

    def record(self, model: ModelSpec, statistics: ModelStatistics) -> None:
        """See `ModelStatisticsStore.record`."""
        self._known[_key(model)] = statistics


def _key(model: ModelSpec) -> tuple[str, str, str]:
    return model.provider, model.base_url, model.name
