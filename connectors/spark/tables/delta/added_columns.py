"""Adds columns to a Delta table whose files the worker writes.

Delta has no defaults for rows of before. If they get one, the files are written again, with the new column. The commit that adds
the column also exchanges the files, so no reader sees the column without its default, also after a crash.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connect import crash_points
from connectors.spark.plan.evolution import Columns, quote
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.delta.change import DeltaChange
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.layout import TableLayout, read_layout
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.schema_change import metadata_action, new_columns
from connectors.spark.tables.delta.statements import add_columns, allow_types
from connectors.spark.tables.delta.transaction import DeltaTransaction, DeltaTransactions
from connectors.spark.tables.delta.view import DeltaView, read_files
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.table import Defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_BATCH_ROWS = 64 * 1024


def read_table_layout(transaction: DeltaTransaction, metadata: Mapping[str, Any], checksum: Mapping[str, Any]) -> TableLayout:
    """The layout of a table with this metadata."""
    domains = checksum.get("domainMetadata")
    return read_layout(metadata, transaction.domains() if domains is None else domains)


@dataclass(frozen=True, slots=True)
class ColumnAdder:
    """Adds columns to one table."""

    session: SparkSession
    path: str
    place: str
    connector: str
    transactions: DeltaTransactions
    log: DeltaLog
    writer: DataFileWriter

    def add(self, known: DeltaView, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        """Adds columns (quoted paths) to the known version, so that the table has ``columns``. After a conflict, it may lack
        them."""
        if defaults:
            self._add_with_defaults(known, added, columns, defaults)
            return
        with known.lock.held():
            new = new_columns(known.layout.columns, columns)
            if new is None:
                add_columns(self.session, self.path, added)
                return
            transaction = self.transactions.begin()
            if transaction.version >= 0 and transaction.table_id() == known.table_id:
                action = metadata_action(transaction.metadata(), new)
                with contextlib.suppress(CommitConflict):
                    transaction.commit([action], self._document())

    def _add_with_defaults(
        self, known: DeltaView, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults
    ) -> None:
        names = {quote(name): name for name in columns if name not in known.layout.columns}
        others = [(path, type_) for path, type_ in added if names.get(path) not in defaults]
        with known.lock.held():
            allow_types(self.session, self.path, [value.type for value in defaults.values()])
            if others:
                add_columns(self.session, self.path, others)
        transaction = self.transactions.begin()
        if transaction.version < 0 or transaction.table_id() != known.table_id:
            return  # the caller finds out what became of the table
        metadata = transaction.metadata()
        action = metadata_action(metadata, {name: value.type for name, value in defaults.items()})
        checksum = self.log.checksum(transaction.version) or {}
        before = read_table_layout(transaction, metadata, checksum)
        if not before.columns.keys().isdisjoint(defaults):
            return  # another task has added them, with their defaults
        after = read_table_layout(transaction, action["metaData"], checksum)
        live = read_files(transaction, self.log, {}, 0).live
        change = rewrite_with_defaults(live, before, after, defaults, self.writer)
        crash_points.point("spark.staged")
        try:
            with known.lock.held():
                self.writer.check_exist(change.written, self.place)
                transaction.commit([action, *change.actions()], self._document(), reads_table=True)
        except CommitConflict as e:
            log.debug("Adding columns to %s again after a conflict: %s", self.place, e)
            change.discard()

    def _document(self) -> TableCommit:
        return TableCommit(self.connector, 0, {}, {})


def rewrite_with_defaults(
    live: LiveFiles, before: TableLayout, after: TableLayout, defaults: Mapping[str, pa.Scalar], writer: DataFileWriter
) -> DeltaChange:
    """Writes all files again, without deleted rows, and with these values in the columns that ``after`` adds."""
    change = DeltaChange(writer, after)
    with change.writing():
        for file in live.by_path.values():
            change.remove(file)
            add = writer.write_batches(_batches(live, file, before, defaults), after, file.values)
            if add is not None:
                change.add(add)
    return change


def _batches(live: LiveFiles, file: LiveFile, before: TableLayout, defaults: Mapping[str, pa.Scalar]) -> Iterator[pa.Table]:
    for first, batch in read_file(live, file, before.columns, _BATCH_ROWS):
        if file.deleted is not None:
            batch = batch.filter(pa.array(~file.deleted[first : first + batch.num_rows]))
        for name, value in defaults.items():
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        yield batch
