"""A Parquet table behind the interface of all tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit, next_sequence
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.table import Defaults, OffsetCommit, TableState, Upsert


class ParquetSinkTable:
    """Appends to a Parquet table; it has no log, so it grows columns with its files and never changes rows."""

    def __init__(self, table: ParquetTable, connector: str) -> None:
        self._table = table
        self._connector = connector
        self._committed = CommittedOffsets()
        self._columns: Columns | None = None

    @property
    def path(self) -> str:
        return self._table.path

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        columns = self._table.columns()
        self._committed = CommittedOffsets() if columns is None else self._table.committed_offsets(partitions)
        return TableState(self._columns or columns, dict(self._committed.ends))

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        self._columns = columns  # files bring their columns

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        self._columns = columns

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        raise ConnectError("the columns of a Parquet table cannot be widened")

    def file_target(self) -> None:
        return None

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        ends = {**self._committed.ends, **commit.ends}
        document = TableCommit(self._connector, next_sequence(self._committed), commit.ranges, ends)
        crash_points.point("spark.staged")
        version = self._table.append(rows, document)
        if version is None:
            return None
        self._committed.sequence = document.sequence
        self._committed.ends.update(commit.ends)
        return version

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        raise ConnectError("a Parquet table can only append")

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        return self._table.committed_offsets(()).ends

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        committed = self._table.committed_offsets(())
        document = TableCommit(self._connector, next_sequence(committed), {}, {**committed.ends, **offsets})
        if self._table.commit_metadata(document) is None:
            raise RetriableError(f"table at {self.path}: a task committed at the same time; stop the connector first")

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        self._table.compact()

    def progress(self) -> Mapping[str, Any]:
        return {}
