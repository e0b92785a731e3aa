"""Finds the large values of rows whose key has changed: the create with the new key lacks those that did not change.

A source writes a change of the primary key as a delete of the old key and a create of the new one, whose header has the old key
(``__debezium.oldkey``). An unavailable value of the create is that of the old row, before its delete: from an earlier change of
the batch, or from the table. Keys may change several times in a batch, and be swapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.change_batch import OLD_KEY, ChangeBatch
from connectors.spark.plan.evolution import Columns, cast_column
from connectors.spark.plan.key_equality import Ints, number_keys

Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class _Row:
    """Where the values of a key's row are: by column a change of the batch, and otherwise the table's row of the key ``root``
    (-1: there is none)."""

    root: int
    values: Mapping[str, int] = field(default_factory=dict)
    has_moved: bool = False
    """Whether it had another key in the batch. It may have its first one again, which a delete precedes."""


def follow_key_changes(
    changes: ChangeBatch, keys: Sequence[str], deleted: pa.ChunkedArray, unavailable: dict[str, pa.ChunkedArray]
) -> tuple[ChangeBatch, dict[str, pa.ChunkedArray]]:
    """Fills in unavailable values of rows with changed keys that other changes have. In ``meta``, ``OLD_KEY`` becomes the key of
    the table's row that has the others, if the row has had another key in the batch. Changes are sorted from the oldest to the
    newest; ``unavailable`` are masks by column. Returns the changes and the values that remain unavailable."""
    meta = changes.meta
    if OLD_KEY not in meta.column_names:
        return changes, unavailable
    old_keys = as_array(meta[OLD_KEY])
    meta = meta.drop_columns([OLD_KEY])
    count = changes.num_rows
    if old_keys.null_count == count or not unavailable:
        return replace(changes, meta=meta), unavailable
    has_old_key = pc.is_valid(old_keys).to_numpy(zero_copy_only=False)
    columns = {name: _joined(changes.image[name], pc.struct_field(old_keys, name)) for name in keys}
    numbers = number_keys(list(columns.values()), 2 * count)
    own, old = numbers[:count], np.where(has_old_key, numbers[count:], -1)
    affected = np.flatnonzero(np.isin(own, np.r_[own[has_old_key], old[has_old_key]]))
    masks = {name: mask.to_numpy() for name, mask in unavailable.items()}
    found = _follow(affected, own, old, deleted.to_numpy(), masks)
    image, remaining = changes.image, dict(unavailable)
    for name, filled in found.filled.items():
        index = np.arange(count)
        index[list(filled)] = list(filled.values())
        image = image.set_column(image.column_names.index(name), name, image[name].take(pa.array(index)))
        mask = masks[name].copy()
        mask[list(filled)] = False
        remaining[name] = pa.chunked_array([pa.array(mask)])
    if found.roots:
        # The number of a key is that of any row that has it, among the changes and then among the old keys.
        first = {int(number): at for at, number in reversed(list(enumerate(numbers.tolist())))}
        at = pa.array([first[found.roots[row]] if row in found.roots else None for row in range(count)], pa.int64())
        struct = pa.StructArray.from_arrays([column.take(at) for column in columns.values()], list(columns), mask=at.is_null())
        meta = meta.append_column(OLD_KEY, struct)
    return replace(changes, meta=meta, image=image), remaining


def _in_one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return as_array(column) if isinstance(column, pa.ChunkedArray) else column


def _joined(own: pa.ChunkedArray, old: pa.Array) -> pa.Array:
    return pa.concat_arrays([as_array(own), old])


@dataclass(slots=True)
class _Found:
    """``filled``: by column and row, the row with the value. ``roots``: by row, the key of the table's row that has others."""

    filled: dict[str, dict[int, int]]
    roots: dict[int, int] = field(default_factory=dict)


def _follow(rows: Ints, own: Ints, old: Ints, deleted: Mask, masks: Mapping[str, Mask]) -> _Found:
    found = _Found({name: {} for name in masks})
    current: dict[int, _Row] = {}
    before_delete: dict[int, _Row] = {}
    for row in rows.tolist():
        key = int(own[row])
        if deleted[row]:
            before = current.get(key, _Row(key))
            if before.root >= 0 or before.values:
                before_delete[key] = before
            current[key] = _Row(-1)
            continue
        lacking = [name for name, mask in masks.items() if mask[row]]
        source = int(old[row])
        if source >= 0:
            # The delete of the old key comes just before, unless it was in an earlier commit.
            base = current.get(source, _Row(source))
            if base.root < 0 and not base.values:
                base = before_delete.get(source, base)
        else:
            base = current.get(key, _Row(key))
        values = {name: row for name in masks if name not in lacking}
        needs_table = False
        for name in lacking:
            if name in base.values:
                values[name] = found.filled[name][row] = base.values[name]
            else:
                needs_table = True
        moved = base.has_moved or source >= 0
        if needs_table and base.root >= 0 and moved:
            found.roots[row] = base.root
        current[key] = _Row(base.root if needs_table else -1, values, moved)
    found.filled = {name: filled for name, filled in found.filled.items() if filled}
    return found


def has_moved(meta: pa.Table) -> Mask:
    """Which changes keep values of the table's row of the old key only."""
    if OLD_KEY not in meta.column_names:
        return np.zeros(meta.num_rows, bool)
    moved: Mask = pc.is_valid(meta[OLD_KEY]).to_numpy()
    return moved


def with_key_types(
    changes: ChangeBatch, columns: Columns, keys: Sequence[str], renames: Mapping[str, str], *, ignores_case: bool = False
) -> ChangeBatch:
    """The changes with old keys of the table's names and types; without them if they are other columns, or do not have these
    types."""
    if OLD_KEY not in changes.meta.column_names:
        return changes
    meta = changes.meta.drop_columns([OLD_KEY])
    old_keys = as_array(changes.meta[OLD_KEY])
    by_lower_case = {key.lower(): key for key in keys} if ignores_case else {}
    fields = [renames.get(member.name, member.name) for member in old_keys.type]
    names = {by_lower_case.get(name.lower(), name): at for at, name in enumerate(fields)}
    if names.keys() == set(keys) and len(names) == len(fields) and set(keys) <= set(columns):
        try:
            cast = [
                _in_one_piece(cast_column(pa.chunked_array([pc.struct_field(old_keys, names[k])]), columns[k], k)) for k in keys
            ]  # fmt: skip
        except (pa.ArrowException, ValueError):
            return replace(changes, meta=meta)
        struct = pa.StructArray.from_arrays(cast, list(keys), mask=old_keys.is_null())
        meta = meta.append_column(OLD_KEY, struct)
    return replace(changes, meta=meta)
