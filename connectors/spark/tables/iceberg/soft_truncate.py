"""What a truncate does to rows that stay in the table."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark import config_keys
from connectors.spark.plan.deduplicate import TruncatePoint
from connectors.spark.tables.files.live_files import LiveFiles
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.snapshots import KnownSnapshot
from connectors.spark.tables.table import Upsert


def write_truncated(upsert: Upsert, live: LiveFiles, known: KnownSnapshot) -> IcebergChange:
    """Writes the table's rows as they are after the truncate of an upsert."""
    update = close_versions(upsert.changes.truncate) if upsert.keeps_versions else mark_deleted(upsert.truncated_before)
    change = IcebergChange(pa.table({}))
    with change.writing(known.writer):
        change.replace_all(live, known.columns, update, known.writer)
    return change


def mark_deleted(before: str | None) -> Callable[[pa.Table], pa.Table]:
    """Sets ``__deleted`` in rows, or in those that are older than a position."""

    def mark(rows: pa.Table) -> pa.Table:
        if before is None:
            return _with(rows, config_keys.DELETED, pa.repeat(True, rows.num_rows))
        is_older = pc.fill_null(pc.less(rows[config_keys.SEQ], before), True)
        return _with(rows, config_keys.DELETED, pc.if_else(is_older, True, rows[config_keys.DELETED]))

    return mark


def close_versions(truncate: TruncatePoint | None) -> Callable[[pa.Table], pa.Table]:
    """Closes open versions of rows at the time of a truncate."""
    source_ms = None if truncate is None else truncate.source_ms
    at = pa.scalar(None if source_ms is None else source_ms * 1000, pa.timestamp("us", "UTC"))

    def close(rows: pa.Table) -> pa.Table:
        is_open = pc.fill_null(rows[config_keys.CURRENT], False)
        rows = _with(rows, config_keys.VALID_TO, pc.if_else(is_open, at, rows[config_keys.VALID_TO]))
        return _with(rows, config_keys.CURRENT, pc.if_else(is_open, False, rows[config_keys.CURRENT]))

    return close


def _with(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)
