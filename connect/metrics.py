"""Figures that a connector's task exports through its worker: :meth:`connect.source.SourceTask.metrics` and
:meth:`connect.sink.SinkTask.metrics`.

The worker adds the labels ``connector`` and ``task`` and the prefix ``sluice_``, and serves them at ``GET /metrics``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""Bounds of the buckets for the time of one call, in seconds."""
AGES = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Bounds of the buckets for the age of records, in seconds."""


class MetricKind(Enum):
    """Prometheus's types of metrics."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only grows, until the task starts again. Its name ends in ``_total``."""
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class HistogramFigures:
    """The state of a :class:`Histogram`."""

    bounds: Sequence[float]
    counts: Sequence[int]
    """Observations per bucket, not cumulative; the last one is for values above all bounds."""
    total: float
    """The sum of all observations."""

    @property
    def count(self) -> int:
        return sum(self.counts)


class Histogram:
    """Counts observations by size. One thread observes; any may read the figures."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def figures(self) -> HistogramFigures:
        return HistogramFigures(self._bounds, tuple(self._counts), self._total)


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a task.

    The name is in snake_case, begins with the system, and ends with the unit (``postgres_slot_lag_bytes``), or with ``_total``
    for a counter. All metrics of one name have the same kind, help, and label names. Labels must have few values in total, such
    as tables, and no secrets; the worker drops metrics with invalid names and those beyond the first 2,000 of a task.
    """

    name: str
    value: float | HistogramFigures
    help: str
    kind: MetricKind = MetricKind.GAUGE
    labels: Mapping[str, str] = field(default_factory=dict)


__all__ = ["AGES", "SECONDS", "Histogram", "HistogramFigures", "Metric", "MetricKind"]
