"""A Delta table of a sink task, which the worker or Spark writes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark.errors import is_jvm_gone
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.sql import PARSER_SETTINGS
from connectors.spark.tables.conflicts import UnsuitableTable
from connectors.spark.tables.delta.failed_task import note_failed_task
from connectors.spark.tables.delta.sql_table import DeltaSqlTable
from connectors.spark.tables.executor_files import FileTarget
from connectors.spark.tables.table import Defaults, OffsetCommit, Table, TableState, Upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class DeltaTable:
    """Writes the table's files where that is possible, and has Spark write the rows otherwise. A table is of one kind or the
    other, because their offsets differ: Spark does not write a table with offsets in its state, and goes on with one that
    has them in its history.

    When Spark's JVM ends, the running call fails, and the next :meth:`load` continues with a new session.
    """

    def __init__(
        self,
        name: str,
        new_session: Callable[[], SparkSession],
        files: Callable[[SparkSession], Table] | None,
        with_spark: Callable[[SparkSession], DeltaSqlTable],
    ) -> None:
        self._name = name
        self._new_session = new_session
        self._open_files = files
        self._open_with_spark = with_spark
        self._session_ended = False
        self._table = self._open()

    @property
    def path(self) -> str:
        return self._table.path

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        if self._session_ended:
            self._table = self._open()
            self._session_ended = False
        return self._of_either_kind(lambda: self._table.load(partitions))

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        self._watch(lambda: self._table.create(columns, keys))

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        self._watch(lambda: self._table.add_columns(added, columns, defaults))

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        self._watch(lambda: self._table.widen_columns(widened))

    def set_keys(self, keys: Sequence[str]) -> None:
        self._watch(lambda: self._table.set_keys(keys))

    def file_target(self) -> FileTarget | None:
        return self._table.file_target()

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        return self._watch(lambda: self._table.append(rows, commit))

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        return self._watch(lambda: self._table.upsert(upsert, commit))

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        return self._of_either_kind(lambda: self._table.stored_ends())

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        self._table.move_offsets(offsets)

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        if not self._session_ended:
            self._table.maintain(is_stopping)

    def progress(self) -> Mapping[str, Any]:
        return self._table.progress()

    def _open(self) -> Table:
        session = self._session = self._new_session()
        for key, value in PARSER_SETTINGS.items():
            if session.conf.get(key) != value:  # Spark Connect warns of settings that Spark advises against
                session.conf.set(key, value)
        return self._open_with_spark(session) if self._open_files is None else self._open_files(session)

    def _of_either_kind(self, call: Callable[[], Result]) -> Result:
        try:
            return self._watch(call)
        except UnsuitableTable as e:
            log.info("Spark writes the rows of table %s at %s because %s", self._name, self.path, e)
            self._open_files = None
            self._table = self._open()
            return self._watch(call)

    def _watch(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except Exception as e:
            if is_jvm_gone(e):
                self._session_ended = True
            else:
                note_failed_task(e, self._session)
            raise
