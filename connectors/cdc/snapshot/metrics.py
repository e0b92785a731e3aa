"""Metrics of snapshots, from the progress of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connect.metrics import Metric

_SNAPSHOT = {
    "tables_total": ("tables", "Tables of the snapshot."),
    "tables_done": ("tables_done", "Tables of the snapshot that are complete."),
    "rows": ("rows", "Rows that the snapshot has read."),
    "rows_estimate": ("rows_estimate", "Rows that the snapshot will read, estimated."),
    "bytes": ("bytes", "Bytes that the snapshot has read."),
    "rate": ("rows_per_second", "Rows per second, on average."),
    "seconds_left": ("seconds_left", "Time until the snapshot is complete, estimated."),
}
_INCREMENTAL = {
    "rows": ("rows", "Rows that the incremental snapshot has read."),
    "paused": ("paused", "1 while the incremental snapshot is paused."),
}


def snapshot_metrics(database: str, progress: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Metric]:
    """Yields the metrics of a snapshot, if there is one; ``database`` begins their names."""
    if "tables_total" in progress:
        yield from number_metrics(f"{database}_snapshot", _SNAPSHOT, progress, labels)


def incremental_metrics(database: str, progress: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Metric]:
    """Yields the metrics of an incremental snapshot, if there is one."""
    yield from number_metrics(
        f"{database}_incremental_snapshot", _INCREMENTAL, progress.get("incremental_snapshot") or {}, labels
    )


def number_metrics(
    prefix: str, names: Mapping[str, tuple[str, str]], values: Mapping[str, Any], labels: Mapping[str, str]
) -> Iterator[Metric]:
    """Yields the values that are numbers; ``names`` has the end of each metric's name and its help."""
    for key, (name, help) in names.items():
        if isinstance(value := values.get(key), int | float):
            yield Metric(f"{prefix}_{name}", value, help, labels=labels)
