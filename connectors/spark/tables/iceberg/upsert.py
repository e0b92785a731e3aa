"""Writes the files of an upsert of an Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import LiveFiles, group_rows
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.files.upsert import find_kept_rows, plan_upsert
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.snapshots import KnownSnapshot
from connectors.spark.tables.source_order.ordering import OrderedUpsert, SourceOrder, join_rows
from connectors.spark.tables.table import Upsert


@dataclass(frozen=True, slots=True)
class WrittenUpsert:
    """``kind`` of commit, and the number of values that became null."""

    change: IcebergChange
    kind: str
    unavailable: int
    ordered: OrderedUpsert | None = None


def write_upsert(
    upsert: Upsert,
    indexed: IndexedFiles,
    known: KnownSnapshot,
    order: SourceOrder,
    files: ExecutorFiles | None,
    *,
    fail_unavailable: bool,
) -> WrittenUpsert:
    """Writes new rows, unless executors have written them (``files``), and deletion vectors or copies of files without the old
    rows."""
    if upsert.by_source:
        return _write_ordered(upsert, indexed, known, order, fail_unavailable=fail_unavailable)
    live, truncates = indexed.live, upsert.truncates and not upsert.soft_deletes
    matches = Matches.empty() if truncates or not upsert.rows.num_rows else indexed.find(upsert.searched)
    survivors: dict[int, Rows] = {}
    if truncates and upsert.survivors is not None and upsert.survivors.num_rows:
        replaced = indexed.find(upsert.rows) if upsert.rows.num_rows else Matches.empty()
        kept = indexed.find(upsert.survivors).without(replaced)
        survivors = group_rows(kept.files, kept.rows)
    kept = Matches.empty() if truncates else find_kept_rows(upsert, matches, indexed.find)
    plan = plan_upsert(upsert, matches, live, kept=kept, fail_unavailable=fail_unavailable)
    change = IcebergChange(plan.rows, files)
    deleted = plan.deleted
    with change.writing(known.writer):
        if truncates:
            change.remove_files([file for file in live.by_path.values() if file.number not in survivors])
            deleted = {number: np.setdiff1d(np.arange(live.at(number).rows), rows) for number, rows in survivors.items()}
        _write(change, deleted, live, known)
    return WrittenUpsert(change, _kind(change, known), plan.unavailable)


def _write_ordered(
    upsert: Upsert, indexed: IndexedFiles, known: KnownSnapshot, order: SourceOrder, *, fail_unavailable: bool
) -> WrittenUpsert:
    """The same with ``sequence.by=source``, for changes that are newer than the table's rows."""
    order.files, live = known.order_files, indexed.live
    order.files.are_shared = known.has_branches
    matches = indexed.find(upsert.rows) if upsert.rows.num_rows else Matches.empty()
    ordered = order.apply(upsert, matches, live, known.offsets.order_state)
    with order.writing(ordered):
        kept = order.find_kept_rows(ordered, live, indexed.find)
        plan = plan_upsert(ordered.upsert, ordered.matches, live, kept=kept, fail_unavailable=fail_unavailable)
        change = IcebergChange(plan.rows)
        with change.writing(known.writer):
            _write(change, join_rows(plan.deleted, ordered.truncated), live, known)
        change.order_state = ordered.new_state_id
    return WrittenUpsert(change, _kind(change, known), plan.unavailable, ordered)


def _write(change: IcebergChange, deleted: Mapping[int, Rows], live: LiveFiles, known: KnownSnapshot) -> None:
    if known.has_vectors:
        change.mark_deleted(deleted, live, known.writer)
    else:
        change.copy_without(deleted, live, known.columns, known.writer)
    change.write_rows(known.writer, known.partitioning)


def _kind(change: IcebergChange, known: KnownSnapshot) -> str:
    return "overwrite" if (change.removed or change.vectors) and not known.has_vectors else "delta"
