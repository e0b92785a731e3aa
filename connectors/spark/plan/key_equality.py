"""When keys are equal: as Spark, PostgreSQL, and the tables compare them. The sink's own comparisons begin here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import SchemaError
from connectors.spark.decode.arrow_casts import as_array

Ints = np.ndarray[Any, np.dtype[np.int64]]


def no_key_type(type_: pa.DataType) -> SchemaError:
    """The error for a type whose values cannot be keys."""
    return SchemaError(f"a column of type {type_} cannot be a key: its values cannot be compared")


def comparable(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The column with values that are equal bit by bit when they are equal as keys: 0.0 and -0.0 are, and all NaN."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, column.type), pc.add(column, pa.scalar(0.0, column.type)))


def number_keys(columns: Sequence[pa.Array | pa.ChunkedArray], count: int) -> Ints:
    """A number by row, equal in rows of one key. Keys are numbered from 0 in the order of their first rows. Raises SchemaError
    for nested values."""
    for column in columns:
        if pa.types.is_nested(column.type):
            raise no_key_type(column.type)
    found = np.zeros(count, np.int64)
    for at, column in enumerate(columns if count else ()):
        codes = _codes(column)
        found = _codes(pa.array(found * (int(codes.max()) + 1) + codes)) if at else codes
    return found


def _codes(column: pa.Array | pa.ChunkedArray) -> Ints:
    array = as_array(column) if isinstance(column, pa.ChunkedArray) else column
    indices = comparable(array).dictionary_encode("encode").indices
    codes: Ints = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def last_rows(numbers: Ints, rows: Ints | None = None) -> Ints:
    """By number of a key: its last row (among these rows, sorted); -1 if there is none."""
    rows = np.arange(len(numbers)) if rows is None else rows
    last = np.full(numbers.max(initial=-1) + 1, -1, np.int64)
    last[numbers[rows]] = rows  # of several rows, the last one remains
    return last


def first_rows(numbers: Ints, rows: Ints | None = None) -> Ints:
    """By number of a key: its first row (among these rows, sorted); -1 if there is none."""
    rows = np.arange(len(numbers)) if rows is None else rows
    first = np.full(numbers.max(initial=-1) + 1, -1, np.int64)
    first[numbers[rows[::-1]]] = rows[::-1]  # of several rows, the first one remains
    return first
