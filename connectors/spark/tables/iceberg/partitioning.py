"""Partition specs of Iceberg tables, and the partitions of rows.

Format: "Partitioning", and "Bucket Transform Details", in Iceberg's specification.
"""

from __future__ import annotations

import datetime as dt
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

Values = tuple[Any, ...]
"""A partition: by field of the spec, its value in Iceberg's JSON form."""

_FIRST_FIELD_ID = 1000


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
        found: list[tuple[Any, list[Any]]] = []
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


def _transformed(rows: pa.Table, column: str, transform: str) -> tuple[Any, list[Any]]:
    """By row a number, and by number the value of the partition field: different numbers have different values."""
    if column not in rows.column_names or transform == "void":
        return np.zeros(rows.num_rows, np.int64), [None]
    encoded = rows[column].combine_chunks().dictionary_encode("encode")
    kind, _, width = transform.rstrip("]").partition("[")
    if kind == "identity":
        values = [_json_value(value) for value in encoded.dictionary]
    else:
        values = _TRANSFORMS[kind](encoded.dictionary, int(width or 0))
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    by_entry = np.array([numbers[value] for value in values], np.int64)
    return by_entry[encoded.indices.to_numpy()], list(numbers)


def _json_value(value: pa.Scalar) -> Any:
    """A value in Iceberg's JSON form."""
    if not value.is_valid:
        return None
    t, type_ = pa.types, value.type
    if t.is_timestamp(type_):
        text = str(np.datetime64(int(value.value), "us"))
        return f"{text}+00:00" if type_.tz else text
    if t.is_date32(type_):
        return str(np.datetime64(int(value.value), "D"))
    plain = value.as_py()
    if isinstance(plain, bytes):
        return plain.hex().upper()
    if isinstance(plain, dt.time):
        return plain.isoformat(timespec="microseconds")
    if t.is_decimal(type_):
        return f"{plain:f}"
    return plain


def _truncated(values: pa.Array, width: int) -> list[Any]:
    t, type_ = pa.types, values.type
    if t.is_string(type_):
        return [_json_value(value) for value in pc.utf8_slice_codeunits(values, 0, width)]
    if t.is_binary(type_):
        return [None if value is None else value[:width].hex().upper() for value in values.to_pylist()]
    if t.is_decimal(type_):
        scale = type_.scale
        found = []
        for value in values.to_pylist():
            unscaled = None if value is None else int(value.scaleb(scale))
            found.append(None if unscaled is None else _decimal_text(unscaled - unscaled % width, scale))
        return found
    return [None if value is None else value - value % width for value in values.to_pylist()]


def _decimal_text(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _since_epoch(unit: str) -> Callable[[pa.Array, int], list[Any]]:
    """Years, months, days, or hours since 1970."""

    def apply(values: pa.Array, _: int) -> list[Any]:
        resolution = "D" if pa.types.is_date32(values.type) else "us"
        raw = values.cast(pa.int32()).cast(pa.int64()) if resolution == "D" else values.cast(pa.int64())
        moments = pc.fill_null(raw, 0).to_numpy(zero_copy_only=False).astype(f"datetime64[{resolution}]")
        numbers = moments.astype(f"datetime64[{unit}]").astype(np.int64).tolist()
        if unit == "D":  # a field of days has the type date
            numbers = [str(np.datetime64(number, "D")) for number in numbers]
        return [number if valid else None for number, valid in zip(numbers, values.is_valid().to_pylist(), strict=True)]

    return apply


def _bucket(values: pa.Array, count: int) -> list[Any]:
    hashes = [None if value is None else murmur3(_hashed_bytes(value, values.type)) for value in _raw(values)]
    return [None if hashed is None else (hashed & 0x7FFFFFFF) % count for hashed in hashes]


def _raw(values: pa.Array) -> list[Any]:
    type_ = values.type
    if pa.types.is_date32(type_):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        values = values.cast(pa.int64())
    found: list[Any] = values.to_pylist()
    return found


def _hashed_bytes(value: Any, type_: pa.DataType) -> bytes:
    if isinstance(value, int):
        return struct.pack("<q", value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    unscaled = int(value.scaleb(type_.scale))
    magnitude = unscaled if unscaled >= 0 else unscaled + 1
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


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


_TRANSFORMS: Mapping[str, Callable[[pa.Array, int], list[Any]]] = {
    "year": _since_epoch("Y"),
    "month": _since_epoch("M"),
    "day": _since_epoch("D"),
    "hour": _since_epoch("h"),
    TRUNCATE: _truncated,
    BUCKET: _bucket,
}
