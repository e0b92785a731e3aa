"""Metrics of the source: slot, WAL, stream, and snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connect.metrics import Metric, MetricKind
from connectors.cdc.snapshot.metrics import incremental_metrics, number_metrics, snapshot_metrics

_STREAM = {
    "lag_bytes": ("lag_bytes", "WAL between the position of the stream and the end of the server's WAL."),
    "lag_seconds": ("lag_seconds", "Age of the WAL after the position of the stream, as of the last check."),
}
_SLOT = {
    "active": ("slot_active", "1 while somebody reads from the slot."),
    "lag_bytes": ("slot_lag_bytes", "WAL after the slot's confirmed position."),
    "lag_seconds": ("slot_lag_seconds", "Age of the WAL after the slot's confirmed position."),
    "retained_bytes": ("slot_retained_bytes", "WAL that the server keeps for the slot."),
    "safe_wal_size": ("slot_safe_wal_bytes", "WAL that can be written until the slot is lost; absent without a limit."),
    "wal_lost_in_seconds": ("slot_lost_in_seconds", "Time until the slot is lost at the current rate; absent if never."),
}


def progress_metrics(progress: Mapping[str, Any], slot_name: str) -> Iterator[Metric]:
    """Yields the metrics in a task's progress (:meth:`connectors.postgres.capture.ChangeCapture.progress`). What is unknown, or
    does not apply, has no metric."""
    labels = {"slot": slot_name}
    yield Metric("postgres_phase_info", 1, "What the task does; always 1.", labels={**labels, "phase": str(progress["phase"])})
    if isinstance(events := progress.get("events"), int):
        yield Metric("postgres_events_total", events, "Changes read from the stream.", MetricKind.COUNTER, labels)
    yield from number_metrics("postgres", _STREAM, progress, labels)
    slot = progress.get("slot") or {}
    yield from number_metrics("postgres", _SLOT, slot, labels)
    if slot:
        wal_status = {**labels, "wal_status": str(slot.get("wal_status"))}
        yield Metric("postgres_slot_wal_status_info", 1, "The slot's wal_status; always 1.", labels=wal_status)
        help = "When the slot was last checked, in seconds since 1970."
        yield Metric("postgres_slot_checked_timestamp_seconds", slot["checked_at_ms"] / 1000, help, labels=labels)
    for code in sorted({str(problem["code"]) for problem in progress.get("problems", ())}):
        yield Metric("postgres_problem_info", 1, "A problem of the source; always 1.", labels={**labels, "code": code})
    yield from snapshot_metrics("postgres", progress, labels)
    yield from incremental_metrics("postgres", progress, labels)
