"""Plans an upsert: which rows of the table go, and which rows come."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConnectError
from connectors.spark.config_keys import CURRENT
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.change_batch import OLD_KEY
from connectors.spark.plan.key_changes import has_moved
from connectors.spark.tables.files.file_reader import read_rows
from connectors.spark.tables.files.key_index import Ints32, Mask, Matches
from connectors.spark.tables.files.live_files import LiveFiles, group_rows
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.table import Upsert

Find = Callable[[pa.Table], Matches]
"""Finds the rows of the table that have the keys of these rows."""


@dataclass(frozen=True, slots=True)
class UpsertPlan:
    """``rows`` are written as a new file; ``deleted`` are rows of live files, by file number. ``unavailable`` counts values that
    became null, because neither the changes nor the table have them."""

    rows: pa.Table
    deleted: dict[int, Rows]
    unavailable: int


def find_kept_rows(upsert: Upsert, matches: Matches, find: Find) -> Matches:
    """The rows of the table that have the kept values: those of the same keys, or of old keys after a change of the key."""
    moved = has_moved(upsert.changes.meta)
    if upsert.keeps_versions:  # the closed copy is that of the version of its own key
        moved &= ~upsert.changes.deleted.to_numpy()
    at = np.flatnonzero(moved)
    if not len(at):
        return matches
    old_keys = as_array(upsert.changes.meta[OLD_KEY]).take(pa.array(at))
    rows = pa.table({name: pc.struct_field(old_keys, name) for name in upsert.keys if name != CURRENT})
    is_known = functools.reduce(np.logical_and, [column.is_valid().to_numpy() for column in rows.columns])
    rows, known = rows.filter(pa.array(is_known)), at[is_known]
    if upsert.keeps_versions:
        rows = rows.append_column(CURRENT, pa.array(np.ones(len(known), bool)))
    found = find(rows) if len(known) else Matches.empty()
    others = matches.filter(~np.isin(matches.keys, at))
    return Matches(
        np.concatenate([others.keys, known[found.keys]]),
        np.concatenate([others.files, found.files]),
        np.concatenate([others.rows, found.rows]),
    )


def plan_upsert(
    upsert: Upsert, matches: Matches, live: LiveFiles, *, kept: Matches | None = None, fail_unavailable: bool = False
) -> UpsertPlan:
    """Plans the upsert whose keys matched these rows of the table. Reads old rows where values are kept: ``kept``, or those with
    the same keys.

    Raises ConnectError with ``fail_unavailable`` when neither the changes nor the table have a value.
    """
    rows, masks = upsert.rows, _kept_values(upsert)
    for name in masks:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, upsert.columns[name]))
    unavailable = upsert.changes.unavailable
    if masks:
        old = _OldRows(matches if kept is None else kept, rows.num_rows, live)
        found, values = old.read(_any(masks.values()), {n: upsert.columns[n] for n in masks})
        has_old = np.zeros(rows.num_rows, bool)
        has_old[found] = True
        deleted = upsert.changes.deleted.to_numpy()
        for name, mask in masks.items():
            column = rows[name]
            # The changes have what a row that the table lacks begins with; an unavailable value is null.
            lacking = mask & ~has_old & ~deleted
            if lacking.any():
                lost = (
                    lacking & upsert.changes.unavailable_in(name).to_numpy() if name in upsert.changes.keep else ~lacking & False
                )
                if fail_unavailable and lost.any():
                    raise _no_value(upsert, name, int(np.flatnonzero(lost)[0]))
                unavailable += int(lost.sum())
            at = np.flatnonzero(mask[found])
            if len(at):
                column = _replace(column, found[at], values[name].take(pa.array(at)))
            rows = rows.set_column(rows.column_names.index(name), name, column)
    replaced = matches
    if upsert.keeps_versions:
        is_closed = np.zeros(rows.num_rows, bool)
        is_closed[matches.keys] = True
        rows = rows.filter(pa.array(is_closed | ~upsert.changes.deleted.to_numpy()))
        replaced = matches.filter(upsert.changes.deleted.to_numpy()[matches.keys])  # one row of each key
    if not upsert.soft_deletes and pc.any(upsert.changes.deleted).as_py():
        rows = rows.filter(pc.invert(upsert.changes.deleted))
    return UpsertPlan(rows, group_rows(replaced.files, replaced.rows), unavailable)


def _kept_values(upsert: Upsert) -> dict[str, Mask]:
    """By column: the rows that keep the table's value."""
    masks = {name: mask.to_numpy() for name, mask in upsert.changes.keep.items()}
    deleted = upsert.changes.deleted.to_numpy()
    if upsert.soft_deletes and deleted.any():
        # A soft delete keeps all columns of the row, except for metadata columns, which describe the delete.
        masks |= {name: deleted for name in upsert.columns if name not in upsert.rows.column_names}
    return {name: mask for name, mask in masks.items() if mask.any()}


def _any(masks: Iterable[Mask]) -> Mask:
    return functools.reduce(np.logical_or, masks)


def _no_value(upsert: Upsert, column: str, index: int) -> ConnectError:
    key = ", ".join(f"{name}={upsert.rows[name][index].as_py()!r}" for name in upsert.keys)
    return ConnectError(
        f"a change of the row with {key} has an unavailable value in column {column}, and the table does not have the row; set "
        "unavailable.value=merge to write null, or REPLICA IDENTITY FULL on the source table to get the value"
    )


def _replace(column: pa.ChunkedArray, at: np.ndarray[Any, np.dtype[np.int64]], values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with these values at these (distinct) positions."""
    index = np.arange(len(column))
    index[at] = len(column) + np.arange(len(at))
    return pa.chunked_array(column.chunks + values.cast(column.type).chunks, column.type).take(pa.array(index))


class _OldRows:
    """The table's rows with the keys of an upsert. If several rows have a key, the last one counts."""

    def __init__(self, matches: Matches, keys: int, live: LiveFiles) -> None:
        self._live = live
        self._files: Ints32 = np.full(keys, -1, np.int32)
        self._rows: Ints32 = np.zeros(keys, np.int32)
        self._files[matches.keys] = matches.files
        self._rows[matches.keys] = matches.rows

    def read(
        self, wanted: Mask, columns: Mapping[str, pa.DataType]
    ) -> tuple[np.ndarray[Any, np.dtype[np.int64]], dict[str, pa.ChunkedArray]]:
        """Reads columns of the wanted rows that the table has: their positions among the keys, and the values."""
        at = np.flatnonzero(wanted & (self._files >= 0))
        if not len(at):
            return at, {n: pa.chunked_array([], t) for n, t in columns.items()}
        order = at[np.lexsort((self._rows[at], self._files[at]))]
        parts = []
        for number in np.unique(self._files[order]):
            rows = self._rows[order[self._files[order] == number]].astype(np.int64)
            parts.append(read_rows(self._live, self._live.at(int(number)), rows, columns))
        table = pa.concat_tables(parts)
        return order, {n: table[n] for n in columns}
