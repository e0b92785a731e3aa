"""Metrics of the source: slot, WAL, stream, and snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connect.metrics import Metric, MetricKind

_STREAM = {
    "lag_bytes": ("postgres_lag_bytes", "WAL between the position of the stream and the end of the server's WAL."),
    "lag_seconds": ("postgres_lag_seconds", "Age of the WAL after the position of the stream, as of the last check."),
}
_SLOT = {
    "active": ("postgres_slot_active", "1 while somebody reads from the slot."),
    "lag_bytes": ("postgres_slot_lag_bytes", "WAL after the slot's confirmed position."),
    "lag_seconds": ("postgres_slot_lag_seconds", "Age of the WAL after the slot's confirmed position."),
    "retained_bytes": ("postgres_slot_retained_bytes", "WAL that the server keeps for the slot."),
    "safe_wal_size": ("postgres_slot_safe_wal_bytes", "WAL that can be written until the slot is lost; absent without a limit."),
    "wal_lost_in_seconds": ("postgres_slot_lost_in_seconds", "Time until the slot is lost at the current rate; absent if never."),
}
_SNAPSHOT = {
    "tables_total": ("postgres_snapshot_tables", "Tables of the snapshot."),
    "tables_done": ("postgres_snapshot_tables_done", "Tables of the snapshot that are complete."),
    "rows": ("postgres_snapshot_rows", "Rows that the snapshot has read."),
    "rows_estimate": ("postgres_snapshot_rows_estimate", "Rows that the snapshot will read, estimated."),
    "bytes": ("postgres_snapshot_bytes", "Bytes that the snapshot has read."),
    "rate": ("postgres_snapshot_rows_per_second", "Rows per second, on average."),
    "seconds_left": ("postgres_snapshot_seconds_left", "Time until the snapshot is complete, estimated."),
}
_INCREMENTAL = {
    "rows": ("postgres_incremental_snapshot_rows", "Rows that the incremental snapshot has read."),
    "paused": ("postgres_incremental_snapshot_paused", "1 while the incremental snapshot is paused."),
}


def progress_metrics(progress: Mapping[str, Any], slot_name: str) -> Iterator[Metric]:
    """Yields the metrics in a task's progress (:meth:`connectors.postgres.capture.ChangeCapture.progress`). What is unknown, or
    does not apply, has no metric."""
    labels = {"slot": slot_name}
    yield Metric("postgres_phase_info", 1, "What the task does; always 1.", labels={**labels, "phase": str(progress["phase"])})
    if isinstance(events := progress.get("events"), int):
        yield Metric("postgres_events_total", events, "Changes read from the stream.", MetricKind.COUNTER, labels)
    yield from _numbers(_STREAM, progress, labels)
    slot = progress.get("slot") or {}
    yield from _numbers(_SLOT, slot, labels)
    if slot:
        wal_status = {**labels, "wal_status": str(slot.get("wal_status"))}
        yield Metric("postgres_slot_wal_status_info", 1, "The slot's wal_status; always 1.", labels=wal_status)
        help = "When the slot was last checked, in seconds since 1970."
        yield Metric("postgres_slot_checked_timestamp_seconds", slot["checked_at_ms"] / 1000, help, labels=labels)
    for code in sorted({str(problem["code"]) for problem in progress.get("problems", ())}):
        yield Metric("postgres_problem_info", 1, "A problem of the source; always 1.", labels={**labels, "code": code})
    if "tables_total" in progress:
        yield from _numbers(_SNAPSHOT, progress, labels)
    yield from _numbers(_INCREMENTAL, progress.get("incremental_snapshot") or {}, labels)


def _numbers(names: Mapping[str, tuple[str, str]], values: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Metric]:
    for key, (name, help) in names.items():
        if isinstance(value := values.get(key), int | float):
            yield Metric(name, value, help, labels=labels)
