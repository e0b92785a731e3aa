"""Finds the large values of rows whose key has changed: the create with the new key lacks those that did not change.

A source writes a change of the primary key as a delete of the old key and a create of the new one, whose header has the old key
(``__debezium.oldkey``). An unavailable value of the create is that of the old row, before its delete: from an earlier change of
the batch, or from the table. Keys may change several times in a batch, and be swapped.

Where several partitions feed a table, the row that has the old key may be another one by now, or an earlier change of the old
row may still come. A create then has the values that the old row had before its delete: that of the same position in the source's
log, or else of the same time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.change_batch import OLD_KEY, PARTITION_ID, POSITION, SOURCE_MS, TOPIC_ID, ChangeBatch
from connectors.spark.plan.evolution import Columns, Mask, cast_column
from connectors.spark.plan.key_equality import Ints, number_keys


@dataclass(frozen=True, slots=True)
class _Row:
    """Where the values of a key's row are: by column a change of the batch, and otherwise the table's row of the key ``root``
    (-1: there is none)."""

    root: int
    values: Mapping[str, int] = field(default_factory=dict)
    has_moved: bool = False
    """Whether it had another key in the batch. It may have its first one again, which a delete precedes."""


def follow_key_changes(
    changes: ChangeBatch,
    keys: Sequence[str],
    deleted: pa.ChunkedArray,
    unavailable: dict[str, pa.ChunkedArray],
    *,
    one_partition: bool = True,
) -> tuple[ChangeBatch, dict[str, pa.ChunkedArray]]:
    """Fills in unavailable values of rows with changed keys that other changes have. In ``meta``, ``OLD_KEY`` becomes the key of
    the table's row that has the others, if the row has had another key in the batch; of nulls if it is not known. Changes are
    sorted from the oldest to the newest; ``unavailable`` are masks by column. Unless ``one_partition`` alone feeds the table, the
    delete of the old key must be among the changes. Returns the changes and the values that remain unavailable."""
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
    if one_partition:
        found = _follow(affected.tolist(), own, old, deleted.to_numpy(), masks)
    else:
        moves = _find_moves(meta, affected, own, old, deleted.to_numpy())
        found = _follow(_deletes_first(meta, affected, moves), own, old, deleted.to_numpy(), masks, moves)
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
        at = pa.array([first.get(found.roots.get(row, -1)) for row in range(count)], pa.int64())
        is_moved = pa.array([row in found.roots for row in range(count)])
        parts = [column.take(at) for column in columns.values()]
        struct = pa.StructArray.from_arrays(parts, list(columns), mask=pc.invert(is_moved))
        meta = meta.append_column(OLD_KEY, struct)
    return replace(changes, meta=meta, image=image), remaining


def contains_key_change(changes: Sequence[ChangeBatch]) -> bool:
    """Whether a row has got another key."""
    return any(OLD_KEY in one.meta.column_names and one.meta[OLD_KEY].null_count < one.num_rows for one in changes)


def _in_one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return as_array(column) if isinstance(column, pa.ChunkedArray) else column


def _joined(own: pa.ChunkedArray, old: pa.Array) -> pa.Array:
    return pa.concat_arrays([as_array(own), old])


@dataclass(slots=True)
class _Found:
    """``filled``: by column and row, the row with the value. ``roots``: by row, the key of the table's row that has others, or -1
    if nobody knows it."""

    filled: dict[str, dict[int, int]]
    roots: dict[int, int] = field(default_factory=dict)


_Move = tuple[int, str]
"""The old key of a row, and the place of the change in the source."""


@dataclass(frozen=True, slots=True)
class _Moves:
    """By row of the changes: of deletes that may be a change of the key, and of creates with an old key. A change whose place is
    unknown has none."""

    deletes: Mapping[int, _Move]
    creates: Mapping[int, _Move]


def _find_moves(meta: pa.Table, rows: Ints, own: Ints, old: Ints, deleted: Mask) -> _Moves:
    chosen = meta.select([POSITION, SOURCE_MS]).take(pa.array(rows))
    places = pc.coalesce(chosen[POSITION], chosen[SOURCE_MS].cast(pa.string())).to_pylist()
    known = [(row, place) for row, place in zip(rows.tolist(), places, strict=True) if place is not None]
    return _Moves(
        {row: (int(own[row]), place) for row, place in known if deleted[row]},
        {row: (int(old[row]), place) for row, place in known if old[row] >= 0},
    )


def _deletes_first(meta: pa.Table, rows: Ints, moves: _Moves) -> list[int]:
    """The rows in the order of each partition, creates with an old key after the deletes that belong to them."""
    chosen = meta.select([TOPIC_ID, PARTITION_ID]).take(pa.array(rows)).to_pylist()
    queues: dict[tuple[str, int], deque[int]] = {}
    for row, feed in zip(rows.tolist(), chosen, strict=True):
        queues.setdefault((feed[TOPIC_ID], feed[PARTITION_ID]), deque()).append(row)
    ordered: list[int] = []
    awaited = Counter(moves.deletes.values())

    def pass_on(queue: deque[int]) -> None:
        row = queue.popleft()
        ordered.append(row)
        if row in moves.deletes:
            awaited[moves.deletes[row]] -= 1

    while waiting := [queue for queue in queues.values() if queue]:
        before = len(ordered)
        for queue in waiting:
            while queue and not (queue[0] in moves.creates and awaited[moves.creates[queue[0]]]):
                pass_on(queue)
        if len(ordered) == before:
            pass_on(waiting[0])  # they wait for each other: several changes of a key at the same time
    return ordered


def _follow(
    rows: Sequence[int], own: Ints, old: Ints, deleted: Mask, masks: Mapping[str, Mask], moves: _Moves | None = None
) -> _Found:
    """``moves`` if only these deletes belong to creates with an old key."""
    moved_rows: dict[_Move, _Row] = {}
    found = _Found({name: {} for name in masks})
    current: dict[int, _Row] = {}
    before_delete: dict[int, _Row] = {}
    for row in rows:
        key = int(own[row])
        if deleted[row]:
            before = current.get(key, _Row(key))
            if before.root >= 0 or before.values:
                before_delete[key] = before
                move = None if moves is None else moves.deletes.get(row)
                if move is not None:  # of several, nobody knows which one belongs to the create
                    moved_rows[move] = _Row(-1) if move in moved_rows else before
        lacking = [name for name, mask in masks.items() if mask[row]]
        if deleted[row] and not lacking:  # a row that stays, marked as deleted, lacks all values
            current[key] = _Row(-1)
            continue
        source = int(old[row])
        if source >= 0 and moves is not None:
            move = moves.creates.get(row)
            base = _Row(-1) if move is None else moved_rows.get(move, _Row(-1))
        elif source >= 0:
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
        if needs_table and moved:  # the table's row of its own key is another one
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


def with_key_types(changes: ChangeBatch, columns: Columns, keys: Sequence[str]) -> ChangeBatch:
    """The changes with old keys of the table's types; without them if they are other columns, or do not have these types."""
    if OLD_KEY not in changes.meta.column_names:
        return changes
    meta = changes.meta.drop_columns([OLD_KEY])
    old_keys = as_array(changes.meta[OLD_KEY])
    names = {member.name: at for at, member in enumerate(old_keys.type)}
    if names.keys() == set(keys) and len(names) == old_keys.type.num_fields and set(keys) <= set(columns):
        try:
            cast = [
                _in_one_piece(cast_column(pa.chunked_array([pc.struct_field(old_keys, names[k])]), columns[k], k)) for k in keys
            ]  # fmt: skip
        except (pa.ArrowException, ValueError):
            return replace(changes, meta=meta)
        struct = pa.StructArray.from_arrays(cast, list(keys), mask=old_keys.is_null())
        meta = meta.append_column(OLD_KEY, struct)
    return replace(changes, meta=meta)
