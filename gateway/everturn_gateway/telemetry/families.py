"""Metrics as they are collected, before anybody writes them down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

Kind: TypeAlias = Literal["counter", "gauge", "info"]


class Family(Struct):
    """One metric: what it is, and its values of now, by labels."""

    kind: Kind
    name: str
    text: str
    labels: tuple[str, ...] = ()
    values: list[tuple[Sequence[str], float]] = field(
        default_factory=list[tuple[Sequence[str], float]]
    )
    info: Mapping[str, str] = field(default_factory=dict[str, str])
    "What an info says; it has no values."

    def add(self, labels: Sequence[str], value: float) -> None:
        """Add the value of one series."""
        self.values.append((labels, value))


class HistogramFamily(Struct):
    """One histogram of now."""

    name: str
    text: str
    labels: tuple[str, ...]
    bounds: Sequence[float]
    "Of all buckets but the last, which has no bound."
    counts: Mapping[tuple[str, ...], Sequence[float]]
    "By labels: how many values each bucket has, then their sum."


AnyFamily: TypeAlias = Family | HistogramFamily


def gauge(name: str, text: str, value: float) -> Family:
    """Return a gauge with one value."""
    return Family("gauge", name, text, values=[((), value)])
