"""Converts columns of records to Arrow arrays that DuckDB casts to its own types without loss.

DuckDB's casts round (1.5 becomes 2, 1.239 becomes 1.24), so values that would be rounded are rejected here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from connect.data.logical import EPOCH, FarInstant
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.jdbc.dialects.conversion import to_day, to_instant_ns, to_python, to_time_ns, to_wall_ns
from connectors.jdbc.dialects.duckdb.temporal import INFINITY
from connectors.jdbc.dialects.duckdb.types import TIMESTAMPS, UNIT_NS, quoted
from connectors.jdbc.dialects.logical_types import FLOATS, INTEGERS, TEXTS, FieldKind, LogicalType, TemporalForm, struct_type
from connectors.jdbc.dialects.text_values import to_json, to_text
from connectors.jdbc.dialects.types import Convert, exact_rescaler, format_wall_ns
from connectors.jdbc.options import WriteOptions

INTEGER_TARGETS = (
    "tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint", "hugeint", "uhugeint", "bignum",
)  # fmt: skip
_MICROSECOND = dt.timedelta(microseconds=1)
_FIRST = dt.datetime(1582, 10, 16, tzinfo=dt.UTC)
_PRECISION = {"timestamp_s": 1_000_000_000, "timestamp_ms": 1_000_000, "timestamp_ns": 1}
_INFINITE_MS = {INFINITY // 1000: INFINITY, -INFINITY // 1000: -INFINITY}
"""DuckDB's infinite timestamps, by the ms that a source reads."""


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """How to write a field: the Arrow type, the converter of values (None: no conversion), and the SQL that casts the column."""

    type: Any
    convert: Convert | None
    sql: str = "{0}"
    whole: Callable[[Sequence[Any]], list[Any]] | None = None
    """Converts a whole column, or raises TypeError or ValueError if its values do not allow that."""

    def array(self, values: Sequence[Any]) -> Any:
        if self.whole is not None:
            try:
                return self._made(self.whole(values))
            except (TypeError, ValueError, OverflowError):
                pass  # a value needs the slower converter, which also reports errors
        convert = self.convert
        return self._made(values if convert is None else [None if v is None else convert(v) for v in values])

    def _made(self, values: Sequence[Any]) -> Any:
        if pa.types.is_timestamp(self.type) or pa.types.is_time64(self.type):
            return pa.array(values, pa.int64()).view(self.type)
        if pa.types.is_date32(self.type):
            return pa.array(values, pa.int32()).view(self.type)
        return pa.array(values, self.type)


def arrow_column(logical: LogicalType, target: Any, options: WriteOptions, what: str) -> ArrowColumn:
    """Returns how to write a field. ``target`` describes the column's type. Raises DataError if the field does not fit it."""
    kind = logical.kind
    if kind is FieldKind.GEOMETRY:
        return ArrowColumn(pa.string(), to_json(struct_type(logical.schema, options), options, what))
    if kind in (FieldKind.ARRAY, FieldKind.MAP, FieldKind.STRUCT):
        return _nested(logical, target, options, what)
    if target.id == "varchar" and kind not in TEXTS and kind is not FieldKind.BYTES:
        return ArrowColumn(pa.string(), to_text(logical, options, what))
    if logical.is_temporal and not (target.id in INTEGER_TARGETS and logical.form is TemporalForm.NUMBER):
        return _temporal(logical, target, options, what)
    if kind is FieldKind.DURATION and target.id == "interval":
        return ArrowColumn(pa.int64(), None, "to_microseconds({0})")
    if kind is FieldKind.DECIMAL or (kind in FLOATS and target.id in (*INTEGER_TARGETS, "decimal")):
        return _decimal(logical, target, options, what)
    if kind is FieldKind.BOOLEAN:
        return ArrowColumn(pa.bool_(), None)
    if kind in INTEGERS or kind is FieldKind.DURATION or logical.is_temporal:
        return ArrowColumn(pa.int64(), None)
    if kind in FLOATS:
        return ArrowColumn(pa.float64(), None)
    if kind is FieldKind.BYTES:
        return ArrowColumn(pa.binary(), None)
    return ArrowColumn(pa.string(), to_python(logical, options, what))


def _decimal(logical: LogicalType, target: Any, options: WriteOptions, what: str) -> ArrowColumn:
    number = _decimal_of_float if logical.kind in FLOATS else to_python(logical, options, what)
    scale = dict(target.children)["scale"] if target.id == "decimal" else 0 if target.id in INTEGER_TARGETS else None
    if scale is None or (logical.kind is FieldKind.DECIMAL and logical.scale is not None and 0 <= logical.scale <= scale):
        return ArrowColumn(pa.string(), str if number is None else lambda value: str(number(value)))
    scaled = exact_rescaler(scale, what.removeprefix("Field "))
    return ArrowColumn(pa.string(), lambda value: format(scaled(value if number is None else number(value)), "f"))


def _decimal_of_float(value: float) -> Decimal:
    return Decimal(repr(value))


# --- dates and times


def _temporal(logical: LogicalType, target: Any, options: WriteOptions, what: str) -> ArrowColumn:
    match logical.kind:
        case FieldKind.DATE:
            return ArrowColumn(pa.date32(), to_day(logical, options, what))
        case FieldKind.ZONED_TIME:
            return ArrowColumn(pa.string(), None)
        case FieldKind.TIME:
            ns = to_time_ns(logical, options, what)
            return ArrowColumn(pa.time64("us"), lambda value: _whole(ns(value), 1000, what) // 1000)
    if target.id not in TIMESTAMPS:
        raise DataError(f"{what} is a {logical.kind.value}, which a column of type {target} cannot store")
    zoned = "time zone" in target.id or target.id.endswith("tz")
    at = to_instant_ns(logical, options, what) if zoned else to_wall_ns(logical, options, what)
    finest = _PRECISION.get(target.id, 1000)
    unit = "ns" if finest == 1 else "us"
    step = UNIT_NS[unit]

    def convert(value: Any) -> int:
        if isinstance(value, FarInstant) and value.millis in _INFINITE_MS and step == 1000:
            return _INFINITE_MS[value.millis]
        return _whole(at(value), finest, what) // step

    plain = logical.form is TemporalForm.CONNECT and (zoned or options.zone is dt.UTC) and finest == 1000
    return ArrowColumn(pa.timestamp(unit, tz="UTC" if zoned else None), convert, whole=_micros if plain else None)


def _micros(values: Sequence[Any]) -> list[Any]:
    present = [value for value in values if value is not None] if None in values else values
    if present and min(present) < _FIRST:
        raise ValueError("needs conversion from Java's calendar")
    return [None if v is None else (v - EPOCH) // _MICROSECOND for v in values]


def _whole(ns: int, unit: int, what: str) -> int:
    if ns % unit:
        raise DataError(f"{what}: {format_wall_ns(ns, 9)} is finer than the column can store")
    return ns


# --- lists, maps, structs, unions


def _nested(logical: LogicalType, target: Any, options: WriteOptions, what: str) -> ArrowColumn:
    match logical.kind, target.id:
        case FieldKind.ARRAY, "list" | "array":
            assert logical.element is not None
            element = arrow_column(logical.element, dict(target.children)["child"], options, what)
            each = _each(element)
            return ArrowColumn(pa.list_(element.type), lambda values: [each(value) for value in values])
        case FieldKind.MAP, "map":
            assert logical.element is not None
            assert logical.key is not None
            parts = dict(target.children)
            name = _each(arrow_column(logical.key, parts["key"], options, what))
            member = arrow_column(logical.element, parts["value"], options, what)
            value_of, key_type = _each(member), arrow_column(logical.key, parts["key"], options, what).type
            return ArrowColumn(pa.map_(key_type, member.type), lambda value: [(name(k), value_of(v)) for k, v in value.items()])
        case FieldKind.STRUCT, "struct" | "union":
            return _struct(logical, target, options, what)
    if target.id == "varchar":
        return ArrowColumn(pa.string(), to_json(logical, options, what))
    raise DataError(f"{what} is a {logical.kind.value}, which a column of type {target} cannot store")


def _struct(logical: LogicalType, target: Any, options: WriteOptions, what: str) -> ArrowColumn:
    known = dict(target.children)
    arrow_columns: list[tuple[str, ArrowColumn]] = []
    for name, member in logical.members:
        if name not in known or not name:
            raise DataError(f"{what}.{name} has no member in {target}")
        arrow_columns.append((name, arrow_column(member, known[name], options, f"{what}.{name}")))
    parts = [(name, _each(arrow)) for name, arrow in arrow_columns]

    def convert(value: Struct) -> dict[str, Any]:
        return {name: each(part) for (name, each), part in zip(parts, value.values, strict=True)}

    type_ = pa.struct([pa.field(name, arrow.type) for name, arrow in arrow_columns])
    return ArrowColumn(type_, convert, _union_sql(target, [name for name, _ in arrow_columns]) if target.id == "union" else "{0}")


def _union_sql(target: Any, names: Sequence[str]) -> str:
    """Returns SQL that casts a struct to the union of its only member that is not null."""
    types = {name: str(type_) for name, type_ in target.children}
    cases = " ".join(
        f"WHEN {{0}}.{_braced(quoted(name))} IS NOT NULL THEN CAST(union_value({_braced(quoted(name))} := "
        f"CAST({{0}}.{_braced(quoted(name))} AS {_braced(types[name])})) AS {_braced(str(target))})"
        for name in names
    )
    return f"CASE {cases} END"


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _each(arrow: ArrowColumn) -> Convert:
    """Returns the converter of nested values, null included. Arrow accepts nested dates and times only as Python objects."""
    convert = arrow.convert

    def whole(value: Any) -> Any:
        if value is None:
            return None
        return value if convert is None else convert(value)

    return whole
