"""Maps DuckDB's types to Connect schemas and converters of Arrow columns.

Confluent's and Aiven's connectors do not support DuckDB, so the schemas are those that they use for the same types elsewhere:
integers by width, unsigned ones the next wider, DECIMAL and integers above 64 bits as Decimal, timestamps by
``timestamp.granularity``. Types without mapping (INTERVAL, BIT, ENUM, TIMETZ, ...) are text in DuckDB's own format, which it
parses back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.data.logical import date_schema, time_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connectors.jdbc.dialects.duckdb.temporal import dates, timestamps
from connectors.jdbc.dialects.types import decimal_schema, integer_schema, primitive_schema, time_from_ns, timestamp_schema_for
from connectors.jdbc.options import ReadOptions

ToList = Callable[[Any], list[Any]]

UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}

_INTEGERS = {"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64}
_UNSIGNED = {"utinyint": 8, "usmallint": 16, "uinteger": 32}
_WIDE = {"ubigint": 20, "hugeint": 39, "uhugeint": 39, "bignum": None}
"""Types with the maximum number of digits. Arrow has no type for all of their values, so they are read as text."""
TIMESTAMPS = (
    "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone", "timestamp_tz", "timestamp_us",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DuckDbColumnDecoder:
    """How to read a column: the type to cast it to first, if ``cast``, the schema, and the converter of Arrow columns."""

    type: str
    schema: Schema
    values: ToList
    cast: bool = False


def column_decoder(type_: Any, name: str, options: ReadOptions, optional: bool = True) -> DuckDbColumnDecoder:
    """Returns the decoder of a type. ``name`` is the column, for messages and the schema names of structs."""
    kind, written = type_.id, str(type_)
    if kind == "boolean":
        return DuckDbColumnDecoder(written, primitive_schema(Type.BOOLEAN, optional), _as_is)
    if kind in _INTEGERS:
        return DuckDbColumnDecoder(written, integer_schema(_INTEGERS[kind], optional), _as_is)
    if kind in _UNSIGNED:
        return DuckDbColumnDecoder(written, integer_schema(_UNSIGNED[kind], optional, signed=False), _as_is)
    if kind in _WIDE:
        return DuckDbColumnDecoder("VARCHAR", decimal_schema(_WIDE[kind], 0, optional, options), _decimals, cast=True)
    if kind in ("float", "double"):
        return DuckDbColumnDecoder(written, primitive_schema(Type.FLOAT32 if kind == "float" else Type.FLOAT64, optional), _as_is)
    if kind == "decimal":
        parts = dict(type_.children)
        return DuckDbColumnDecoder(
            "VARCHAR", decimal_schema(parts["precision"], parts["scale"], optional, options), _decimals, cast=True
        )
    if kind in ("varchar", "uuid"):
        return DuckDbColumnDecoder(written, primitive_schema(Type.STRING, optional), _as_is)
    if kind == "blob":
        return DuckDbColumnDecoder(written, primitive_schema(Type.BYTES, optional), _as_is)
    if kind == "date":
        return DuckDbColumnDecoder(written, date_schema(optional=optional), dates(options))
    if kind == "time":
        return DuckDbColumnDecoder(written, time_schema(optional=optional), _times(options, name))
    if kind in TIMESTAMPS:
        return DuckDbColumnDecoder(written, timestamp_schema_for(options, optional), timestamps(options, name))
    nested = _nested(type_, name, options, optional)
    return nested or DuckDbColumnDecoder("VARCHAR", primitive_schema(Type.STRING, optional), _as_is, cast=True)


def _nested(type_: Any, name: str, options: ReadOptions, optional: bool) -> DuckDbColumnDecoder | None:
    match type_.id:
        case "list" | "array":
            parts = dict(type_.children)
            element = column_decoder(parts["child"], name, options)
            length = f"[{parts['size']}]" if type_.id == "array" else "[]"
            schema = Schema(Type.ARRAY, optional=optional, value_schema=element.schema)
            return DuckDbColumnDecoder(element.type + length, schema, _lists(element), element.cast)
        case "struct":
            members = [(member, column_decoder(part, f"{name}.{member}", options)) for member, part in type_.children]
            schema = Schema(Type.STRUCT, optional=optional, name=name, fields=[(m, decoder.schema) for m, decoder in members])
            written = ", ".join(f"{quoted(member)} {decoder.type}" for member, decoder in members)
            return DuckDbColumnDecoder(
                f"STRUCT({written})", schema, _structs(schema, members), any(decoder.cast for _, decoder in members)
            )
        case "map":
            parts = dict(type_.children)
            key, value = (
                column_decoder(parts["key"], name, options, optional=False),
                column_decoder(parts["value"], name, options),
            )
            if not key.schema.type.is_primitive:
                return None
            schema = Schema(Type.MAP, optional=optional, key_schema=key.schema, value_schema=value.schema)
            return DuckDbColumnDecoder(f"MAP({key.type}, {value.type})", schema, _maps(key, value), key.cast or value.cast)
        case "union":
            members = [(member, column_decoder(part, f"{name}.{member}", options)) for member, part in type_.children[1:]]
            schema = Schema(Type.STRUCT, optional=optional, name=name, fields=[(m, decoder.schema) for m, decoder in members])
            written = ", ".join(f"{quoted(member)} {decoder.type}" for member, decoder in members)
            return DuckDbColumnDecoder(
                f"UNION({written})", schema, _unions(schema, members), any(decoder.cast for _, decoder in members)
            )
    return None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# --- values


def _as_is(column: Any) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return found


def _decimals(column: Any) -> list[Any]:
    return [None if text is None else Decimal(text) for text in column.to_pylist()]


def _times(options: ReadOptions, name: str) -> ToList:
    from_ns = time_from_ns(options, name)

    def convert(column: Any) -> list[Any]:
        unit = UNIT_NS[column.type.unit]
        return [None if v is None else from_ns(v * unit) for v in column.view(pa.int64()).to_pylist()]

    return convert


def _lists(element: DuckDbColumnDecoder) -> ToList:
    def convert(column: Any) -> list[Any]:
        lengths = pc.list_value_length(column).to_pylist()
        values = element.values(column.flatten())
        found: list[Any] = []
        at = 0
        for length in lengths:
            if length is None:
                found.append(None)
                continue
            found.append(values[at : at + length])
            at += length
        return found

    return convert


def _structs(schema: Schema, members: list[tuple[str, DuckDbColumnDecoder]]) -> ToList:
    def convert(column: Any) -> list[Any]:
        parts = [decoder.values(part) for (_, decoder), part in zip(members, column.flatten(), strict=True)]
        rows = zip(*parts, strict=True)
        return [
            Struct(schema, list(row)) if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]

    return convert


def _maps(key: DuckDbColumnDecoder, value: DuckDbColumnDecoder) -> ToList:
    def convert(column: Any) -> list[Any]:
        pair = pa.struct([pa.field("k", column.type.key_type), pa.field("v", column.type.item_type)])
        entries = column.cast(pa.list_(pair))
        keys, values = entries.flatten().flatten()
        pairs = list(zip(key.values(keys), value.values(values), strict=True))
        found: list[Any] = []
        at = 0
        for length in pc.list_value_length(entries).to_pylist():
            if length is None:
                found.append(None)
                continue
            found.append(dict(pairs[at : at + length]))
            at += length
        return found

    return convert


def _unions(schema: Schema, members: list[tuple[str, DuckDbColumnDecoder]]) -> ToList:
    """Reads a union as a struct in which only the union's member is not null. A union that contains null is null."""

    def convert(column: Any) -> list[Any]:
        tags = column.type_codes.to_pylist()
        parts = [decoder.values(column.field(i)) for i, (_, decoder) in enumerate(members)]
        found: list[Any] = []
        for row, tag in enumerate(tags):
            held = parts[tag][row]
            values: list[Any] = [None] * len(members)
            values[tag] = held
            found.append(None if held is None else Struct(schema, values))
        return found

    return convert


_NESTED = ("list", "struct", "map", "union", "array")


@dataclass(frozen=True, slots=True)
class DuckDbType:
    """A type: its kind, its parts by name (types, or numbers for lengths and digits), and its SQL text."""

    id: str
    children: tuple[tuple[str, Any], ...]
    text: str

    def __str__(self) -> str:
        return self.text


def describe_type(type_: Any) -> DuckDbType:
    """Copies the driver's description of a type."""
    kind = type_.id
    if kind in _NESTED:
        children = tuple((name, describe_type(part) if hasattr(part, "id") else part) for name, part in type_.children)
    elif kind == "decimal":
        children = tuple(type_.children)
    else:
        children = ()
    return DuckDbType(kind, children, str(type_))
