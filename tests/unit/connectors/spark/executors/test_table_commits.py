"""What a table must get for rows that executors could not write, and in which order it gets what they return."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import RetriableError
from connect.record import TopicPartition
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.executors.results import NeededColumns, PartResult, StagedPart, TablePart, WrittenPart
from connectors.spark.executors.table_commits import TableCommits, needed_columns
from connectors.spark.tables.executor_files import WriteTarget, WrittenRows
from connectors.spark.tables.offset_ranges import OffsetRanges
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


def part(first: int, of_table: TablePart) -> tuple[PartResult, TablePart]:
    return PartResult(P0, first, first + 10, {"t": of_table}), of_table


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
    commits.commit(writer, {(P0, 20): 100}, [P0])  # type: ignore[arg-type]  # a fake
    assert writer.found == [
        (["a", "b"], {P0: 0}, {P0: (0, 20)}),
        ([20, 22], [[120, 122]], {P0: (20, 30)}),
        (["c"], {P0: 30}, {P0: (30, 40)}),
    ]
    assert commits.may_be_committed


def test_files_for_a_table_that_has_changed_may_be_deleted() -> None:
    commits = TableCommits("t", WriteTarget({"id": pa.int64()}), [part(0, written("a"))])
    with pytest.raises(RetriableError, match="table t has changed"):
        commits.commit(Writer(fits=False), {}, [P0])  # type: ignore[arg-type]  # a fake
    assert not commits.may_be_committed


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
