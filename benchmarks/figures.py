"""A figure beside its bar, and the table that shows both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness import show


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, and what it has to be."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    "None = there is none; the floor says what is to be had."
    is_least: bool = False
    "The bar is the least that it may be, not the most."
    floor: float | None = None
    "The same of a bare script, in the same unit; None where there is no such thing."

    def row(self) -> tuple[str, ...]:
        """Return it as a row of the table."""
        bar = met = floor = ratio = ""
        if self.bar is not None:
            bar = f"{'>=' if self.is_least else '<='} {self.bar:,g} {self.unit}"
            holds = self.value >= self.bar if self.is_least else self.value <= self.bar
            met = "yes" if holds else "NO"
        if self.floor:
            floor, ratio = f"{self.floor:,.2f} {self.unit}", f"{self.value / self.floor:.2f}"
        return self.what, f"{self.value:,.2f} {self.unit}", bar, met, floor, ratio


def show_figures(title: str, figures: Iterable[Figure]) -> None:
    """Print figures, each beside its bar and beside the floor."""
    rows = [figure.row() for figure in figures]
    show(title, ("figure", "measured", "bar", "met", "floor", "x floor"), rows)
