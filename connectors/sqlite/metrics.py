"""Metrics of the source: stream and snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from connect.metrics import Metric, MetricKind
from connectors.cdc.snapshot.metrics import incremental_metrics, number_metrics, snapshot_metrics

_STREAM: Final = {"lag_rows": ("lag_rows", "Changes in the change table after the position of the stream.")}


def progress_metrics(progress: Mapping[str, Any], topic_prefix: str) -> Iterator[Metric]:
    """Yields the metrics in a task's progress. What is unknown, or does not apply, has no metric."""
    labels = {"server": topic_prefix}
    yield Metric("sqlite_phase_info", 1, "What the task does; always 1.", labels={**labels, "phase": str(progress["phase"])})
    if isinstance(events := progress.get("events"), int):
        yield Metric("sqlite_events_total", events, "Changes read from the change table.", MetricKind.COUNTER, labels)
    yield from number_metrics("sqlite", _STREAM, progress, labels)
    yield from snapshot_metrics("sqlite", progress, labels)
    yield from incremental_metrics("sqlite", progress, labels)
