"""Metrics of the sources: stream and snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connect.metrics import Metric, MetricKind
from connectors.cdc.snapshot.metrics import incremental_metrics, snapshot_metrics


def progress_metrics(progress: Mapping[str, Any], now_s: float) -> Iterator[Metric]:
    """Yields the metrics in a task's progress, at a time in seconds since 1970. What is unknown, or does not apply, has no
    metric."""
    yield Metric("mysql_phase_info", 1, "What the task does; always 1.", labels={"phase": str(progress["phase"])})
    if isinstance(events := progress.get("events"), int):
        yield Metric("mysql_events_total", events, "Changes read from the stream.", MetricKind.COUNTER, {})
    if isinstance(position := progress.get("pos"), int):
        labels = {"file": str(progress.get("file"))}
        yield Metric("mysql_binlog_position", position, "Position of the stream in a file of the binary log.", labels=labels)
    if isinstance(at := progress.get("last_event_s"), int):
        help = "Age of the last event that was read, by the clocks of server and worker, in seconds."
        yield Metric("mysql_last_event_age_seconds", max(0.0, now_s - at), help, labels={})
    yield from snapshot_metrics("mysql", progress, {})
    yield from incremental_metrics("mysql", progress, {})
