"""Writes the files of an upsert of an Iceberg table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import group_rows
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.files.upsert import plan_upsert
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.snapshots import KnownSnapshot
from connectors.spark.tables.table import Upsert


@dataclass(frozen=True, slots=True)
class WrittenUpsert:
    """``kind`` of commit, and the number of values that became null."""

    change: IcebergChange
    kind: str
    unavailable: int


def write_upsert(
    upsert: Upsert, indexed: IndexedFiles, known: KnownSnapshot, files: ExecutorFiles | None, *, fail_unavailable: bool
) -> WrittenUpsert:
    """Writes new rows, and deletion vectors or copies of files without the old rows."""
    live, truncates = indexed.live, upsert.truncates and not upsert.soft_deletes
    matches = Matches.empty() if truncates or not upsert.rows.num_rows else indexed.find(upsert.searched)
    survivors: dict[int, Rows] = {}
    if truncates and upsert.survivors is not None and upsert.survivors.num_rows:
        replaced = indexed.find(upsert.rows) if upsert.rows.num_rows else Matches.empty()
        kept = indexed.find(upsert.survivors).without(replaced)
        survivors = group_rows(kept.files, kept.rows)
    plan = plan_upsert(upsert, matches, live, fail_unavailable=fail_unavailable)
    change = IcebergChange(plan.rows, files)
    deleted = plan.deleted
    with change.writing(known.writer):
        if truncates:
            change.remove_files([file for file in live.by_path.values() if file.number not in survivors])
            deleted = {number: np.setdiff1d(np.arange(live.at(number).rows), rows) for number, rows in survivors.items()}
        if known.has_vectors:
            change.mark_deleted(deleted, live, known.writer)
        else:
            change.copy_without(deleted, live, known.columns, known.writer)
        change.write_rows(known.writer, known.partitioning)
    changes_files = change.removed or change.vectors
    return WrittenUpsert(change, "overwrite" if changes_files and not known.has_vectors else "delta", plan.unavailable)
