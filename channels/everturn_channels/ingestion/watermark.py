"""How far a platform may be told that everything is taken, where it has one cursor for all chats.

Chats are taken side by side, so events are settled out of their order. No IO.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


class Watermark(Generic[P]):
    """The positions that came, and up to which of them all are settled."""

    def __init__(self) -> None:
        self._open: dict[P, int] = {}
        "As they came: positions, and how many events of each are not settled."
        self.reached: P | None = None
        "The last position up to which everything is settled; None = there is none yet."

    def __contains__(self, position: P) -> bool:
        """Whether an event of this position came, and `advance` has not passed it."""
        return position in self._open

    @property
    def first_open(self) -> P | None:
        """The first position that is not settled; None = all are."""
        return next((position for position, count in self._open.items() if count), None)

    def begin(self, position: P) -> None:
        """Note that an event came; those of one position come together."""
        self._open[position] = self._open.get(position, 0) + 1

    async def settle(self, *positions: P) -> None:
        """Note that an event of each position was settled: `PlatformEvent.confirm`."""
        for position in positions:
            self._open[position] -= 1

    def advance(self) -> None:
        """Pass all positions up to the first that is not settled: they are not shown any more."""
        first = self.first_open
        for position in list(self._open):
            if position == first:
                break
            del self._open[position]
            self.reached = position
