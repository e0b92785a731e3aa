"""Rates, averages, and maxima of the recent past, computed as Kafka's ``SampledStat`` and ``Rate`` do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """``metrics.sample.window.ms``, in seconds, and ``metrics.num.samples``."""

    sample_s: float = 30.0
    samples: int = 2


class WindowSummary(NamedTuple):
    """The values of a window. All are 0 without values, where Kafka has NaN."""

    values: int
    """The number of values."""
    rate: float
    """The sum per second."""
    average: float
    maximum: float
    minimum: float


NO_VALUES = WindowSummary(0, 0.0, 0.0, 0.0, 0.0)


class _Sample:
    __slots__ = ("count", "largest", "smallest", "started_at", "total")

    def __init__(self, started_at: float) -> None:
        self.started_at = started_at
        self.count = 0
        self.total = 0.0
        self.largest = self.smallest = 0.0


class SampledWindow:
    """The values of the last ``samples`` periods. One thread records; any may read. Times are ``time.monotonic()``."""

    __slots__ = ("_samples", "_settings", "_span_s")

    def __init__(self, settings: WindowSettings) -> None:
        self._settings = settings
        self._span_s = settings.sample_s * settings.samples
        self._samples: tuple[_Sample, ...] = ()

    def record(self, value: float, now: float) -> None:
        """Adds a value."""
        samples = self._samples
        if not samples or now - samples[-1].started_at >= self._settings.sample_s:
            # A new tuple, so that readers always see a consistent one.
            samples = self._samples = (*samples, _Sample(now))[-self._settings.samples :]
        sample = samples[-1]
        if sample.count == 0:
            sample.largest = sample.smallest = value
        elif value > sample.largest:
            sample.largest = value
        elif value < sample.smallest:
            sample.smallest = value
        sample.total += value
        sample.count += 1

    def summary(self, now: float) -> WindowSummary:
        """Returns what the values of the window amount to."""
        samples, oldest = self._samples, now - self._span_s
        if not samples or samples[-1].started_at <= oldest:
            return NO_VALUES
        if samples[0].started_at <= oldest:
            samples = tuple(sample for sample in samples if sample.started_at > oldest)
        first = samples[0]
        count, total, largest, smallest = first.count, first.total, first.largest, first.smallest
        for sample in samples[1:]:
            if sample.count:
                count, total = count + sample.count, total + sample.total
                largest, smallest = max(largest, sample.largest), min(smallest, sample.smallest)
        if not count:
            return NO_VALUES
        # As Kafka's Rate: a window that has just begun counts as if all but one of its samples were full.
        settings, elapsed_s = self._settings, now - first.started_at
        elapsed_s += max(0, settings.samples - 1 - int(elapsed_s / settings.sample_s)) * settings.sample_s
        return WindowSummary(count, total / elapsed_s if elapsed_s > 0 else 0.0, total / count, largest, smallest)
