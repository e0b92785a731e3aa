"""Writes the files of an upsert of a Delta table."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pyarrow as pa

from connectors.spark.tables.delta.change import TableChange
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.key_search import KeySearch
from connectors.spark.tables.delta.known_version import KnownVersion
from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.patch import planned_patch
from connectors.spark.tables.source_order.ordering import OrderedUpsert, SourceOrder
from connectors.spark.tables.table import Upsert


@dataclass(frozen=True, slots=True)
class DeltaUpsertFiles:
    """``unavailable`` counts values that became null."""

    change: TableChange
    unavailable: int
    ordered: OrderedUpsert | None = None


class DeltaUpserts:
    """Writes the files of upserts of one table. Used by one thread at a time."""

    def __init__(self, search: KeySearch, writer: DataFileWriter, order: SourceOrder, *, fail_unavailable: bool) -> None:
        self.order = order
        self._search = search
        self._writer = writer
        self._fail_unavailable = fail_unavailable
        self._figures: dict[str, int] = {}

    def write(
        self, upsert: Upsert, indexed: IndexedFiles, known: KnownVersion, files: ExecutorFiles | None
    ) -> DeltaUpsertFiles:  # fmt: skip
        """Writes new rows, unless executors have written them (``files``), and deletion vectors of the old ones."""
        find, live = functools.partial(self._find, indexed, known.version), indexed.live
        fail = self._fail_unavailable
        with planned_patch(upsert, find, live, self.order, known.order_state, fail_unavailable=fail) as patch:
            change = TableChange(patch.rows, files)
            with change.writing(self._writer):
                change.write(patch, live, self._writer, known.layout)
        return DeltaUpsertFiles(change, patch.unavailable, patch.ordered)

    def _find(self, indexed: IndexedFiles, version: int, rows: pa.Table) -> Matches:
        """The rows of this version that have the keys of these rows."""
        if indexed.has_index:
            return indexed.find(rows)
        matches = self._search.find(rows, indexed.keys, version, indexed.live)
        self._figures["search_ms"] = self._search.last_ms
        return matches

    def figures(self) -> dict[str, int]:
        """For the progress of the table."""
        return self._figures | self.order.figures()
