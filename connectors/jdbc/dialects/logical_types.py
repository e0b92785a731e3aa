"""The logical type of a field: a small, closed set of kinds that all sinks share.

Connect's logical types and Debezium's semantic types (``io.debezium.time.*``, ``io.debezium.data.*``) map to a
:class:`FieldKind`, so that dialects need not know their names. :mod:`connectors.jdbc.dialects.conversion` converts the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP, decimal_scale
from connect.data.schema import Schema, Type
from connectors.jdbc.options import WriteOptions


class FieldKind(Enum):
    """The meaning of a field. The comment is the Python type that ``conversion.to_python`` returns."""

    BOOLEAN = "boolean"  # bool
    INT8 = "int8"  # int
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"  # float
    FLOAT64 = "float64"
    STRING = "string"  # str
    BYTES = "bytes"  # bytes
    DECIMAL = "decimal"  # Decimal; LogicalType.scale is None if each value has its own
    DATE = "date"  # date
    TIME = "time"  # time without zone
    ZONED_TIME = "zoned time"  # time with zone
    TIMESTAMP = "timestamp"  # datetime without zone (wall time)
    INSTANT = "instant"  # datetime in UTC
    YEAR = "year"  # int
    INTERVAL = "interval"  # str, ISO-8601: P1Y2M3DT4H5M6.7S
    DURATION = "duration"  # int, microseconds
    JSON = "json"  # str
    UUID = "uuid"  # str
    XML = "xml"  # str
    ENUM = "enum"  # str, one of LogicalType.allowed if that is known
    ENUM_SET = "enum set"  # str, some of LogicalType.allowed, separated by commas
    BITS = "bits"  # str of 0 and 1, as many as LogicalType.length
    GEOMETRY = "geometry"  # Geometry
    ARRAY = "array"  # list
    MAP = "map"  # dict
    STRUCT = "struct"  # dict by field name


class TemporalForm(Enum):
    """How the schema represents a date or time."""

    CONNECT = "connect"
    """Connect's own: Python's date, time or datetime (or FarInstant)."""
    NUMBER = "number"
    """An int: days, or a number of ``LogicalType.unit_ns``."""
    TEXT = "text"
    """ISO-8601."""


@dataclass(frozen=True, slots=True)
class LogicalType:
    """The meaning of a field and how its schema represents it."""

    kind: FieldKind
    schema: Schema
    form: TemporalForm = TemporalForm.CONNECT
    unit_ns: int = 1
    """For temporal numbers: the unit in ns."""
    digits: int = 9
    """For times and timestamps: the maximum number of fractional second digits."""
    scale: int | None = None
    length: int | None = None
    """For BITS and STRING: the length of the source column, if the schema has it."""
    allowed: tuple[str, ...] = ()
    element: LogicalType | None = None
    """The type of an array's elements or a map's values."""
    key: LogicalType | None = None
    """The type of a map's keys."""
    members: tuple[tuple[str, LogicalType], ...] = ()
    """The types of a struct's members."""

    @property
    def is_temporal(self) -> bool:
        return self.kind in _TEMPORAL


_TEMPORAL: Final = frozenset({FieldKind.DATE, FieldKind.TIME, FieldKind.ZONED_TIME, FieldKind.TIMESTAMP, FieldKind.INSTANT})

INTEGERS: Final = (FieldKind.INT8, FieldKind.INT16, FieldKind.INT32, FieldKind.INT64, FieldKind.YEAR)
FLOATS: Final = (FieldKind.FLOAT32, FieldKind.FLOAT64)
TEXTS: Final = (
    FieldKind.STRING,
    FieldKind.JSON,
    FieldKind.UUID,
    FieldKind.XML,
    FieldKind.ENUM,
    FieldKind.ENUM_SET,
    FieldKind.INTERVAL,
)
"""Kinds whose value is text."""

_PLAIN: Final[Mapping[Type, FieldKind]] = {
    Type.BOOLEAN: FieldKind.BOOLEAN,
    Type.INT8: FieldKind.INT8,
    Type.INT16: FieldKind.INT16,
    Type.INT32: FieldKind.INT32,
    Type.INT64: FieldKind.INT64,
    Type.FLOAT32: FieldKind.FLOAT32,
    Type.FLOAT64: FieldKind.FLOAT64,
    Type.STRING: FieldKind.STRING,
    Type.BYTES: FieldKind.BYTES,
}

# Name -> stored type, kind, form, unit in ns, fractional second digits.
_MILLI, _MICRO, _NANO = 1_000_000, 1_000, 1
_TIMES: Final[Mapping[str, tuple[Type, FieldKind, TemporalForm, int, int]]] = {
    DATE: (Type.INT32, FieldKind.DATE, TemporalForm.CONNECT, 0, 0),
    TIME: (Type.INT32, FieldKind.TIME, TemporalForm.CONNECT, 0, 3),
    TIMESTAMP: (Type.INT64, FieldKind.INSTANT, TemporalForm.CONNECT, 0, 3),
    "io.debezium.time.Date": (Type.INT32, FieldKind.DATE, TemporalForm.NUMBER, 0, 0),
    "io.debezium.time.IsoDate": (Type.STRING, FieldKind.DATE, TemporalForm.TEXT, 0, 0),
    "io.debezium.time.Time": (Type.INT32, FieldKind.TIME, TemporalForm.NUMBER, _MILLI, 3),
    "io.debezium.time.MicroTime": (Type.INT64, FieldKind.TIME, TemporalForm.NUMBER, _MICRO, 6),
    "io.debezium.time.NanoTime": (Type.INT64, FieldKind.TIME, TemporalForm.NUMBER, _NANO, 9),
    "io.debezium.time.IsoTime": (Type.STRING, FieldKind.TIME, TemporalForm.TEXT, 0, 9),
    "io.debezium.time.ZonedTime": (Type.STRING, FieldKind.ZONED_TIME, TemporalForm.TEXT, 0, 9),
    "io.debezium.time.Timestamp": (Type.INT64, FieldKind.TIMESTAMP, TemporalForm.NUMBER, _MILLI, 3),
    "io.debezium.time.MicroTimestamp": (Type.INT64, FieldKind.TIMESTAMP, TemporalForm.NUMBER, _MICRO, 6),
    "io.debezium.time.NanoTimestamp": (Type.INT64, FieldKind.TIMESTAMP, TemporalForm.NUMBER, _NANO, 9),
    "io.debezium.time.IsoTimestamp": (Type.STRING, FieldKind.TIMESTAMP, TemporalForm.TEXT, 0, 9),
    "io.debezium.time.ZonedTimestamp": (Type.STRING, FieldKind.INSTANT, TemporalForm.TEXT, 0, 9),
}

_NAMED: Final[Mapping[str, tuple[Type, FieldKind]]] = {
    "io.debezium.time.Year": (Type.INT32, FieldKind.YEAR),
    "io.debezium.time.Interval": (Type.STRING, FieldKind.INTERVAL),
    "io.debezium.time.MicroDuration": (Type.INT64, FieldKind.DURATION),
    "io.debezium.data.Json": (Type.STRING, FieldKind.JSON),
    "io.debezium.data.Uuid": (Type.STRING, FieldKind.UUID),
    "io.debezium.data.Xml": (Type.STRING, FieldKind.XML),
    "io.debezium.data.Enum": (Type.STRING, FieldKind.ENUM),
    "io.debezium.data.EnumSet": (Type.STRING, FieldKind.ENUM_SET),
    "io.debezium.data.Bits": (Type.BYTES, FieldKind.BITS),
    "io.debezium.data.VariableScaleDecimal": (Type.STRUCT, FieldKind.DECIMAL),
    "io.debezium.data.geometry.Geometry": (Type.STRUCT, FieldKind.GEOMETRY),
    "io.debezium.data.geometry.Geography": (Type.STRUCT, FieldKind.GEOMETRY),
    "io.debezium.data.geometry.Point": (Type.STRUCT, FieldKind.GEOMETRY),
}


def logical_type(schema: Schema, options: WriteOptions, name: str = "") -> LogicalType:
    """Returns the logical type of a schema. ``name`` is the field's, for ``timestamp.fields.list``. An unknown schema name, or a
    known one on an unexpected type, is ignored, as in Confluent's and Aiven's connectors."""
    if name and name in options.string_timestamps:
        digits = 6 if options.timestamp_unit_ns == _MICRO else 9
        if schema.type is Type.INT64 and schema.name is None:
            return LogicalType(FieldKind.INSTANT, schema, TemporalForm.NUMBER, options.timestamp_unit_ns, digits)
        if schema.type is Type.STRING:
            return LogicalType(FieldKind.INSTANT, schema, TemporalForm.TEXT, options.timestamp_unit_ns, digits)
    if schema.name is not None:
        named = _by_name(schema)
        if named is not None:
            return named
    match schema.type:
        case Type.ARRAY if schema.value_schema is not None:
            return LogicalType(FieldKind.ARRAY, schema, element=logical_type(schema.value_schema, options))
        case Type.MAP if schema.value_schema is not None and schema.key_schema is not None:
            key, value = logical_type(schema.key_schema, options), logical_type(schema.value_schema, options)
            return LogicalType(FieldKind.MAP, schema, element=value, key=key)
        case Type.STRUCT:
            return struct_type(schema, options)
    return LogicalType(_PLAIN[schema.type], schema, length=_length(schema, "__debezium.source.column.length"))


def struct_type(schema: Schema, options: WriteOptions) -> LogicalType:
    """Returns the type of a struct by its members, whatever its schema name."""
    members = tuple((field.name, logical_type(field.schema, options)) for field in schema.fields or ())
    return LogicalType(FieldKind.STRUCT, schema, members=members)


def _by_name(schema: Schema) -> LogicalType | None:
    assert schema.name is not None
    if schema.name == DECIMAL and schema.type is Type.BYTES:
        return LogicalType(FieldKind.DECIMAL, schema, scale=decimal_scale(schema))
    time = _TIMES.get(schema.name)
    if time is not None and time[0] is schema.type:
        return LogicalType(time[1], schema, time[2], time[3], time[4])
    other = _NAMED.get(schema.name)
    if other is None or other[0] is not schema.type:
        return None
    allowed = (schema.parameters or {}).get("allowed")
    return LogicalType(other[1], schema, length=_length(schema, "length"), allowed=_choices(allowed))


def _length(schema: Schema, parameter: str) -> int | None:
    text = (schema.parameters or {}).get(parameter, "")
    return int(text) if text.isdecimal() else None


def _choices(text: str | None) -> tuple[str, ...]:
    """Splits the values of an enum, which Debezium joins with commas. A comma inside a value is escaped by a backslash."""
    if not text:
        return ()
    return tuple(part.replace("\0", ",") for part in text.replace("\\,", "\0").split(","))
