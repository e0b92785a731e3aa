"""Plans the versions of rows (``write.mode=scd2``): each change of a key closes its open version, and may open another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.config import CURRENT, VALID_FROM, VALID_TO, TableConfig
from connectors.spark.decode.arrow_types import UTC_TIMESTAMP
from connectors.spark.decode.change_batch import DELETE, OPERATION, SOURCE_MS, TOMBSTONE, ChangeBatch
from connectors.spark.plan.deduplicate import (
    DeduplicatedChanges,
    drop_before_truncate,
    find_unavailable,
    sort_by_sequence,
)
from connectors.spark.plan.key_changes import Ints, Mask, follow_key_changes, has_moved, number_keys
from connectors.spark.plan.projection import metadata_columns


def plan_versions(changes: ChangeBatch, keys: Sequence[str], settings: TableConfig) -> DeduplicatedChanges:
    """The rows to write: a version for each change that is no delete, and then, marked as deleted, a row for each key, which
    becomes the closed copy of the version that is open in the table, if there is one.

    ``keep`` marks the values of these copies that are those of the open version, and the unavailable values of new versions that
    no earlier change of the batch has.
    """
    changes = sort_by_sequence(changes)
    changes, truncate = drop_before_truncate(changes, settings.delete_mode)
    if settings.delete_mode == "ignore":
        changes = changes.filter(pc.invert(_deletes(changes)))
    groups = number_keys([changes.image[name] for name in keys], changes.num_rows)
    order = np.lexsort((np.arange(len(groups)), groups))
    groups, meta, image = groups[order], changes.meta.take(pa.array(order)), changes.image.take(pa.array(order))
    deletes = _deletes(ChangeBatch(changes.topic, meta, image, None))
    is_delete = deletes.to_numpy(zero_copy_only=False) if len(groups) else np.zeros(0, bool)
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.zeros(0, np.int64)
    has_next = np.r_[groups[1:] == groups[:-1], False] if len(groups) else np.zeros(0, bool)
    at = meta[SOURCE_MS].cast(pa.timestamp("ms", "UTC")).cast(UTC_TIMESTAMP).combine_chunks()
    opened = np.flatnonzero(~is_delete)
    chosen = np.r_[opened, starts]
    closes = np.arange(len(chosen)) >= len(opened)

    found = find_unavailable(image, keys, deletes, settings.unavailable)
    if settings.unavailable_value != "null":
        # These are sorted by key; key changes follow the order of all changes.
        back = pa.array(np.argsort(order))
        sorted_ = ChangeBatch(changes.topic, meta.take(back), image.take(back), None)
        followed, found = follow_key_changes(
            sorted_, keys, pc.take(deletes, back), {name: pc.take(mask, back) for name, mask in found.items()}
        )
        meta, image = followed.meta.take(pa.array(order)), followed.image.take(pa.array(order))
        found = {name: pc.take(mask, pa.array(order)) for name, mask in found.items()}
    image, keep, nulls = _fill_unavailable(image, found, has_moved(meta), deletes, starts, settings)
    rows = image.take(pa.array(chosen))
    for name, column in metadata_columns(meta, settings.metadata_columns, deletes).items():
        rows = rows.append_column(name, column.take(pa.array(chosen)))
    ends = np.r_[np.where(has_next, np.arange(len(groups)) + 1, -1)[opened], starts]
    rows = rows.append_column(VALID_FROM, pa.chunked_array([at.take(pa.array(chosen))]))
    rows = rows.append_column(VALID_TO, pa.chunked_array([at.take(pa.array(ends, mask=ends < 0))]))
    rows = rows.append_column(CURRENT, pa.chunked_array([pa.array(np.r_[~has_next[opened], np.zeros(len(starts), bool)])]))
    masks: dict[str, pa.ChunkedArray] = {}
    for name in rows.column_names:
        if name not in (*keys, VALID_TO, CURRENT):
            mask = closes.copy()
            if name in keep:
                mask |= keep[name][chosen]
            masks[name] = pa.chunked_array([pa.array(mask)])
    deleted = pa.chunked_array([pa.array(closes)])
    return DeduplicatedChanges(rows, meta.take(pa.array(chosen)), deleted, masks, truncate, nulls)


def _deletes(changes: ChangeBatch) -> pa.ChunkedArray:
    return pc.fill_null(pc.is_in(changes.meta[OPERATION], pa.array([DELETE, TOMBSTONE])), False)


def _fill_unavailable(
    image: pa.Table,
    unavailable: dict[str, pa.ChunkedArray],
    has_moved: Mask,
    deletes: pa.ChunkedArray,
    starts: Ints,
    settings: TableConfig,
) -> tuple[pa.Table, dict[str, Mask], int]:
    """The image with unavailable values from the change before them that has the value; by column the rows that have to keep
    the table's value; and how many became null. Rows are sorted by key, which begin at ``starts``. Rows that ``has_moved`` marks
    keep values of the table only."""
    keep: dict[str, Mask] = {}
    nulls = 0
    numbers = np.arange(image.num_rows)
    first = np.repeat(starts, np.diff(np.r_[starts, image.num_rows])) if image.num_rows else numbers
    is_delete = deletes.to_numpy(zero_copy_only=False) if image.num_rows else np.zeros(0, bool)
    for name, mask in unavailable.items():
        column, lacks = image[name], mask.to_numpy(zero_copy_only=False)
        if settings.unavailable_value == "null":
            image = image.set_column(image.column_names.index(name), name, pc.if_else(mask, pa.scalar(None, column.type), column))
            nulls += int(lacks.sum())
            continue
        source = np.maximum.accumulate(np.where(lacks | is_delete, -1, numbers))
        is_known = (source >= first) & ~has_moved
        taken = np.where(lacks & is_known, source, numbers)
        image = image.set_column(image.column_names.index(name), name, column.take(pa.array(taken)))
        keep[name] = lacks & ~is_known
    return image, keep, nulls


def as_open(rows: pa.Table) -> pa.Table:
    """The rows with the keys of the open versions, to search for these."""
    return rows.set_column(rows.column_names.index(CURRENT), CURRENT, pa.array(np.ones(rows.num_rows, bool)))
