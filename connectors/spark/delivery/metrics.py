"""Progress and metrics of a sink task and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connect.metrics import HistogramFigures, Metric, MetricKind
from connectors.spark.delivery.table_queue import TableQueue
from connectors.spark.delivery.timing import CommitTiming
from connectors.spark.tables.writer import TableProgress

_TABLE_FIGURES = {
    "files": ("table_files", "Data files of the table, as of the last commit or maintenance."),
    "bytes": ("table_bytes", "Size of the table's data files, as of the last commit or maintenance."),
    "deleted_rows": ("table_deleted_rows", "Rows in deletion vectors or delete files: what compaction removes."),
    "index_keys": ("table_index_keys", "Keys in the index of an upsert table."),
    "index_bytes": ("table_index_bytes", "Memory of the index of an upsert table."),
    "unavailable": ("table_unavailable_values", "Unavailable values that became null since the task started."),
    "outdated": ("table_outdated_changes", "Changes that were older than their rows and were ignored."),
}
"""What tables report, by the name in :meth:`connectors.spark.tables.table.Table.progress`."""


def table_progress(table: TableQueue, pending: int) -> dict[str, Any]:
    """Returns the progress of one table (:meth:`connectors.spark.task.SparkSinkTask.progress`)."""
    progress = table.progress
    return {
        "rows": progress.rows,
        "commits": progress.commits,
        "version": progress.version,
        "last_commit_ms": progress.last_commit_ms,
        "commit_duration_ms": progress.commit_duration_ms,
        "skipped": progress.skipped,
        "dropped": progress.dropped,
        **progress.table,
        "pending": pending,
        "freshness_ms": table.timing.newest_age_ms(),
        "oldest_ms": table.timing.oldest_age_ms(),
    }


def table_metrics(name: str, progress: TableProgress, timing: CommitTiming, pending: int) -> Iterator[Metric]:
    """Yields the metrics of one table. ``pending`` is the number of its records that wait."""
    labels = {"table": name}

    def metric(name: str, value: float | HistogramFigures, help: str, kind: MetricKind = MetricKind.GAUGE) -> Metric:
        return Metric(name, value, help, kind, labels)

    yield metric("table_rows_total", progress.rows, "Rows written to the table.", MetricKind.COUNTER)
    yield metric("table_commits_total", progress.commits, "Commits of the table by this task.", MetricKind.COUNTER)
    yield metric(
        "table_commit_conflicts_total", progress.conflicts, "Commits that another writer has overtaken.", MetricKind.COUNTER
    )
    yield metric("table_skipped_records_total", progress.skipped, "Records that the table already had.", MetricKind.COUNTER)
    yield metric("table_dropped_values_total", progress.dropped, "Values that a schema contract left out.", MetricKind.COUNTER)
    failures = progress.maintenance_failures
    yield metric("table_maintenance_failures_total", failures, "Maintenance that failed.", MetricKind.COUNTER)
    yield metric("table_pending_records", pending, "Records that are not in the table yet.")
    if progress.version is not None:
        yield metric("table_version", progress.version, "Version or snapshot of the last commit.")
    if progress.last_commit_ms is not None:
        at_s = progress.last_commit_ms / 1000
        yield metric("table_last_commit_timestamp_seconds", at_s, "When the table was last committed, in seconds since 1970.")
    histograms = (
        ("table_commit_seconds", progress.commit_times.figures(), "Time of each commit of the table."),
        ("table_maintenance_seconds", progress.maintenance_times.figures(), "Time of each compaction or other maintenance."),
        ("table_freshness_seconds", timing.freshness.figures(), "Per commit, age of its oldest change: source to visible."),
    )
    for histogram, figures, help in histograms:
        if figures.count:
            yield metric(histogram, figures, help, MetricKind.HISTOGRAM)
    if timing.last_freshness_s is not None:
        help = "Age of the oldest change of the last commit, from its commit in the source until it was visible."
        yield metric("table_last_freshness_seconds", timing.last_freshness_s, help)
    for key, (figure, help) in _TABLE_FIGURES.items():
        value = progress.table.get(key)
        if isinstance(value, int | float):
            yield metric(figure, value, help)


def task_metrics(buffered: int, refused: int, engine: Mapping[str, Any]) -> Iterator[Metric]:
    """Yields the metrics of the task itself."""
    yield Metric("spark_buffered_records", buffered, "Records that no table has committed yet.")
    yield Metric("spark_refused_records_total", refused, "Records reported or skipped.", MetricKind.COUNTER)
    yield Metric("spark_engine_info", 1, "Who decodes and writes; always 1.", labels={"engine": str(engine["in_use"])})
    if isinstance(backlog := engine.get("backlog"), int | float):
        yield Metric("spark_engine_backlog_records", backlog, "Backlog when the engine was chosen last.")
