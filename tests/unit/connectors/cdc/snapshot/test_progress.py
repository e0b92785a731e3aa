"""The progress of a snapshot."""

from __future__ import annotations

import logging

import pytest

from connectors.cdc.snapshot.progress import LOG_INTERVAL_S, SnapshotProgress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_left_follows_the_rate_of_this_attempt() -> None:
    clock = Clock()
    progress = SnapshotProgress(3, 1, 1000, clock)
    clock.now += 60
    progress.restart_clock()
    assert progress.details()["seconds_left"] is None
    clock.now += 10
    progress.rows, progress.bytes, progress.tables = 200, 5000, ("public.a", "public.b")
    assert progress.details() == {
        "tables_done": 1,
        "tables_total": 3,
        "table": "public.a",
        "tables": ["public.a", "public.b"],
        "rows": 200,
        "rows_estimate": 1000,
        "bytes": 5000,
        "rate": 20.0,
        "seconds_left": 40,
    }
    progress.rows = 1500
    assert (progress.details()["rows_estimate"], progress.details()["seconds_left"]) == (1500, 0)


def test_progress_is_logged_once_per_interval(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    progress = SnapshotProgress(3, 1, 1000, clock)
    progress.rows, progress.tables = 300, ("public.a",)
    progress.log_if_due()
    clock.now += LOG_INTERVAL_S
    progress.log_if_due()
    progress.log_if_due()
    assert [record.getMessage() for record in caplog.records] == [
        "snapshot: 1 of 3 tables, 300 of about 1000 rows, 0.0 MB, 10 rows/s, about 70 s left; reading public.a"
    ]
