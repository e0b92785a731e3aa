"""Metrics of the source: stream and snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from connect.metrics import Metric, MetricKind

_NUMBERS: Final = {
    "lag_rows": ("sqlite_lag_rows", "Changes in the change table after the position of the stream."),
    "tables_total": ("sqlite_snapshot_tables", "Tables of the snapshot."),
    "tables_done": ("sqlite_snapshot_tables_done", "Tables of the snapshot that are complete."),
    "rows": ("sqlite_snapshot_rows", "Rows that the snapshot has read."),
    "rows_estimate": ("sqlite_snapshot_rows_estimate", "Rows that the snapshot will read, estimated."),
    "rate": ("sqlite_snapshot_rows_per_second", "Rows per second, on average."),
    "seconds_left": ("sqlite_snapshot_seconds_left", "Time until the snapshot is complete, estimated."),
}


def progress_metrics(progress: Mapping[str, Any], topic_prefix: str) -> Iterator[Metric]:
    """Yields the metrics in a task's progress. What is unknown, or does not apply, has no metric."""
    labels = {"server": topic_prefix}
    yield Metric("sqlite_phase_info", 1, "What the task does; always 1.", labels={**labels, "phase": str(progress["phase"])})
    if isinstance(events := progress.get("events"), int):
        yield Metric("sqlite_events_total", events, "Changes read from the change table.", MetricKind.COUNTER, labels)
    for key, (name, help) in _NUMBERS.items():
        if isinstance(value := progress.get(key), int | float):
            yield Metric(name, value, help, labels=labels)
