"""Row lineage: rows keep their IDs when they are moved to another file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.tables.files.live_files import LiveFile
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.iceberg.file_format import LAST_SEQUENCE, LINEAGE, ROW_ID

__all__ = ["LINEAGE", "with_lineage"]


def with_lineage(file: LiveFile, first: int, batch: pa.Table) -> pa.Table:
    """Rows of a file, from row ``first`` on, with the lineage that the file does not store but its place says. Without it, as in
    tables of format version 2, the rows have no lineage."""
    batch = with_row_ids(file, first + np.arange(batch.num_rows), batch, is_updated=False)
    if LAST_SEQUENCE not in batch.column_names:
        return batch
    sequence = pa.scalar(file.entry.get("sequence"), pa.int64())
    return batch.set_column(batch.column_names.index(LAST_SEQUENCE), LAST_SEQUENCE, pc.coalesce(batch[LAST_SEQUENCE], sequence))


def with_row_ids(file: LiveFile, numbers: Rows, batch: pa.Table, *, is_updated: bool = True) -> pa.Table:
    """The same for rows with these numbers. Updated ones keep their IDs, and were updated last by the commit that adds them."""
    first_row = file.entry.get("first_row")
    if first_row is None:
        return batch.drop_columns(list(LINEAGE))
    ids = pa.array(first_row + numbers)
    batch = batch.set_column(batch.column_names.index(ROW_ID), ROW_ID, pc.coalesce(batch[ROW_ID], ids))
    if not is_updated:
        return batch
    return batch.set_column(batch.column_names.index(LAST_SEQUENCE), LAST_SEQUENCE, pa.nulls(batch.num_rows, pa.int64()))
