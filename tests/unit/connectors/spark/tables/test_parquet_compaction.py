"""Compaction of Parquet tables: which files are merged, rows before and after, and races with tasks and other runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.record import TopicPartition
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.parquet_compaction import plan_groups
from connectors.spark.tables.parquet_files import TableFile

PARTITION = TopicPartition("t", 0)


def fill(table: ParquetTable, first: int, end: int) -> None:
    for offset in range(first, end):
        rows = pa.table({"o": pa.array([offset])} | ({"even": pa.array([{"half": offset // 2}])} if offset % 2 == 0 else {}))
        assert (
            table.append(rows, TableCommit("c", offset, {PARTITION: (offset, offset + 1)}, {PARTITION: offset + 1})) is not None
        )


def offsets(path: Path) -> list[int]:
    files = sorted(path.glob("*.parquet"))
    return [] if not files else ds.dataset([str(f) for f in files], format="parquet").to_table(["o"])["o"].to_pylist()


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(10, 200), st.integers(2, 30))
def test_groups_are_small_files_each_in_one_group(sizes: list[int], target: int, min_files: int) -> None:
    files = [TableFile(f"{i:04d}", size) for i, size in enumerate(sizes)]
    groups = plan_groups(files, target, min_files)
    merged = [f.name for group in groups for f in group]
    assert len(merged) == len(set(merged))
    for group in groups:
        size = sum(f.size_bytes for f in group)
        assert [f.name for f in group] == sorted(f.name for f in group)
        assert all(f.size_bytes < target / 2 for f in group)
        assert len(group) >= 2
        assert len(group) >= min_files or size >= target
        assert size >= target or all(f.size_bytes * 2 <= size for f in group)


def test_small_files_become_one_with_the_same_rows_in_order(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = ParquetTable(str(path), "c", min_files=5)
    fill(table, 0, 30)
    foreign = path / "other.parquet"
    pq.write_table(pa.table({"o": [-1]}), foreign)
    result = table.compact()
    assert (result.merged_files, result.new_files) == (29, 1), "the newest file stays"
    assert 0 < result.new_bytes < result.merged_bytes
    assert foreign.exists()
    foreign.unlink()
    assert offsets(path) == list(range(30))
    rows = ds.dataset(sorted(str(f) for f in path.glob("*.parquet")), format="parquet").to_table().to_pylist()
    assert [r["even"] for r in rows[:3]] == [{"half": 0}, None, {"half": 1}]
    assert not list((path / "_sluice").rglob("*.draft"))
    assert table.compact().merged_files == 0
    fill(table, 30, 40)
    assert ParquetTable(str(path), "c").committed_offsets([]).ends == {PARTITION: 40}
    assert table.compact().merged_files == 11, "the merged file is as small as the others"
    assert offsets(path) == list(range(40))


def test_few_files_are_left_alone(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path / "t"), "c", min_files=20)
    assert table.compact().merged_files == 0
    fill(table, 0, 15)
    assert table.compact().merged_files == 0


def test_files_of_the_target_size_are_written(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path / "t"), "c", min_files=5, target_file_bytes=10_000)
    fill(table, 0, 60)
    result = table.compact()
    assert result.new_files > 1
    assert offsets(tmp_path / "t") == list(range(60))


@pytest.mark.parametrize("rival", ["append", "compact", "start"])
def test_race_with_a_task_or_another_run_keeps_every_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    path = tmp_path / "t"
    table, other = (ParquetTable(str(path), "c", min_files=5) for _ in range(2))
    fill(table, 0, 12)
    used: list[int] = []

    def point(name: str) -> None:
        if name == "parquet.merged" and not used:
            used.append(1)
            match rival:
                case "append":
                    fill(table, 12, 14)
                case "compact":
                    assert other.compact().merged_files == 11
                case "start":
                    other.delete_drafts()

    monkeypatch.setattr("connect.crash_points.point", point)
    assert table.compact().merged_files == (11 if rival == "append" else 0)
    assert sorted(offsets(path)) == list(range(14 if rival == "append" else 12))
    assert not list((path / "_sluice").rglob("*.draft"))


def test_files_that_do_not_fit_together_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    table = ParquetTable(str(path), "c", min_files=5)
    fill(table, 0, 10)
    pq.write_table(pa.table({"o": ["text"]}), sorted(path.glob("*.parquet"))[0])
    assert table.compact().merged_files == 0
    assert "cannot be merged" in caplog.text
    assert len(list(path.glob("*.parquet"))) == 10
