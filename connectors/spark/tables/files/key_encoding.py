"""Encodes merge keys as numbers for the key index: equal keys, and only those, get equal numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.config_keys import CURRENT
from connectors.spark.plan.key_equality import comparable, no_key_type
from connectors.spark.tables.files.key_index import EncodedKeys, Mask
from connectors.spark.tables.files.row_bitmaps import Rows

_hash = partial(hashlib.blake2b, digest_size=16)


def encode_keys(columns: Sequence[pa.ChunkedArray]) -> tuple[EncodedKeys, Mask]:
    """Encodes rows of key columns; also returns which rows have a key (no column is null).

    One integer or date is encoded exactly. Everything else becomes a 128-bit BLAKE2b hash: with 64 bits, one table in hundreds of
    thousands with ten million keys would have two keys with the same hash. Columns must have the table's types. Raises
    SchemaError for a type whose values cannot be compared.
    """
    valid = np.ones(len(columns[0]), bool)
    for column in columns:
        if column.null_count:
            valid &= pc.is_valid(column).to_numpy(zero_copy_only=False)
    if len(columns) == 1 and _is_exact(columns[0].type):
        numbers = _integers(columns[0])
        return EncodedKeys(np.ascontiguousarray(numbers).view(np.uint64), None), valid
    return _hashed([comparable_bytes(column) for column in columns]), valid


def encode_rows(rows: pa.Table, keys: Collection[str]) -> tuple[EncodedKeys, Mask]:
    """Encodes the keys of a table's rows; also returns which rows have a key. If versions of rows are kept, only the open ones
    have: nothing replaces the others."""
    encoded, valid = encode_keys([rows[name] for name in keys])
    if CURRENT in keys:
        valid &= pc.fill_null(rows[CURRENT], False).to_numpy(zero_copy_only=False)
    return encoded, valid


def _is_exact(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_date32(type_))


def _integers(column: pa.ChunkedArray) -> Rows:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if column.null_count:
        column = pc.fill_null(column, 0)
    numbers: Rows = column.cast(pa.int64()).to_numpy()
    return numbers


def comparable_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as bytes that are equal when the values are equal as keys. Raises SchemaError for nested values."""
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return column.cast(pa.binary())
    if pa.types.is_floating(type_):
        return comparable(column.cast(pa.float64())).cast(pa.string()).cast(pa.binary())
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return column.cast(pa.int64()).cast(pa.string()).cast(pa.binary())
    if pa.types.is_date32(type_):
        return column.cast(pa.int32()).cast(pa.string()).cast(pa.binary())
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_) or pa.types.is_decimal(type_):
        return column.cast(pa.string()).cast(pa.binary())
    raise no_key_type(type_)


def _hashed(parts: Sequence[pa.ChunkedArray]) -> EncodedKeys:
    if len(parts) == 1:
        values = parts[0].to_pylist()
    else:
        # Each value is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
        framed = []
        for part in parts:
            framed += [pc.binary_length(part).cast(pa.string()).cast(pa.binary()), pa.scalar(b":", pa.binary()), part]
        values = pc.binary_join_element_wise(*framed, pa.scalar(b"", pa.binary())).to_pylist()
    digests = b"".join([_hash(value or b"").digest() for value in values])
    words = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    return EncodedKeys(np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]))
