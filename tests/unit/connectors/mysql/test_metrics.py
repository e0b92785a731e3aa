"""Metrics of stream and snapshots, from the progress of a task."""

from __future__ import annotations

from typing import Any

from connectors.mysql.metrics import progress_metrics

STREAMING: dict[str, Any] = {
    "phase": "streaming",
    "events": 12,
    "file": "binlog.000002",
    "pos": 400,
    "gtids": "0-1-5",
    "last_event_s": 1_000,
}
SNAPSHOT: dict[str, Any] = {
    "phase": "snapshot",
    "tables_done": 1,
    "tables_total": 3,
    "rows": 10,
    "rows_estimate": 40,
    "bytes": 100,
    "rate": 2.0,
    "seconds_left": None,
    "incremental_snapshot": {"tables": ["t"], "rows": 7, "paused": True},
}


def test_position_and_age_of_the_stream_are_exported() -> None:
    found = {one.name: (one.value, dict(one.labels)) for one in progress_metrics(STREAMING, now_s=1_005.5)}
    assert found == {
        "mysql_phase_info": (1, {"phase": "streaming"}),
        "mysql_events_total": (12, {}),
        "mysql_binlog_position": (400, {"file": "binlog.000002"}),
        "mysql_last_event_age_seconds": (5.5, {}),
    }


def test_progress_of_snapshots_is_exported_and_what_is_unknown_is_absent() -> None:
    found = {one.name: one.value for one in progress_metrics(SNAPSHOT, now_s=0)}
    assert found == {
        "mysql_phase_info": 1,
        "mysql_snapshot_tables": 3,
        "mysql_snapshot_tables_done": 1,
        "mysql_snapshot_rows": 10,
        "mysql_snapshot_rows_estimate": 40,
        "mysql_snapshot_bytes": 100,
        "mysql_snapshot_rows_per_second": 2.0,
        "mysql_incremental_snapshot_rows": 7,
        "mysql_incremental_snapshot_paused": True,
    }
