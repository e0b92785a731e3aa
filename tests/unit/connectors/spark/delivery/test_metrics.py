"""Metrics of the tables of a sink task."""

from __future__ import annotations

from connect.metrics import HistogramFigures
from connectors.spark.delivery.metrics import table_metrics
from connectors.spark.delivery.timing import CommitTiming
from connectors.spark.tables.writer import TableProgress


def values(progress: TableProgress, timing: CommitTiming) -> dict[str, float | HistogramFigures]:
    found = list(table_metrics("orders", progress, timing, 3))
    assert all(one.labels == {"table": "orders"} for one in found)
    return {one.name: one.value for one in found}


def test_table_without_commits_has_counts_only() -> None:
    found = values(TableProgress(), CommitTiming(None, 1.0))
    assert found["table_commits_total"] == 0
    assert found["table_pending_records"] == 3
    assert not {"table_version", "table_commit_seconds", "table_last_commit_timestamp_seconds"} & set(found)


def test_commits_have_times_freshness_and_the_figures_of_the_table() -> None:
    progress, timing = (
        TableProgress(rows=5, commits=1, version=7, conflicts=2, table={"files": 4, "search_ms": 1}),
        CommitTiming(None, 1.0),
    )
    progress.committed(0.2)
    timing.observe_freshness(1.2)
    found = values(progress, timing)
    assert (found["table_rows_total"], found["table_version"], found["table_commit_conflicts_total"]) == (5, 7, 2)
    assert (found["table_last_freshness_seconds"], found["table_files"]) == (1.2, 4)
    assert (progress.last_commit_ms or 0) > 0
    assert found["table_last_commit_timestamp_seconds"] == (progress.last_commit_ms or 0) / 1000
    for name, total in (("table_commit_seconds", 0.2), ("table_freshness_seconds", 1.2)):
        histogram = found[name]
        assert isinstance(histogram, HistogramFigures)
        assert (histogram.count, histogram.total) == (1, total)
