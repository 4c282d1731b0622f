"""What a provider refused of one call as too long, and how much smaller the next try is. Pure.

First by the numbers that the provider names, twice at most: they may be of something else. Then by
halves, for as long as anything can be shortened.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.projection.projection import projection_units
from everturn_actors.context.rendered import Rendered
from everturn_actors.errors import ContextOverflowError

_BY_NUMBER_MAX: Final = 2
_COUNTED, _ESTIMATED = 0.97, 0.9  # of what was named: the size of a refused request is known or not
_AGAIN = 0.85  # of that, where the first try by the number was refused as well
_WORTH = 0.97  # of the messages; a request that is hardly smaller is refused again


class Refusals(Struct, kw_only=True):
    """The refusals of one model call."""

    times: int = 0
    by_number: int = 0
    "Tries that went by what was named."
    unnamed_units: int = 0
    "The smallest request that was refused without a number; 0 = none was."
    unnamed_output_tokens: int = 0
    "What that request asked to be kept for the reply."
    said: str = ""

    def add(self, rendered: Rendered, error: ContextOverflowError) -> int:
        """Take note of a refusal; return what messages may cost in the next try, in units."""
        self.times, self.said = self.times + 1, str(error)
        output_tokens = rendered.request.max_output_tokens or 0
        if not error.window_tokens:
            self.unnamed_units = rendered.fingerprint.units
            self.unnamed_output_tokens = output_tokens
        messages = projection_units(rendered.projection)
        by_number = self._by_number(rendered, error, output_tokens)
        if by_number is not None and 0 < by_number < _WORTH * messages:
            self.by_number += 1
            return by_number
        return messages // 2

    def _by_number(
        self, rendered: Rendered, error: ContextOverflowError, output_tokens: int
    ) -> int | None:
        """Return what messages may cost by the provider's own numbers; None = by none."""
        limit, units = error.window_tokens, rendered.fingerprint.units
        if not limit or self.by_number >= _BY_NUMBER_MAX:
            return None
        counted = error.prompt_tokens or max(rendered.tokens, limit + 1)
        share = _COUNTED if error.prompt_tokens else _ESTIMATED
        share *= _AGAIN if self.by_number else 1.0
        room_tokens = limit * share - output_tokens
        fixed = units - projection_units(rendered.projection)
        return int(room_tokens * units / counted) - fixed

    def refused_tokens(self, statistics: ModelStatistics, rendered: Rendered, tokens: int) -> int:
        """Return the size of the smallest request that was refused without a number; 0 = none.

        Args:
            statistics: Of the model.
            rendered: The request that was taken at last; its kind of text is that of the others.
            tokens: What the provider reported for it; 0 = nothing.
        """
        if not self.unnamed_units:
            return 0
        units = rendered.fingerprint.units
        each = tokens / units if tokens and units else statistics.scale / 100
        return int(each * self.unnamed_units) + self.unnamed_output_tokens
