"""The benchmarks' view of a table's log: rows, numbers of events, and freshness."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.delta_log import TableCommit, TableLog, freshness_ms
from benchmarks.measure import quantiles


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "_delta_log").mkdir()
    return tmp_path


def commit(table: Path, version: int, visible_ms: int, *actions: dict[str, Any]) -> None:
    path = table / "_delta_log" / f"{version:020d}.json"
    path.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    os.utime(path, ns=(visible_ms * 1_000_000, visible_ms * 1_000_000))


def add(path: str, rows: int, last: int, **more: Any) -> dict[str, Any]:
    stats = json.dumps({"numRecords": rows, "maxValues": {"seq": last}})
    return {"add": {"path": path, "stats": stats, "dataChange": True, **more}}


def remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path}}


def test_rows_follow_files_and_deletion_vectors(table: Path) -> None:
    log = TableLog(table)
    commit(table, 0, 1_000, {"metaData": {}})
    assert (log.read().rows, log.commits) == (0, [])
    commit(table, 1, 2_000, add("a", 10, 10))
    assert log.read().rows == 10
    commit(table, 2, 3_000, remove("a"), add("a", 10, 10, deletionVector={"cardinality": 3}), add("b", 4, 14))
    assert log.read().rows == 11
    assert log.commits == [TableCommit(1, 2_000, 10, 10), TableCommit(2, 3_000, 4, 14)]


def test_compaction_is_no_commit_of_events(table: Path) -> None:
    commit(table, 0, 1_000, add("a", 10, 10), add("b", 5, 15))
    commit(table, 1, 2_000, remove("a"), remove("b"), add("c", 15, 15, dataChange=False))
    log = TableLog(table).read()
    assert (log.rows, len(log.commits), log.last_event) == (15, 1, 15)


def test_files_without_statistics_are_read(table: Path) -> None:
    pq.write_table(pa.table({"seq": [3, 7, 5]}), table / "a b")
    commit(table, 0, 1_000, {"add": {"path": "a%20b", "dataChange": True}})
    log = TableLog(table).read()
    assert (log.rows, log.last_event) == (3, 7)


def test_freshness_is_from_each_event_to_the_commit_that_has_it() -> None:
    commits = [TableCommit(1, 1_000, 5, 5), TableCommit(2, 2_000, 2, 7), TableCommit(3, 3_000, 2, 9)]
    assert freshness_ms(commits, 6, [1_400, 1_900, 2_500, 2_600, 2_700]) == [600, 100, 500, 400]
    assert quantiles([3.0, 1.0, 2.0]) == {"p50": 2, "p99": 3, "max": 3}
    assert quantiles([]) == {"p50": None, "p99": None, "max": None}
