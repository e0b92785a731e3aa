"""What the sinks of several databases share: a small, closed set of kinds for all that a field can mean.

Connect's logical types and Debezium's semantic types (``io.debezium.time.*``, ``io.debezium.data.*``) become one of
:class:`FieldKind`, so that a database need know neither's names; :mod:`connectors.jdbc.dialects.conversion` makes the values of
a kind what a driver takes.
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
    """What a field means. The comment is the Python value that ``conversion.to_python`` gives."""

    BOOLEAN = "boolean"  # bool
    INT8 = "int8"  # int
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"  # float
    FLOAT64 = "float64"
    STRING = "string"  # str
    BYTES = "bytes"  # bytes
    DECIMAL = "decimal"  # Decimal; Logical.scale is None when each value has its own
    DATE = "date"  # date
    TIME = "time"  # time without zone
    ZONED_TIME = "zoned time"  # time with zone
    TIMESTAMP = "timestamp"  # datetime without zone: what a clock on a wall shows
    INSTANT = "instant"  # datetime in UTC
    YEAR = "year"  # int
    INTERVAL = "interval"  # str, ISO-8601: P1Y2M3DT4H5M6.7S
    DURATION = "duration"  # int, microseconds
    JSON = "json"  # str
    UUID = "uuid"  # str
    XML = "xml"  # str
    ENUM = "enum"  # str, one of Logical.allowed where that is known
    ENUM_SET = "enum set"  # str, some of Logical.allowed with commas between them
    BITS = "bits"  # str of 0 and 1, as many as Logical.length
    GEOMETRY = "geometry"  # Geometry
    ARRAY = "array"  # list
    MAP = "map"  # dict
    STRUCT = "struct"  # dict by field name


class TemporalForm(Enum):
    """How a date or time is given by its schema."""

    CONNECT = "connect"
    """Connect's own: Python's date, time or datetime (or FarInstant)."""
    NUMBER = "number"
    """An int: days, or as many units as ``Logical.unit_ns`` says."""
    TEXT = "text"
    """ISO-8601."""


@dataclass(frozen=True, slots=True)
class LogicalType:
    """A field's meaning, and how its schema gives it."""

    kind: FieldKind
    schema: Schema
    form: TemporalForm = TemporalForm.CONNECT
    unit_ns: int = 1
    """For numbers: what one of them is, in ns."""
    digits: int = 9
    """For times and timestamps: how many digits after the second a value may have."""
    scale: int | None = None
    length: int | None = None
    """For BITS and STRING: the column's length where it came from, when the schema tells."""
    allowed: tuple[str, ...] = ()
    element: LogicalType | None = None
    """Of an array, or of a map's values."""
    key: LogicalType | None = None
    """Of a map's keys."""
    members: tuple[tuple[str, LogicalType], ...] = ()
    """Of a struct."""

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
"""Kinds whose value is text already."""

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

# Name -> stored type, kind, form, ns of one unit, digits after the second.
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
    """The meaning of a schema; ``name`` is the field's, for ``timestamp.fields.list``. A name that is none of the known ones,
    or stands on another type than it should, means nothing, as in the originals."""
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
    """A struct by its members, whatever its name means."""
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
    """Debezium joins the values of an enum with commas; one inside of a value has a backslash before it."""
    if not text:
        return ()
    return tuple(part.replace("\0", ",") for part in text.replace("\\,", "\0").split(","))
