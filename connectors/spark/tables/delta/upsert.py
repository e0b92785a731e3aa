"""Writes the files of an upsert of a Delta table."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pyarrow as pa

from connectors.spark.tables.delta.change import TableChange
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.key_search import KeySearch
from connectors.spark.tables.delta.known_version import KnownVersion
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import LiveFiles, group_rows
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.files.upsert import Find, find_kept_rows, plan_upsert
from connectors.spark.tables.source_order.ordering import OrderedUpsert, SourceOrder, join_rows
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
        """Writes what the upsert needs, except for ``files``, which executors have written."""
        find, live = functools.partial(self._find, indexed, known.version), indexed.live
        writer, layout, fail = self._writer, known.layout, self._fail_unavailable
        if upsert.by_source:
            return write_ordered(upsert, self.order, known.order_state, find, live, writer, layout, fail_unavailable=fail)
        return write_upsert(upsert, find, live, writer, layout, files, fail_unavailable=fail)

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


def write_upsert(
    upsert: Upsert,
    find: Find,
    live: LiveFiles,
    writer: DataFileWriter,
    layout: TableLayout,
    files: ExecutorFiles | None,
    *,
    fail_unavailable: bool,
) -> DeltaUpsertFiles:
    """Writes new rows, unless executors have written them (``files``), and deletion vectors of the old ones."""
    truncates = upsert.truncates and not upsert.soft_deletes
    matches = Matches.empty() if truncates or not upsert.rows.num_rows else find(upsert.searched)
    survivors: dict[int, Rows] = {}
    if truncates and upsert.survivors is not None and upsert.survivors.num_rows:
        replaced = find(upsert.rows) if upsert.rows.num_rows else Matches.empty()
        kept = find(upsert.survivors).without(replaced)
        survivors = group_rows(kept.files, kept.rows)
    kept = Matches.empty() if truncates else find_kept_rows(upsert, matches, find)
    plan = plan_upsert(upsert, matches, live, kept=kept, fail_unavailable=fail_unavailable)
    change = TableChange(plan.rows, files)
    with change.writing(writer):
        if truncates:
            change.remove_all(live, survivors, writer)
        else:
            change.delete_rows(plan.deleted, live, writer)
        change.write_rows(writer, layout)
    return DeltaUpsertFiles(change, plan.unavailable)


def write_ordered(
    upsert: Upsert,
    order: SourceOrder,
    state_id: int,
    find: Find,
    live: LiveFiles,
    writer: DataFileWriter,
    layout: TableLayout,
    *,
    fail_unavailable: bool,
) -> DeltaUpsertFiles:
    """The same with ``sequence.by=source``: only changes that are newer than the table's rows. ``state_id`` names its state."""
    matches = find(upsert.rows) if upsert.rows.num_rows else Matches.empty()
    ordered = order.apply(upsert, matches, live, state_id)
    with order.writing(ordered):
        kept = order.find_kept_rows(ordered, live, find)
        plan = plan_upsert(ordered.upsert, ordered.matches, live, kept=kept, fail_unavailable=fail_unavailable)
        change = TableChange(plan.rows)
        with change.writing(writer):
            change.delete_rows(join_rows(plan.deleted, ordered.truncated), live, writer)
            change.write_rows(writer, layout)
    return DeltaUpsertFiles(change, plan.unavailable, ordered)
