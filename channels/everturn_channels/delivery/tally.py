"""What is counted of deliveries."""

from __future__ import annotations

from typing import Protocol


class Tally(Protocol):
    """Counts what a channel does."""

    def count_out(self) -> None:
        """Note that a message was sent."""
        ...

    def count_given_up(self) -> None:
        """Note that a message was given up: it was pending for too long."""
        ...


class NoTally:
    """Counts nothing."""

    def count_out(self) -> None:
        """Do nothing."""

    def count_given_up(self) -> None:
        """Do nothing."""
