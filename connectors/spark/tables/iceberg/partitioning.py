"""Partition specs of Iceberg tables, and the partitions of rows.

Format: "Partitioning", "Bucket Transform Details", and "Binary single-value serialization" in Iceberg's specification.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConfigError, ConnectError
from connectors.spark.partition_terms import BUCKET, PARTITION_COLUMNS, TRUNCATE, UNITS, parse_term
from connectors.spark.plan.evolution import Columns, sql_type
from connectors.spark.tables.iceberg.types import Json

Values = tuple[str | None, ...]
"""A partition: by field of the spec, its value in Iceberg's binary form, in hexadecimal, or None for null. JSON has no NaN, and
dates as texts have limits."""

_FIRST_FIELD_ID = 1000
_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US


def new_spec(terms: Sequence[str], schema: Json, columns: Columns) -> Json:
    """The spec of a new table. Raises ConfigError for columns that the table would not have, or that cannot have a transform."""
    ids = {field["name"]: field["id"] for field in schema["fields"]}
    fields = []
    for number, term in enumerate(terms):
        column, transform = parse_term(term)
        if column not in ids:
            raise ConfigError.invalid(PARTITION_COLUMNS, term, f"the table would have only the columns {', '.join(columns)}")
        if not _allows(columns[column], transform):
            raise ConfigError.invalid(
                PARTITION_COLUMNS, term, f"the column has the type {sql_type(columns[column])}, which does not allow it"
            )
        kind = transform.partition("[")[0]
        name = column if kind == "identity" else f"{column}_{'trunc' if kind == TRUNCATE else kind}"
        fields.append({"source-id": ids[column], "field-id": _FIRST_FIELD_ID + number, "name": name, "transform": transform})
    return {"spec-id": 0, "fields": fields}


def _allows(type_: pa.DataType, transform: str) -> bool:
    t, kind = pa.types, transform.partition("[")[0]
    if t.is_nested(type_):
        return False
    if kind == "hour":
        return bool(t.is_timestamp(type_))
    if kind in UNITS:
        return bool(t.is_timestamp(type_) or t.is_date32(type_))
    if kind == TRUNCATE:
        return bool(t.is_integer(type_) or t.is_string(type_) or t.is_binary(type_) or t.is_decimal(type_))
    if kind == BUCKET:
        return not (t.is_floating(type_) or t.is_boolean(type_))
    return True


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The spec that new files have, with the names of its source columns."""

    spec: Json
    columns: tuple[str, ...]
    """By field of the spec."""

    @classmethod
    def read(cls, spec: Json, schema: Json) -> Partitioning:
        """Raises ConnectError for a transform that is not known."""
        names = {field["id"]: field["name"] for field in schema["fields"]}
        columns = []
        for field in spec["fields"]:
            kind = field["transform"].partition("[")[0]
            if kind not in {"identity", "void", BUCKET, TRUNCATE, *UNITS} or field["source-id"] not in names:
                raise ConnectError(
                    f"the table is partitioned by {field['name']} ({field['transform']}), which is not supported; change its "
                    "partition spec with ALTER TABLE ... DROP PARTITION FIELD, or write into another table"
                )
            columns.append(names[field["source-id"]])
        return cls(spec, tuple(columns))

    @property
    def spec_id(self) -> int:
        return int(self.spec["spec-id"])

    def split(self, rows: pa.Table) -> Iterator[tuple[Values, pa.Table]]:
        """Rows by partition, each in their order."""
        if not self.columns:
            yield (), rows
            return
        if not rows.num_rows:
            return
        codes = np.zeros(rows.num_rows, np.int64)
        found: list[tuple[Any, list[str | None]]] = []
        for name, field in zip(self.columns, self.spec["fields"], strict=True):
            numbers, values = _transformed(rows, name, str(field["transform"]))
            _, codes = np.unique(codes * len(values) + numbers, return_inverse=True)
            found.append((numbers, values))
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
        for start, end in zip(starts, np.r_[starts[1:], len(order)], strict=True):
            at = order[start:end]
            partition = tuple(values[numbers[at[0]]] for numbers, values in found)
            yield partition, rows if len(at) == rows.num_rows else rows.take(pa.array(at))


def _transformed(rows: pa.Table, column: str, transform: str) -> tuple[Any, list[str | None]]:
    """By row a number, and by number the value of the partition field: different numbers have different values."""
    if column not in rows.column_names or transform == "void":
        return np.zeros(rows.num_rows, np.int64), [None]
    kind, _, width = transform.rstrip("]").partition("[")
    source = rows[column].combine_chunks()
    if kind in UNITS:
        source, kind = _since_epoch(source, kind), "identity"
    encoded = source.dictionary_encode("encode")
    apply, type_ = _TRANSFORMS[kind], source.type
    result = pa.int32() if kind == BUCKET else type_
    plain = _plain(encoded.dictionary)
    values = [None if value is None else _bytes(apply(value, type_, int(width or 0)), result).hex() for value in plain]
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    by_entry = np.array([numbers[value] for value in values], np.int64)
    return by_entry[encoded.indices.to_numpy()], list(numbers)


def _plain(values: pa.Array) -> list[Any]:
    """The values as bool, int (days, microseconds, and decimals without their point), float, str, or bytes."""
    t, type_ = pa.types, values.type
    if t.is_date32(type_):
        values = values.cast(pa.int32())
    elif t.is_timestamp(type_) or t.is_time64(type_):
        values = values.cast(pa.int64())
    plain: list[Any] = values.to_pylist()
    if t.is_decimal(type_):
        plain = [None if value is None else int(f"{value:f}".replace(".", "")) for value in plain]
    return plain


def _bytes(value: Any, type_: pa.DataType) -> bytes:
    """The binary form of a value that is not null."""
    t = pa.types
    if t.is_boolean(type_):
        return b"\1" if value else b"\0"
    if t.is_decimal(type_):
        return _two_complement(value)
    if t.is_floating(type_):
        return struct.pack("<f" if t.is_float32(type_) else "<d", math.nan if math.isnan(value) else value)
    if isinstance(value, int):
        return struct.pack("<q" if type_.bit_width == 64 else "<i", value)
    return value.encode() if isinstance(value, str) else bytes(value)


def _two_complement(number: int) -> bytes:
    """In as few bytes as hold the number, the highest first."""
    magnitude = number if number >= 0 else number + 1
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _truncated(value: Any, type_: pa.DataType, width: int) -> Any:
    if not isinstance(value, int):
        return value[:width]
    if pa.types.is_decimal(type_):
        return value - value % width
    # Java's arithmetic wraps around.
    bits = max(type_.bit_width, 32)
    return _wrapped(value - _remainder(_wrapped(_remainder(value, width) + width, bits), width), bits)


def _remainder(number: int, divisor: int) -> int:
    """As in Java: with the sign of the number."""
    return abs(number) % divisor * (-1 if number < 0 else 1)


def _wrapped(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _bucket(value: Any, type_: pa.DataType, count: int) -> int:
    if isinstance(value, str):
        data = value.encode()
    elif isinstance(value, bytes):
        data = value
    else:
        data = _two_complement(value) if pa.types.is_decimal(type_) else struct.pack("<q", value)
    return (murmur3(data) & 0x7FFFFFFF) % count


def _since_epoch(values: pa.Array, unit: str) -> pa.Array:
    """Years, months, days, or hours since 1970."""
    number_type = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    raw = pc.fill_null(values.cast(number_type), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if unit == "hour":
        numbers = raw // _HOUR_US
    else:
        numbers = raw if number_type == pa.int32() else raw // _DAY_US
        if unit != "day":
            numbers = numbers.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) // (12 if unit == "year" else 1)
    return pa.array(numbers.astype(np.int32), mask=values.is_null().to_numpy(zero_copy_only=False))


def murmur3(data: bytes) -> int:
    """MurmurHash3, 32 bits for x86, seed 0."""
    mask, hashed = 0xFFFFFFFF, 0
    whole = len(data) // 4 * 4
    for (block,) in struct.iter_unpack("<I", data[:whole]):
        block = block * 0xCC9E2D51 & mask
        block = (block << 15 | block >> 17) & mask
        hashed ^= block * 0x1B873593 & mask
        hashed = (hashed << 13 | hashed >> 19) & mask
        hashed = (hashed * 5 + 0xE6546B64) & mask
    if tail := int.from_bytes(data[whole:], "little"):
        tail = tail * 0xCC9E2D51 & mask
        tail = (tail << 15 | tail >> 17) & mask
        hashed ^= tail * 0x1B873593 & mask
    hashed ^= len(data)
    hashed ^= hashed >> 16
    hashed = hashed * 0x85EBCA6B & mask
    hashed ^= hashed >> 13
    hashed = hashed * 0xC2B2AE35 & mask
    return hashed ^ hashed >> 16


_TRANSFORMS: Mapping[str, Callable[[Any, pa.DataType, int], Any]] = {
    "identity": lambda value, _, __: value,
    TRUNCATE: _truncated,
    BUCKET: _bucket,
}
