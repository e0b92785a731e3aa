"""Metrics of slot, WAL, and snapshots, from the progress of a task."""

from __future__ import annotations

from typing import Any

from connectors.postgres.monitoring.metrics import progress_metrics

STREAMING: dict[str, Any] = {
    "phase": "streaming",
    "events": 12,
    "lsn": "0/1",
    "lag_bytes": 300,
    "lag_seconds": 1.5,
    "slot": {
        "active": True,
        "wal_status": "reserved",
        "lag_bytes": 400,
        "lag_seconds": None,
        "retained_bytes": 500,
        "safe_wal_size": None,
        "wal_lost_in_seconds": 60.0,
        "checked_at_ms": 5000,
    },
    "problems": [{"code": "wal_size", "message": "x"}, {"code": "wal_size", "message": "y"}],
}
SNAPSHOT: dict[str, Any] = {
    "phase": "snapshot",
    "tables_done": 1,
    "tables_total": 3,
    "table": "a",
    "rows": 10,
    "rows_estimate": 40,
    "bytes": 100,
    "rate": 2.0,
    "seconds_left": None,
    "incremental_snapshot": {"tables": ["t"], "rows": 7, "paused": False},
    "problems": [],
}


def values(progress: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    return {(one.name, *list(one.labels.values())[1:]): one.value for one in progress_metrics(progress, "slot")}


def test_state_of_slot_and_wal_is_exported_and_what_is_unknown_is_absent() -> None:
    assert values(STREAMING) == {
        ("postgres_phase_info", "streaming"): 1,
        ("postgres_events_total",): 12,
        ("postgres_lag_bytes",): 300,
        ("postgres_lag_seconds",): 1.5,
        ("postgres_slot_active",): True,
        ("postgres_slot_lag_bytes",): 400,
        ("postgres_slot_retained_bytes",): 500,
        ("postgres_slot_lost_in_seconds",): 60.0,
        ("postgres_slot_wal_status_info", "reserved"): 1,
        ("postgres_slot_checked_timestamp_seconds",): 5.0,
        ("postgres_problem_info", "wal_size"): 1,
    }


def test_progress_of_snapshots_is_exported() -> None:
    assert values(SNAPSHOT) == {
        ("postgres_phase_info", "snapshot"): 1,
        ("postgres_snapshot_tables",): 3,
        ("postgres_snapshot_tables_done",): 1,
        ("postgres_snapshot_rows",): 10,
        ("postgres_snapshot_rows_estimate",): 40,
        ("postgres_snapshot_bytes",): 100,
        ("postgres_snapshot_rows_per_second",): 2.0,
        ("postgres_incremental_snapshot_rows",): 7,
        ("postgres_incremental_snapshot_paused",): False,
    }


def test_task_that_starts_has_its_phase_only() -> None:
    assert values({"phase": "starting"}) == {("postgres_phase_info", "starting"): 1}
