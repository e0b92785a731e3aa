"""What a table must get for rows that executors could not write, and in which order it gets what they return."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError, DataError, RetriableError
from connect.record import TopicPartition
from connect.sink import FailedRead, RawRecord
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.executors.job import NeededColumns, PartResult, StagedPart, TablePart, WrittenPart
from connectors.spark.executors.table_commits import TableCommits, divide_by_table, needed_columns
from connectors.spark.tables.delta.file_target import DeltaFileTarget
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.executor_files import FileTarget, WriteTarget, WrittenRows
from connectors.spark.tables.iceberg.file_target import IcebergFileTarget
from connectors.spark.tables.iceberg.types import new_schema
from connectors.spark.tables.offset_ranges import OffsetRanges
from connectors.spark.tables.writer import TableWriter
from tests.unit.connectors.spark.delivery.fakes import changes, offsets_of

P0 = TopicPartition("t", 0)
SCHEMA = pa.schema([("id", pa.int64())])


class Writer:
    """Remembers what it is told to commit."""

    def __init__(self, *, fits: bool = True) -> None:
        self.found: list[Any] = []
        self._fits = fits

    def commit(self, batches: Sequence[ChangeBatch], partitions: Collection[TopicPartition], excluded: OffsetRanges) -> None:
        self.found.append((offsets_of(batches), [batch.meta["sequence"].to_pylist() for batch in batches], excluded))

    def commit_files(
        self,
        rows: WrittenRows,
        ranges: OffsetRanges,
        known_ends: Mapping[TopicPartition, int],
        partitions: Collection[TopicPartition],
    ) -> bool:
        self.found.append(([file.path for file in rows.files.files], dict(known_ends), ranges))
        return self._fits


def as_table_writer(fake: Any) -> TableWriter:
    writer: TableWriter = fake
    return writer


def part(first: int, of_table: TablePart, host: str = "") -> tuple[PartResult, TablePart]:
    return PartResult(P0, first, first + 10, {"t": of_table}, host=host), of_table


def written(path: str) -> WrittenPart:
    return WrittenPart(SCHEMA, [(path, {"path": path}, 1)])


def test_files_and_changes_are_committed_in_the_order_of_their_offsets() -> None:
    parts = [
        part(0, written("a")),
        part(10, written("b")),
        part(20, StagedPart.pack([changes([20, 22])])),
        part(30, written("c")),
    ]
    commits, writer = TableCommits("t", WriteTarget({"id": pa.int64()}, {P0: 0}), parts), Writer()
    commits.commit(as_table_writer(writer), {(P0, 20): 100}, [P0])
    assert writer.found == [
        (["a", "b"], {P0: 0}, {P0: (0, 20)}),
        ([20, 22], [[120, 122]], {P0: (20, 30)}),
        (["c"], {P0: 30}, {P0: (30, 40)}),
    ]
    assert commits.may_be_committed


@pytest.mark.parametrize(
    "errant",
    [
        {"bad_records": [(45, "no JSON", RawRecord("t", 0, 45, None, b"{", None, ()))]},
        {"failed_reads": [FailedRead(RawRecord("t", 0, 45, None, b"{", None, ()), "TRANSFORMATION", "p", None, DataError("no"))]},
    ],
)
def test_tables_of_the_topic_pass_errant_records_unless_later_rows_do(errant: dict[str, Any]) -> None:
    targets = {name: WriteTarget({"id": pa.int64()}, {P0: 0}) for name in ("t", "u", "of-another-topic")}
    parts = [
        PartResult(P0, 0, 10, {"t": written("a")}),
        PartResult(P0, 10, 20, {}, **errant),
        PartResult(P0, 20, 30, {"t": written("b")}),
        PartResult(P0, 30, 40, {}),
        PartResult(P0, 40, 50, {}, **errant),
        PartResult(P0, 50, 60, {"u": written("c")}),
        PartResult(P0, 60, 70, {}),
    ]
    found = {}
    for commits in divide_by_table(parts, targets, lambda topic: ["t", "u", "unknown"] if topic == "t" else []):
        writer = Writer()
        commits.commit(as_table_writer(writer), {(P0, 40): 0}, [P0])
        found[commits.table] = writer.found
    assert found == {
        "t": [(["a", "b"], {P0: 0}, {P0: (0, 30)}), ([], [], {P0: (40, 50)})],
        "u": [(["c"], {P0: 0}, {P0: (50, 60)})],
    }


def test_files_for_a_table_that_has_changed_may_be_deleted() -> None:
    commits = TableCommits("t", WriteTarget({"id": pa.int64()}), [part(0, written("a"))])
    with pytest.raises(RetriableError, match="table t has changed"):
        commits.commit(as_table_writer(Writer(fits=False)), {}, [P0])
    assert not commits.may_be_committed


def delta_target(folder: Path) -> FileTarget:
    return DeltaFileTarget(str(folder), None, TableLayout({"id": pa.int64()}), 0, 1000)


def iceberg_target(folder: Path) -> FileTarget:
    schema = new_schema({"id": pa.int64()})
    return IcebergFileTarget(folder.as_uri(), f"{folder.as_uri()}/data/x", None, schema, {"spec-id": 0, "fields": []}, 1000)


@pytest.mark.parametrize("make_target", [delta_target, iceberg_target])
def test_files_that_the_worker_does_not_find_are_not_committed(tmp_path: Path, make_target: Callable[[Path], FileTarget]) -> None:
    target, writer = make_target(tmp_path), Writer()
    rows = pa.table({"id": [1]}, SCHEMA)
    parts = []
    for number, host in enumerate(["far", "far", "near", socket.gethostname()]):
        [file] = target.write(rows)
        parts.append(part(number * 10, WrittenPart(SCHEMA, [(file.path, file.entry, 1)]), host))
    paths = [next(iter(result.paths()["t"])) for result, _ in parts]

    def commit() -> TableCommits:
        commits = TableCommits("t", WriteTarget({"id": pa.int64()}, files=target), parts)
        commits.commit(as_table_writer(writer), {(P0, 40): 0}, [P0])
        return commits

    assert commit().may_be_committed
    assert writer.found.pop()[0] == paths
    target.delete(paths[3:])
    with pytest.raises(RetriableError, match=rf"table t: data file {re.escape(paths[3])}, .* was deleted before it was"):
        commit()
    parts.pop()
    target.delete(paths[:1])
    with pytest.raises(RetriableError, match=rf"table t: data file {re.escape(paths[0])}, .* on host far wrote, was deleted"):
        commit()
    target.delete(paths[1:2])
    with pytest.raises(ConnectError, match=rf"{re.escape(paths[0])}, .* on host far wrote, is not found by .* such as S3") as e:
        commit()
    assert not isinstance(e.value, RetriableError)
    assert not writer.found


def test_needed_columns_are_those_that_fit_together() -> None:
    def needed(**columns: pa.DataType) -> NeededColumns:
        return NeededColumns(columns, columns, ("id",))

    found = needed_columns(
        [
            needed(id=pa.int32(), name=pa.string()),
            written("a"),
            needed(id=pa.int64(), name=pa.int64()),  # contradicts the first one
            needed(id=pa.int64(), more=pa.bool_()),
        ],
    )
    assert found is not None
    assert found.incoming == {"id": pa.int64(), "name": pa.string(), "more": pa.bool_()}
    assert found.keys == ("id",)
    assert needed_columns([written("a")]) is None
