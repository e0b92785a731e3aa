"""A Delta table of a sink task, which the worker or Spark writes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.delta.file_table import DeltaFileTable
from connectors.spark.tables.delta.sql_table import DeltaSqlTable
from connectors.spark.tables.delta.suitability import UnsuitableTable
from connectors.spark.tables.table import OffsetCommit, Table, TableState, Upsert

log = logging.getLogger(__name__)


class DeltaTable:
    """Writes the table's files where that is possible, and has Spark write the rows otherwise. A table is of one kind or the
    other, because their offsets differ: a table with offsets in its state is not written by Spark."""

    def __init__(self, name: str, files: DeltaFileTable | None, with_spark: Callable[[], DeltaSqlTable]) -> None:
        self._name = name
        self._with_spark = with_spark
        self._table: Table = files or with_spark()

    @property
    def path(self) -> str:
        return self._table.path

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        try:
            return self._table.load(partitions)
        except UnsuitableTable as e:
            log.info("Spark writes the rows of table %s at %s because %s", self._name, self.path, e)
            self._table = self._with_spark()
            return self._table.load(partitions)

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        self._table.create(columns, keys)

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns) -> None:
        self._table.add_columns(added, columns)

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        return self._table.append(rows, commit)

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        return self._table.upsert(upsert, commit)

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        self.load(())
        return self._table.stored_ends()

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        self._table.move_offsets(offsets)

    def progress(self) -> Mapping[str, Any]:
        return self._table.progress()
