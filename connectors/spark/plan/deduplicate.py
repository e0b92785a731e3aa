"""Many changes of a key to one: what an upsert table has to do for each key, computed on whole columns.

Within a batch the last change of a key wins, in the order in which the records arrived. A large value that the source left
out because it did not change (see :mod:`connectors.spark.decode.toast`) is taken from the last change of that key that had it;
if none did, it is marked to be kept from the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connectors.spark.config import IGNORE, SOFT, UNAVAILABLE
from connectors.spark.decode.change_batch import DELETE, MESSAGE, OPERATION, SEQUENCE, TOMBSTONE, TRUNCATE, Changes
from connectors.spark.decode.toast import placeholders

_ROW = "row"
_GROUP = "group"


@dataclass(frozen=True, slots=True)
class Folded:
    """One row a key. ``deleted`` is true for keys whose last change was a delete; ``keep`` has per column where the table's
    value stays. ``truncated`` says that the table is to be emptied first."""

    rows: pa.Table
    meta: pa.Table
    deleted: pa.ChunkedArray
    keep: dict[str, pa.ChunkedArray]
    truncated: bool


def fold(changes: Changes, keys: Sequence[str], delete_mode: str, unavailable: str = UNAVAILABLE) -> Folded:
    """The changes folded by ``keys``, whose columns are in the image already (see :func:`with_key_columns`).

    ``unavailable`` is the word that stands for a value which the source left out.
    """
    changes = _in_order(changes)
    changes, truncated = _after_truncate(changes, delete_mode)
    operations = changes.meta[OPERATION]
    deleted = pc.fill_null(pc.is_in(operations, pa.array([DELETE, TOMBSTONE])), False)
    if delete_mode == IGNORE and pc.any(deleted).as_py():
        changes = changes.filter(pc.invert(deleted))
        deleted = pa.chunked_array([pa.array([False] * changes.num_rows, pa.bool_())])
    keep = _unavailable(changes.image, keys, deleted, unavailable)
    if delete_mode == SOFT and pc.any(deleted).as_py():
        # A delete says nothing of the other columns: the row keeps what it had last.
        keep |= {c: pc.or_(keep[c], deleted) if c in keep else deleted for c in changes.image.column_names if c not in keys}
    return _last_of_each(changes, keys, deleted, keep, truncated)


def with_key_columns(changes: Changes, keys: Sequence[str], configured: bool) -> Changes:
    """The changes with their key columns filled in: from the record key, or from the row where the key lacks them.

    Raises DataError for a row that has none, which names the record and the way out.
    """
    operations = changes.meta[OPERATION]
    needs_key = pc.invert(pc.fill_null(pc.is_in(operations, pa.array([TRUNCATE, MESSAGE])), False))
    image = changes.image.drop_columns([""]) if "" in changes.image.column_names else changes.image
    skipped = None
    for name in keys:
        of_key = changes.keys[name] if changes.keys is not None and name in changes.keys.column_names else None
        of_row = image[name] if name in image.column_names else None
        if of_key is None and of_row is None:
            column = pa.chunked_array([pa.nulls(changes.num_rows)])
        elif of_key is None or of_row is None:
            column = of_key if of_key is not None else of_row
        else:
            column = pc.coalesce(changes.key_as(name, of_row.type), of_row)
        missing = pc.and_(column.is_null(), needs_key)
        if pc.any(missing).as_py():
            if configured:
                # The delete before it has the columns; the tombstone is only for Kafka's compaction.
                bare = pc.and_(missing, pc.fill_null(pc.equal(operations, TOMBSTONE), False))
                skipped = bare if skipped is None else pc.or_(skipped, bare)
                missing = pc.and_(missing, pc.invert(bare))
            if pc.any(missing).as_py():
                index = pc.index(missing, True).as_py()
                raise DataError(
                    f"{changes.locate(index)}: there is no value for key column {name}, and write.mode=upsert needs one; "
                    "set key.columns to columns that every row has, or write.mode=append"
                )
        image = image.set_column(image.column_names.index(name), name, column) if of_row is not None else (
            image.append_column(name, column) if image.num_columns else pa.table({name: column})
        )  # fmt: skip
    result = Changes(changes.topic, changes.meta, image, None)
    return result if skipped is None else result.filter(pc.invert(skipped))


def _in_order(changes: Changes) -> Changes:
    kept = pc.fill_null(pc.not_equal(changes.meta[OPERATION], MESSAGE), True)
    if not pc.all(kept).as_py():
        changes = changes.filter(kept)
    sequence = changes.meta[SEQUENCE].combine_chunks()
    if len(sequence) > 1 and not pc.all(pc.greater(sequence.slice(1), sequence.slice(0, len(sequence) - 1))).as_py():
        order = pc.sort_indices(changes.meta[SEQUENCE])
        changes = Changes(changes.topic, changes.meta.take(order), changes.image.take(order), None)
    return changes


def _after_truncate(changes: Changes, delete_mode: str) -> tuple[Changes, bool]:
    """What came after the last truncate. Order between partitions is that of arrival, for Kafka has none."""
    truncates = pc.fill_null(pc.equal(changes.meta[OPERATION], TRUNCATE), False)
    if not pc.any(truncates).as_py():
        return changes, False
    if delete_mode == IGNORE:
        return changes.filter(pc.invert(truncates)), False
    last = pc.max(pc.indices_nonzero(truncates)).as_py()
    rest = slice(last + 1, None)
    return (
        Changes(changes.topic, changes.meta.slice(rest.start), changes.image.slice(rest.start), None),
        True,
    )


def _unavailable(image: pa.Table, keys: Sequence[str], deleted: pa.ChunkedArray, word: str) -> dict[str, pa.ChunkedArray]:
    """Per column that has any, where its value is the source's placeholder."""
    found = {}
    for name in image.column_names:
        if name in keys:
            continue
        mask = placeholders(image[name], word)
        if mask is not None:
            found[name] = pc.and_(mask, pc.invert(deleted))
    return found


def _last_of_each(
    changes: Changes, keys: Sequence[str], deleted: pa.ChunkedArray, keep: dict[str, pa.ChunkedArray], truncated: bool
) -> Folded:
    count = changes.num_rows
    if not count:
        return Folded(changes.image, changes.meta, deleted, {}, truncated)
    index = pa.array(range(count), pa.int64())
    by_key = pa.table({f"k{i}": changes.image[k] for i, k in enumerate(keys)} | {_ROW: index})
    names = by_key.column_names[:-1]
    try:
        groups = by_key.group_by(names, use_threads=False).aggregate([(_ROW, "max")])
    except pa.ArrowNotImplementedError as e:
        raise DataError(f"topic {changes.topic}: key columns {', '.join(keys)} are of a type that no key can be: {e}") from e
    last = groups[f"{_ROW}_max"].combine_chunks()
    if len(last) == count:
        return Folded(changes.image, changes.meta, deleted, {c: m for c, m in keep.items() if pc.any(m).as_py()}, truncated)
    rows, kept = changes.image.take(last), {}
    in_group = None
    for column, mask in keep.items():
        open_ = pc.take(mask, last)
        if not pc.any(open_).as_py():
            continue
        if in_group is None:
            in_group = by_key.join(groups, names, join_type="inner", use_threads=False).select([_ROW, f"{_ROW}_max"])
        value_at = _last_available(in_group, mask, last)
        known = pc.and_(open_, pa.chunked_array([value_at.is_valid()]))
        if pc.any(known).as_py():
            earlier = changes.image[column].take(pc.if_else(known.combine_chunks(), value_at, last))
            rows = rows.set_column(rows.column_names.index(column), column, earlier)
        kept[column] = pc.and_(open_, pc.invert(known))
    return Folded(
        rows, changes.meta.take(last), pc.take(deleted, last), {c: m for c, m in kept.items() if pc.any(m).as_py()}, truncated
    )


def _last_available(in_group: pa.Table, mask: pa.ChunkedArray, last: pa.Array) -> pa.Array:
    """Per group (in the order of ``last``) the row of the last change that had the value; null when none had."""
    had = in_group.filter(pc.invert(pc.take(mask, in_group[_ROW])))
    if not had.num_rows:
        return pa.nulls(len(last), pa.int64())
    newest = had.rename_columns([_ROW, _GROUP]).group_by(_GROUP, use_threads=False).aggregate([(_ROW, "max")])
    at = pc.index_in(last, newest[_GROUP].combine_chunks())
    return newest[f"{_ROW}_max"].combine_chunks().take(at)
