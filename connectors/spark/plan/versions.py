"""Plans the versions of rows (``write.mode=scd2``): each change of a key closes its open version, and may open another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.config import CURRENT, VALID_FROM, VALID_TO, TableConfig
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.arrow_types import UTC_TIMESTAMP
from connectors.spark.decode.change_batch import DELETE, OPERATION, SOURCE_MS, TOMBSTONE, ChangeBatch
from connectors.spark.plan.deduplicate import (
    DeduplicatedChanges,
    drop_before_truncate,
    find_missing,
    find_unavailable,
    sort_by_sequence,
)
from connectors.spark.plan.projection import metadata_columns

Ints = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


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
    groups = _number_keys([changes.image[name] for name in keys], changes.num_rows)
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

    sorted_changes = ChangeBatch(changes.topic, meta, image, None)
    image, keep, missing, nulls = _fill_lacking(sorted_changes, keys, deletes, starts, settings)
    rows = image.take(pa.array(chosen))
    for name, column in metadata_columns(meta, settings.metadata_columns, deletes).items():
        rows = rows.append_column(name, column.take(pa.array(chosen)))
    ends = np.r_[np.where(has_next, np.arange(len(groups)) + 1, -1)[opened], starts]
    rows = rows.append_column(VALID_FROM, pa.chunked_array([at.take(pa.array(chosen))]))
    rows = rows.append_column(VALID_TO, pa.chunked_array([at.take(pa.array(ends, mask=ends < 0))]))
    rows = rows.append_column(CURRENT, pa.chunked_array([pa.array(np.r_[~has_next[opened], np.zeros(len(starts), bool)])]))
    masks: dict[str, pa.ChunkedArray] = {}
    without: dict[str, pa.ChunkedArray] = {}
    for name in rows.column_names:
        if name not in (*keys, VALID_TO, CURRENT):
            mask = closes.copy()
            if name in keep:
                mask |= keep[name][chosen]
            masks[name] = pa.chunked_array([pa.array(mask)])
            if name in missing:
                without[name] = pa.chunked_array([pa.array(missing[name][chosen] & ~closes)])
    deleted = pa.chunked_array([pa.array(closes)])
    return DeduplicatedChanges(rows, meta.take(pa.array(chosen)), deleted, masks, truncate, nulls, without)


def _deletes(changes: ChangeBatch) -> pa.ChunkedArray:
    return pc.fill_null(pc.is_in(changes.meta[OPERATION], pa.array([DELETE, TOMBSTONE])), False)


def _number_keys(columns: Sequence[pa.ChunkedArray], count: int) -> Ints:
    """A number by row, equal in rows of one key."""
    found = np.zeros(count, np.int64)
    for column in columns if count else ():
        codes = as_array(column).dictionary_encode("encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, found = np.unique(found * (codes.max() + 1) + codes, return_inverse=True)
    return found.astype(np.int64)


def _fill_lacking(
    changes: ChangeBatch, keys: Sequence[str], deletes: pa.ChunkedArray, starts: Ints, settings: TableConfig
) -> tuple[pa.Table, dict[str, Mask], dict[str, Mask], int]:
    """The image with unavailable and missing values from the change before them that has the value; by column the rows that have
    to keep the table's value, and those of them that miss it; and how many became null. Rows are sorted by key, which begin at
    ``starts``."""
    image = changes.image
    keep: dict[str, Mask] = {}
    lacking: dict[str, Mask] = {}
    nulls = 0
    numbers = np.arange(image.num_rows)
    first = np.repeat(starts, np.diff(np.r_[starts, image.num_rows])) if image.num_rows else numbers
    is_delete = deletes.to_numpy(zero_copy_only=False) if image.num_rows else np.zeros(0, bool)
    unavailable = find_unavailable(image, keys, deletes, settings.unavailable)
    may_lack = (
        [n for n in image.column_names if n not in (*keys, settings.rescue_column)] if settings.schema.keeps_missing else []
    )
    missing = find_missing(changes, may_lack, deletes)
    none = np.zeros(image.num_rows, bool)
    for name in dict.fromkeys([*unavailable, *missing]):
        column = image[name]
        lost = unavailable[name].to_numpy(zero_copy_only=False) if name in unavailable else none
        if name in unavailable and settings.unavailable_value == "null":
            column = pc.if_else(unavailable[name], pa.scalar(None, column.type), column)
            nulls += int(lost.sum())
            lost = none
        without = missing[name].to_numpy(zero_copy_only=False) if name in missing else none
        lacks = lost | without
        source = np.maximum.accumulate(np.where(lacks | is_delete, -1, numbers))
        if without.any():
            # After a delete, a key is another row, which begins without a value.
            source = np.where(without, np.maximum.accumulate(np.where(lacks, -1, numbers)), source)
            column = pc.if_else(deletes, pa.scalar(None, column.type), column)
        is_known = source >= first
        taken = np.where(lacks & is_known, source, numbers)
        image = image.set_column(image.column_names.index(name), name, column.take(pa.array(taken)))
        if lacks.any():
            keep[name] = lacks & ~is_known
            lacking[name] = without & ~is_known
    return image, keep, lacking, nulls


def as_open(rows: pa.Table) -> pa.Table:
    """The rows with the keys of the open versions, to search for these."""
    return rows.set_column(rows.column_names.index(CURRENT), CURRENT, pa.array(np.ones(rows.num_rows, bool)))
