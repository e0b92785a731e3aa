"""Writes the files of an upsert of an Iceberg table."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.snapshots import KnownSnapshot
from connectors.spark.tables.patch import planned_patch
from connectors.spark.tables.source_order.ordering import OrderedUpsert, SourceOrder
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
    live, state_id = indexed.live, known.offsets.order_state
    order.files = known.order_files
    order.files.are_shared = known.has_branches
    with planned_patch(upsert, indexed.find, live, order, state_id, fail_unavailable=fail_unavailable) as patch:
        change = IcebergChange(patch.rows, files)
        with change.writing(known.writer):
            change.write(patch, live, known)
        if patch.ordered is not None:
            change.order_state = patch.ordered.new_state_id
    replaces = (change.removed or change.vectors) and not known.has_vectors
    return WrittenUpsert(change, "overwrite" if replaces else "delta", patch.unavailable, patch.ordered)
