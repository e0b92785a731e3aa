"""Plans the versions of rows (``write.mode=scd2``): each change of a key closes its open version, and may open another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, IGNORE, VALID_FROM, VALID_TO
from connectors.spark.decode.change_batch import OLD_KEY, ChangeBatch, find_deletes
from connectors.spark.plan.deduplicate import (
    DeduplicatedChanges,
    drop_deletes,
    either_mask,
    find_missing,
    find_unavailable,
    sort_by_sequence,
)
from connectors.spark.plan.evolution import Mask
from connectors.spark.plan.key_changes import follow_key_changes, has_moved
from connectors.spark.plan.key_equality import Ints, number_keys
from connectors.spark.plan.projection import metadata_columns, source_times
from connectors.spark.plan.truncates import TruncatePoint, drop_truncates, truncates_as_deletes


def plan_versions(
    changes: ChangeBatch, keys: Sequence[str], settings: TableConfig, *, one_partition: bool = True
) -> DeduplicatedChanges:
    """The rows to write: a version for each change that is no delete, and then, marked as deleted, a row for each key, which
    becomes the closed copy of the version that is open in the table, if there is one.

    ``keep`` marks the values of these copies that are those of the open version, and the unavailable values of new versions that
    no earlier change of the batch has. ``one_partition``: whether one partition alone feeds the table.
    """
    changes = sort_by_sequence(changes)
    truncates: list[TruncatePoint] = []
    if settings.delete_mode == IGNORE:
        changes = drop_deletes(drop_truncates(changes))
    else:
        changes, truncates = truncates_as_deletes(changes, keys)
    truncate = truncates[0] if truncates else None  # it closes what is open before all changes
    groups = number_keys([changes.image[name] for name in keys], changes.num_rows)
    order = np.lexsort((np.arange(len(groups)), groups))
    groups, meta, image = groups[order], changes.meta.take(pa.array(order)), changes.image.take(pa.array(order))
    deletes = find_deletes(meta)
    is_delete = deletes.to_numpy(zero_copy_only=False) if len(groups) else np.zeros(0, bool)
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.zeros(0, np.int64)
    has_next = np.r_[groups[1:] == groups[:-1], False] if len(groups) else np.zeros(0, bool)
    at = source_times(meta).combine_chunks()
    opened = np.flatnonzero(~is_delete)
    chosen = np.r_[opened, starts]
    closes = np.arange(len(chosen)) >= len(opened)

    unavailable, nulls = find_unavailable(image, keys, deletes, settings.unavailable), 0
    if settings.unavailable_value == "null":
        nulls = sum(pc.sum(mask).as_py() or 0 for mask in unavailable.values())
        image, unavailable = _without_values(image, unavailable), {}
    may_lack = (
        [n for n in image.column_names if n not in (*keys, settings.rescue_column)] if settings.schema.keeps_missing else []
    )
    sorted_changes = ChangeBatch(changes.topic, meta, image, None)
    missing = find_missing(sorted_changes, may_lack, deletes)
    lacks = either_mask(unavailable, missing)
    followed, lacks = _follow_key_changes(sorted_changes, order, keys, deletes, lacks, one_partition=one_partition)
    meta, missing = followed.meta, {name: pc.and_(mask, lacks[name]) for name, mask in missing.items()}
    image, keep, without_value = _fill_lacking(followed, lacks, missing, deletes, starts)
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
        # Equal keys of floating point may differ: a closed version keeps its own.
        is_same = name in keys and not pa.types.is_floating(rows[name].type)
        if not is_same and name not in (VALID_TO, CURRENT):
            mask = closes.copy()
            if name in keep:
                mask |= keep[name][chosen]
            masks[name] = pa.chunked_array([pa.array(mask)])
            if name in without_value:
                without[name] = pa.chunked_array([pa.array(without_value[name][chosen] & ~closes)])
    deleted = pa.chunked_array([pa.array(closes)])
    return DeduplicatedChanges(rows, meta.take(pa.array(chosen)), deleted, masks, truncate, nulls, without)


def _without_values(image: pa.Table, masks: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    for name, mask in masks.items():
        column = pc.if_else(mask, pa.scalar(None, image[name].type), image[name])
        image = image.set_column(image.column_names.index(name), name, column)
    return image


def _follow_key_changes(
    changes: ChangeBatch,
    order: Ints,
    keys: Sequence[str],
    deletes: pa.ChunkedArray,
    lacks: dict[str, pa.ChunkedArray],
    *,
    one_partition: bool,
) -> tuple[ChangeBatch, dict[str, pa.ChunkedArray]]:
    """The same as :func:`follow_key_changes`, for changes that are sorted by key; ``order`` sorts them so."""
    if OLD_KEY not in changes.meta.column_names:
        return changes, lacks
    back, forth = pa.array(np.argsort(order)), pa.array(order)
    by_age = ChangeBatch(changes.topic, changes.meta.take(back), changes.image.take(back), None)
    masks = {name: pc.take(mask, back) for name, mask in lacks.items()}
    followed, masks = follow_key_changes(by_age, keys, pc.take(deletes, back), masks, one_partition=one_partition)
    by_key = ChangeBatch(changes.topic, followed.meta.take(forth), followed.image.take(forth), None)
    return by_key, {name: pc.take(mask, forth) for name, mask in masks.items()}


def _fill_lacking(
    changes: ChangeBatch,
    lacks_by_name: Mapping[str, pa.ChunkedArray],
    missing: Mapping[str, pa.ChunkedArray],
    deletes: pa.ChunkedArray,
    starts: Ints,
) -> tuple[pa.Table, dict[str, Mask], dict[str, Mask]]:
    """The image with unavailable and missing values from the change before them that has the value; and by column the rows that
    have to keep the table's value, and those of them that miss it. Rows are sorted by key, which begin at ``starts``. Rows that
    keep the values of another key (:func:`has_moved`) have them from the table only."""
    image, moved = changes.image, has_moved(changes.meta)
    keep: dict[str, Mask] = {}
    lacking: dict[str, Mask] = {}
    numbers = np.arange(image.num_rows)
    first = np.repeat(starts, np.diff(np.r_[starts, image.num_rows])) if image.num_rows else numbers
    has_deletes = pc.any(deletes).as_py()
    none = np.zeros(image.num_rows, bool)
    for name, mask in lacks_by_name.items():
        column, lacks = image[name], mask.to_numpy(zero_copy_only=False)
        without = missing[name].to_numpy(zero_copy_only=False) if name in missing else none
        source = np.maximum.accumulate(np.where(lacks, -1, numbers))
        if has_deletes:
            # After a delete, a key is another row, which begins without a value.
            column = pc.if_else(deletes, pa.scalar(None, column.type), column)
        is_known = (source >= first) & ~moved
        taken = np.where(lacks & is_known, source, numbers)
        column = column.take(pa.array(taken))
        if lacks.any():
            keep[name] = lacks & ~is_known
            column = pc.if_else(pa.array(keep[name]), pa.scalar(None, column.type), column)
            lacking[name] = without & ~is_known
        image = image.set_column(image.column_names.index(name), name, column)
    return image, keep, lacking


def as_open(rows: pa.Table) -> pa.Table:
    """The rows with the keys of the open versions, to search for these."""
    return rows.set_column(rows.column_names.index(CURRENT), CURRENT, pa.array(np.ones(rows.num_rows, bool)))
