"""Metrics as text, by Prometheus' library. Loaded with the first scrape: few gateways have one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from everturn_gateway.telemetry.families import AnyFamily, HistogramFamily


def exposition(families: Sequence[AnyFamily], accept: str) -> tuple[bytes, str]:
    """Return metrics, with those of the process, as text, and its media type.

    Reads files: not for the event loop.

    Args:
        families: What was collected.
        accept: The header of that name; it decides about the format.
    """
    process = ProcessCollector(registry=None)
    encode, media_type = choose_encoder(accept)
    return encode(_Everything((*map(metric_of, families), *process.collect()))), media_type


class _Everything(Collector):
    """Metrics that are there already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


def metric_of(family: AnyFamily) -> Metric:
    """Return a metric as the library has it."""
    if isinstance(family, HistogramFamily):
        return _histogram(family)
    if family.kind == "info":
        return InfoMetricFamily(family.name, family.text, value=dict(family.info))
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.text, labels=family.labels)
    for labels, value in family.values:
        metric.add_metric(labels, value)
    return metric


def _histogram(family: HistogramFamily) -> Metric:
    metric = HistogramMetricFamily(family.name, family.text, labels=family.labels)
    bounds = [*map(str, family.bounds), "+Inf"]
    for labels, counts in family.counts.items():
        buckets = list(zip(bounds, accumulate(counts[:-1]), strict=True))
        metric.add_metric(labels, buckets, sum_value=counts[-1])
    return metric
