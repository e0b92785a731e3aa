"""Parquet tables of the sink are read by their manifest: each row once, also when compaction moves it into another file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect import crash_points
from connect.errors import ConnectError
from connect.record import SourceRecord, TopicPartition
from connect.testing import MemoryOffsets
from connectors.spark.source.offsets import table_partition
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.parquet import ParquetTable
from tests.support.parquet_directory import ParquetDirectory, rows_of
from tests.support.replayed_events import FAST, deliver_with_kills, events, read_all


class Crash(BaseException):
    """Stands for SIGKILL."""


class SinkTable:
    """A table that two connectors of the sink append to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        self._offsets = {"c": 0, "other": 0}

    def open(self, connector: str = "c") -> ParquetTable:
        return ParquetTable(str(self.folder), connector, min_files=3)

    def append(self, rows: int = 2, connector: str = "c", columns: dict[str, pa.DataType] | None = None) -> None:
        numbers = list(range(self.written, self.written + rows))
        schema = pa.schema(list({"id": pa.int64(), **(columns or {})}.items()))
        at = self._offsets[connector]
        partition = TopicPartition(connector, 0)
        commit = TableCommit(connector, at, {partition: (at, at + 1)}, {partition: at + 1})
        self.written += rows
        self._offsets[connector] += 1
        assert self.open(connector).append(pa.Table.from_pylist([{"id": n} for n in numbers], schema), commit) is not None

    def crash(self, monkeypatch: pytest.MonkeyPatch, point: str, action: str) -> None:
        """Does an action that dies at a point, after which no task starts again."""

        def reached(name: str) -> None:
            if name == point:
                raise Crash

        with monkeypatch.context() as patch:
            patch.setattr(crash_points, "point", reached)
            with contextlib.suppress(Crash):
                self.append() if action == "append" else self.open().compact()


@pytest.fixture(autouse=True, scope="module")
def no_syncs() -> Iterator[None]:
    """Nothing here survives a power failure, and syncs take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture
def table(tmp_path: Path) -> SinkTable:
    return SinkTable(tmp_path / "audit")


def read(table: SinkTable, offsets: MemoryOffsets | None = None, **config: str) -> list[SourceRecord]:
    return read_all(table.folder, offsets, source_format="parquet", **config)


def ids(records: list[SourceRecord]) -> list[int]:
    return [after["id"] for _, _, after in events(records)]


def test_snapshot_has_the_rows_of_all_commits_and_then_each_commit_follows(table: SinkTable) -> None:
    table.append()
    table.append()
    pq.write_table(pa.table({"id": [-1]}), table.folder / "foreign.parquet")
    offsets = MemoryOffsets()
    records = read(table, offsets)
    assert [(op, after["id"]) for op, _, after in events(records)] == [("r", number) for number in range(4)]
    assert records[2].source_offset == {"version": 2, "row": 3, "snapshot": True, "id": str(table.folder)}
    table.append(columns={"n": pa.int32()})
    (record, _) = read(table, offsets)
    assert events([record]) == [("c", None, {"id": 4, "n": None})]
    assert record.source_offset == {"version": 3, "row": 1, "snapshot": False, "id": str(table.folder)}
    assert ids(read(table, source_start="2")) == [2, 3, 4, 5]
    assert read(table, source_start="latest") == []


def test_compaction_gives_no_events_and_rows_are_found_in_merged_files(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    table.append(1)
    assert ids(read(table, offsets)) == [0]
    for number in range(8):
        table.append(3, "other" if number % 3 == 0 else "c")
    assert table.open().compact().merged_files
    assert ids(read(table, offsets)) == list(range(1, 25))
    table.open().compact()
    assert read(table, offsets) == []
    assert sorted(ids(read(table))) == list(range(25))


@pytest.mark.parametrize(
    ("point", "action"),
    [
        ("parquet.entered", "append"),
        ("parquet.entered", "compact"),
        ("parquet.renamed", "compact"),
        ("parquet.drafted", "append"),
    ],
)
def test_commit_that_a_crash_left_unfinished_counts_as_its_entry_says(
    table: SinkTable, monkeypatch: pytest.MonkeyPatch, point: str, action: str
) -> None:
    for _ in range(5):
        table.append()
    offsets = MemoryOffsets()
    read(table, offsets, source_start="5")
    table.crash(monkeypatch, point, action)
    is_committed = action == "append" and point == "parquet.entered"
    assert sorted(ids(read(table))) == list(range(12 if is_committed else 10))
    assert ids(read(table, offsets)) == ([10, 11] if is_committed else [])
    before = sorted(path.name for path in table.folder.rglob("*"))
    read(table)
    assert sorted(path.name for path in table.folder.rglob("*")) == before, "reading changes nothing"


@given(data=st.data())
def test_every_row_of_a_random_history_is_delivered_once_wherever_the_task_restarts(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    table = SinkTable(tmp_path_factory.mktemp("history") / "t")
    config = {**FAST, "source.format": "parquet", "source.location": str(table.folder), "batch.max.rows": "2"}

    def change() -> None:
        for action in data.draw(st.lists(st.sampled_from(["c", "c", "other", "compact"]), max_size=6)):
            if action == "compact":
                table.open().compact()
            else:
                table.append(data.draw(st.integers(0, 4)), action)

    table.append()
    delivered = deliver_with_kills(data.draw, config, str(table.folder), change)
    assert sorted(ids(delivered)) == list(range(table.written))


def refusal(table: SinkTable, offsets: MemoryOffsets) -> str:
    with pytest.raises(ConnectError) as raised:
        read(table, offsets)
    return raised.value.message


def test_commits_that_the_manifest_no_longer_has_are_a_gap(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    table.append()
    read(table, offsets)
    for number in range(1, 4):
        table.append()
        (table.folder / "_sluice" / "entries" / f"{number:020d}.json").unlink()
    assert refusal(table, offsets).startswith(
        f"the manifest of table {table.folder} no longer has version 2. The oldest version whose changes can be read is 4"
    )
    assert len(read(table, offsets, source_on_gap="snapshot")) == 8
    offsets.store(table_partition(str(table.folder)), {"version": 9})
    assert "has no version 8: it may have been replaced, or the offset is wrong" in refusal(table, offsets)


def test_damaged_entries_and_missing_files_are_named(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    table.append()
    read(table, offsets)
    table.append()
    (path,) = sorted(table.folder.glob("*.parquet"))[1:]
    path.unlink()
    assert f"version 2 of table {table.folder} cannot be read any more: the file {path.name}" in refusal(table, offsets)
    (table.folder / "_sluice" / "entries" / f"{2:020d}.json").write_text("{")
    assert "00000000000000000002.json cannot be read" in refusal(table, offsets)


def test_offset_of_a_directory_is_refused_for_a_table_and_the_reverse(table: SinkTable, tmp_path: Path) -> None:
    offsets = MemoryOffsets()
    table.append()
    offsets.store(table_partition(str(table.folder)), {"passed_ms": 1})
    message = refusal(table, offsets)
    assert "is one of a directory" in message
    assert "DELETE its offsets" in message
    assert ids(read(table, offsets, source_on_gap="snapshot")) == [0, 1]
    directory = ParquetDirectory(tmp_path / "files")
    directory.add("a.parquet", rows_of(1))
    offsets.store(table_partition(str(directory.folder)), {"version": 1})
    with pytest.raises(ConnectError, match="is one of a table of the sink"):
        read_all(directory.folder, offsets, source_format="parquet")
