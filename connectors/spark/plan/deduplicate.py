"""Reduces a batch of changes to the latest change per key, on whole columns.

Within a batch the last change of a key wins, in order of arrival. An unavailable value (see
:mod:`connectors.spark.decode.toast`) is taken from the last change of the key that has it; if none has it, the table's value is
kept.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connectors.spark.config_keys import IGNORE, SOFT, UNAVAILABLE
from connectors.spark.decode.arrow_casts import find_differences
from connectors.spark.decode.change_batch import (
    FIELDS,
    MESSAGE,
    OPERATION,
    POSITION,
    SEQUENCE,
    SOURCE_MS,
    ChangeBatch,
    find_deletes,
    find_tombstones,
)
from connectors.spark.decode.exact_values import parse_document
from connectors.spark.decode.present_fields import rows_with
from connectors.spark.decode.rescued_json import RESCUED
from connectors.spark.decode.toast import placeholders
from connectors.spark.plan.evolution import cast_key, show_value
from connectors.spark.plan.key_changes import follow_key_changes, has_moved
from connectors.spark.plan.key_equality import Ints, first_rows, last_rows, number_keys
from connectors.spark.plan.truncates import (
    MADE,
    TruncatePoint,
    drop_before_truncate,
    drop_truncates,
    find_row_changes,
    truncates_as_deletes,
)

_NULLS = "nulls"


@dataclass(frozen=True, slots=True)
class DeduplicatedChanges:
    """One row per key. ``deleted`` marks keys whose last change was a delete; ``keep`` marks, by column, rows that keep the
    table's value; without one, they have that of ``rows``. ``truncate`` deletes all rows that are older. ``unavailable`` counts
    values that are null because they are unavailable. ``missing`` marks the rows of ``keep`` without an unavailable value: no
    change had the column, or the row begins with a soft delete."""

    rows: pa.Table
    meta: pa.Table
    deleted: pa.ChunkedArray
    keep: dict[str, pa.ChunkedArray]
    truncate: TruncatePoint | None
    unavailable: int = 0
    missing: dict[str, pa.ChunkedArray] = field(default_factory=dict)

    def unavailable_in(self, name: str) -> pa.ChunkedArray:
        """The rows of ``keep`` whose value is unavailable in a column."""
        mask = self.keep[name]
        return pc.and_(mask, pc.invert(self.missing[name])) if name in self.missing else mask

    def filter(self, mask: pa.Array) -> DeduplicatedChanges:
        """The changes for which the mask is true."""
        keep = {name: kept.filter(mask) for name, kept in self.keep.items()}
        keep = {name: kept for name, kept in keep.items() if pc.any(kept).as_py()}
        missing = {name: lacks.filter(mask) for name, lacks in self.missing.items() if name in keep}
        rows, meta, deleted = self.rows.filter(mask), self.meta.filter(mask), self.deleted.filter(mask)
        return replace(self, rows=rows, meta=meta, deleted=deleted, keep=keep, missing=missing)


def latest_per_key(
    changes: ChangeBatch,
    keys: Sequence[str],
    delete_mode: str,
    unavailable: str = UNAVAILABLE,
    *,
    unavailable_is_null: bool = False,
    may_lack: Collection[str] = (),
    one_partition: bool = True,
) -> DeduplicatedChanges:
    """The latest change per key. The image must contain the key columns (see :func:`with_key_columns`).

    ``unavailable`` is the placeholder for unavailable values; with ``unavailable_is_null``, they become null. ``may_lack`` are
    columns whose value is kept if the record does not have them (``meta`` names the fields of each record). ``one_partition``:
    whether one partition alone feeds the table (:func:`follow_key_changes`).
    """
    changes, truncates = without_truncates(sort_by_sequence(changes), keys, delete_mode)
    truncate = truncates[0] if truncates else None
    return latest_of_sorted(
        changes,
        truncate,
        keys,
        delete_mode,
        unavailable,
        unavailable_is_null=unavailable_is_null,
        may_lack=may_lack,
        one_partition=one_partition,
    )


def without_truncates(
    changes: ChangeBatch, keys: Sequence[str], delete_mode: str
) -> tuple[ChangeBatch, list[TruncatePoint]]:  # fmt: skip
    """What sorted changes do to the rows of their keys; and the truncates, which concern the table's other rows, too."""
    if delete_mode == IGNORE:
        return drop_truncates(changes), []
    return truncates_as_deletes(changes, keys) if delete_mode == SOFT else drop_before_truncate(changes)


def latest_of_sorted(
    changes: ChangeBatch,
    truncate: TruncatePoint | None,
    keys: Sequence[str],
    delete_mode: str,
    unavailable: str = UNAVAILABLE,
    *,
    unavailable_is_null: bool = False,
    may_lack: Collection[str] = (),
    one_partition: bool = True,
) -> DeduplicatedChanges:
    """The latest change per key of changes that are sorted from the oldest to the newest, after the last truncate."""
    if delete_mode == IGNORE:
        changes = drop_deletes(changes)
    deleted = find_deletes(changes.meta)
    lost = find_unavailable(changes.image, keys, deleted, unavailable)
    if lost and unavailable_is_null:
        changes, lost = _replace_by_null(changes, lost), {}
    missing = find_missing(changes, may_lack, deleted)
    lacking = either_mask(lost, missing)
    if delete_mode == SOFT and pc.any(deleted).as_py():
        for name, mask in find_unavailable(changes.image, keys, pc.invert(deleted), unavailable).items():
            changes = _without_values(changes, [name], mask)
        # A delete does not set the other columns: the row keeps its last values.
        lacking = either_mask(lacking, {name: deleted for name in changes.image.column_names if name not in keys})
    changes, keep = follow_key_changes(changes, keys, deleted, lacking, one_partition=one_partition)
    lost = {c: pc.and_(mask, keep[c]) for c, mask in lost.items()}
    missing = {c: pc.and_(mask, keep[c]) for c, mask in missing.items()}
    if keep and delete_mode != SOFT:
        changes = _without_values(changes, keep, deleted)
    latest = _take_latest(changes, keys, deleted, keep, lost if missing else None, truncate)
    if _NULLS not in latest.meta.column_names:
        return latest
    return replace(latest, meta=latest.meta.drop_columns([_NULLS]), unavailable=pc.sum(latest.meta[_NULLS]).as_py() or 0)


def drop_deletes(changes: ChangeBatch) -> ChangeBatch:
    """The changes without deletes."""
    found = find_deletes(changes.meta)
    return changes.filter(pc.invert(found)) if pc.any(found).as_py() else changes


def find_missing(changes: ChangeBatch, names: Collection[str], deleted: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """By column: mask of the changes that do not have it, for columns that some of them lack."""
    present = rows_with(changes.meta[FIELDS], [n for n in names if n in changes.image.column_names]) if names else {}
    lacks = {n: pc.and_(pa.chunked_array([pa.array(~mask)]), pc.invert(deleted)) for n, mask in present.items() if not mask.all()}
    return {n: mask for n, mask in lacks.items() if pc.any(mask).as_py()}


def either_mask(masks: dict[str, pa.ChunkedArray], others: dict[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    """By column: mask of the rows that one of both marks."""
    return masks | {c: pc.or_(masks[c], mask) if c in masks else mask for c, mask in others.items()}


def _without_values(changes: ChangeBatch, names: Collection[str], deleted: pa.ChunkedArray) -> ChangeBatch:
    """The changes with null in these columns of deleted rows: what follows a delete is another row, which has none of its
    values."""
    image = changes.image
    for name in names if pc.any(deleted).as_py() else ():
        column = pc.if_else(deleted, pa.scalar(None, image[name].type), image[name])
        image = image.set_column(image.column_names.index(name), name, column)
    return replace(changes, image=image)


def _replace_by_null(changes: ChangeBatch, masks: dict[str, pa.ChunkedArray]) -> ChangeBatch:
    """The changes without these values; ``meta`` gets their number by row."""
    image = changes.image
    for name, mask in masks.items():
        column = pc.if_else(mask, pa.scalar(None, image[name].type), image[name])
        image = image.set_column(image.column_names.index(name), name, column)
    nulls = functools.reduce(pc.add, [mask.cast(pa.int64()) for mask in masks.values()])
    return ChangeBatch(changes.topic, changes.meta.append_column(_NULLS, nulls), image, changes.keys)


def with_key_columns(changes: ChangeBatch, keys: Sequence[str], configured: bool, unavailable: str = UNAVAILABLE) -> ChangeBatch:
    """Adds the key columns to the image: from the record key, or from the row if the key lacks them.

    Raises DataError that names the record for a row without a key value, or whose key is ``unavailable``, and for a plain record
    with another value than its key.
    """
    needs_key = find_row_changes(changes.meta)
    image = changes.columns()
    _refuse_rescued_keys(changes, keys)
    skipped = None
    for name in keys:
        from_key = changes.keys[name] if changes.keys is not None and name in changes.keys.column_names else None
        from_row = image[name] if name in image.column_names else None
        if from_key is None and from_row is None:
            column = pa.chunked_array([pa.nulls(changes.num_rows)])
        elif from_key is None or from_row is None:
            column = from_key if from_key is not None else from_row
        else:
            key = cast_key(changes, name, from_row.type)
            _refuse_other_values(changes, name, key, from_row)
            column = pc.coalesce(key, from_row)
        missing = pc.and_(column.is_null(), needs_key)
        if pc.any(missing).as_py():
            if configured:
                # The preceding delete has the columns; a tombstone only serves Kafka's log compaction.
                bare = pc.and_(missing, find_tombstones(changes.meta))
                skipped = bare if skipped is None else pc.or_(skipped, bare)
                missing = pc.and_(missing, pc.invert(bare))
            if pc.any(missing).as_py():
                index = pc.index(missing, True).as_py()
                raise DataError(
                    f"{changes.describe_record(index)}: key column {name} has no value; "
                    "set key.columns to columns that every row has, or write.mode=append"
                )
        if (unknown := placeholders(column, unavailable)) is not None:
            index = pc.index(unknown, True).as_py()
            raise DataError(
                f"{changes.describe_record(index)}: the value of the key column {name} is unavailable, so the row is not known; "
                "set REPLICA IDENTITY FULL on the source table, or key.columns to other columns"
            )
        image = image.set_column(image.column_names.index(name), name, column) if from_row is not None else (
            image.append_column(name, column) if image.num_columns else pa.table({name: column})
        )  # fmt: skip
    result = ChangeBatch(changes.topic, changes.meta, image, None)
    return result if skipped is None else result.filter(pc.invert(skipped))


def _refuse_rescued_keys(changes: ChangeBatch, keys: Sequence[str]) -> None:
    """Raises DataError for a row whose own value of a key column does not have the type of the column."""
    if RESCUED not in changes.image.column_names:
        return
    rescued = changes.image[RESCUED]
    for at in pc.indices_nonzero(rescued.is_valid()).to_pylist():
        for name in sorted(parse_document(rescued[at].as_py().encode()).keys() & set(keys)):
            raise DataError(
                f"{changes.describe_record(at)}: the value of the key column {name} does not have the type of the column, so the "
                "row is not known"
            )


def _refuse_other_values(changes: ChangeBatch, name: str, key: pa.ChunkedArray, row: pa.ChunkedArray) -> None:
    if pa.types.is_nested(row.type):
        return
    # The row of a change event is that of its key, also where the source masks or shortens the column: keys keep their values.
    differs = find_differences(key, row)
    if not changes.is_unwrapped:
        differs = pc.and_(differs, changes.meta[OPERATION].is_null())
    if pc.any(differs).as_py():
        index = pc.index(differs, True).as_py()
        raise DataError(
            f"{changes.describe_record(index)}: the record key and the row have different values in the field {name}, "
            f"{show_value(key, index)} and {show_value(row, index)}, so it is not known which row of the table it is; rename the "
            "field of the key, or make the key of the row's field, for example with the transformation ValueToKey"
        )


def sort_by_sequence(changes: ChangeBatch) -> ChangeBatch:
    """The changes in the order of their arrival, without messages."""
    kept = pc.fill_null(pc.not_equal(changes.meta[OPERATION], MESSAGE), True)
    if not pc.all(kept).as_py():
        changes = changes.filter(kept)
    sequence = changes.meta[SEQUENCE].combine_chunks()
    if len(sequence) > 1 and not pc.all(pc.greater(sequence.slice(1), sequence.slice(0, len(sequence) - 1))).as_py():
        order = pc.sort_indices(changes.meta[SEQUENCE])
        changes = ChangeBatch(changes.topic, changes.meta.take(order), changes.image.take(order), None)
    return changes


def find_unavailable(image: pa.Table, keys: Sequence[str], deleted: pa.ChunkedArray, word: str) -> dict[str, pa.ChunkedArray]:
    """By column: mask of the rows with an unavailable value, for columns that have any."""
    found = {}
    for name in image.column_names:
        if name in keys:
            continue
        mask = placeholders(image[name], word)
        if mask is not None:
            found[name] = pc.and_(mask, pc.invert(deleted))
    return found


def _take_latest(
    changes: ChangeBatch,
    keys: Sequence[str],
    deleted: pa.ChunkedArray,
    keep: dict[str, pa.ChunkedArray],
    lost: dict[str, pa.ChunkedArray] | None,
    truncate: TruncatePoint | None,
) -> DeduplicatedChanges:
    """``lost`` are the unavailable values among those to keep; None if all of them are."""
    count = changes.num_rows
    if not count:
        return DeduplicatedChanges(changes.image, changes.meta, deleted, {}, truncate)
    numbers = number_keys([changes.image[k] for k in keys], count)
    last = pa.array(last_rows(numbers))
    rows, meta, is_deleted = changes.image, changes.meta, deleted
    if len(last) < count:
        rows, meta, is_deleted = rows.take(last), meta.take(last), pc.take(deleted, last)
    meta = _with_places_of_tombstones(meta, changes.meta, numbers)
    if not keep:
        return DeduplicatedChanges(rows, meta, is_deleted, {}, truncate)
    kept, missing = {}, {}
    is_own = pc.invert(pa.array(has_moved(changes.meta)).take(last))
    # A row that the table lacks begins with the image of a soft delete, whatever is committed together with it.
    records = np.flatnonzero(~changes.meta[MADE].to_numpy()) if MADE in changes.meta.column_names else None
    first = first_rows(numbers, records)
    begins = (first >= 0) & deleted.to_numpy()[first] & is_own.to_numpy(zero_copy_only=False)
    begun_at = pa.array(first, mask=~begins)
    for column, mask in keep.items():
        is_open = pc.take(mask, last).combine_chunks()
        if not pc.any(is_open).as_py():
            continue
        # By key: the last change that has the value.
        value_at = pa.array(last_rows(numbers, np.flatnonzero(~mask.to_numpy())))
        is_known = pc.and_(is_open, pc.and_(pc.greater_equal(value_at, 0), is_own))
        is_kept = pc.and_(is_open, pc.invert(is_known))
        found = changes.image[column].take(pc.if_else(is_known, value_at, pc.if_else(is_open, begun_at, last)))
        rows = rows.set_column(rows.column_names.index(column), column, found)
        kept[column] = pa.chunked_array([is_kept])
        missing[column] = pc.and_(kept[column], found.is_valid())
        if lost is not None:
            was_lost = lost[column].to_numpy() if column in lost else np.zeros(count, bool)
            never_lost = pa.array(last_rows(numbers, np.flatnonzero(was_lost)) < 0)
            missing[column] = pc.or_(missing[column], pc.and_(kept[column], pa.chunked_array([never_lost])))
    kept = {c: m for c, m in kept.items() if pc.any(m).as_py()}
    missing = {c: m for c, m in missing.items() if c in kept and pc.any(m).as_py()}
    return DeduplicatedChanges(rows, meta, is_deleted, kept, truncate, missing=missing)


def _with_places_of_tombstones(latest: pa.Table, meta: pa.Table, numbers: Ints) -> pa.Table:
    """``latest``, the last changes of ``meta``, which has keys of these numbers. A tombstone gets the place in the source of the
    last change before it."""
    ends = find_tombstones(latest).to_numpy()
    if not ends.any():
        return latest
    at = last_rows(numbers, np.flatnonzero(~find_tombstones(meta).to_numpy()))
    for name in (POSITION, SOURCE_MS):
        before = meta[name].take(pa.array(at, mask=at < 0))
        latest = latest.set_column(latest.column_names.index(name), name, pc.if_else(ends, before, latest[name]))
    return latest
