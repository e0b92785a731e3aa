"""Types of new columns where Debezium's sink differs from the dialect's choice.

They follow recordings of Debezium 3.6.0.Final, except where its types cannot hold the values: integers with negative scales
(``decimal(38,-1)`` rounds to tens) and numbers of variable scale (``double``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from connect.data.logical import DECIMAL
from connect.data.schema import Schema, Type
from connectors.jdbc.dialects.logical_types import FieldKind, TemporalForm, logical_type
from connectors.jdbc.options import SinkField, WriteOptions

SOURCE_TYPE = "__debezium.source.column.type"
SOURCE_LENGTH = "__debezium.source.column.length"

_PLAIN_OPTIONS = WriteOptions()
_POSTGRES: Final = frozenset({"postgresql", "cockroachdb"})
_MYSQL: Final = frozenset({"mysql", "mariadb"})
_TEXT_FORMS: Final = frozenset(
    {"io.debezium.time.IsoDate", "io.debezium.time.IsoTime", "io.debezium.time.IsoTimestamp", "io.debezium.time.Interval"}
)
"""Dates, times and intervals as text: Debezium creates text columns and writes them unchanged."""
_NANOS: Final = {
    "io.debezium.time.NanoTime": "io.debezium.time.MicroTime",
    "io.debezium.time.NanoTimestamp": "io.debezium.time.MicroTimestamp",
}
_CHAR: Final = frozenset({"CHAR", "BPCHAR", "CHARACTER", "NCHAR"})
_VARCHAR: Final = frozenset({"VARCHAR", "NVARCHAR", "CHARACTER VARYING", "VARCHAR2", "NVARCHAR2"})
_MYSQL_MAX_CHARACTERS: Final = 16_383


def build_sink_field(name: str, schema: Schema, backend: str, postgis: str, *, is_key: bool) -> SinkField:
    """Builds the field for a column named ``name``. ``backend`` is SQLAlchemy's name of the database."""
    if schema.name in _TEXT_FORMS and not _is_source_interval(schema):
        schema = schema.replace(name=None, version=None)
    if (micro := truncate_to_micros(schema, backend)) is not None:
        schema = micro
    field = SinkField(name, schema, is_key, (schema.parameters or {}).get(SOURCE_TYPE), refuses_null=True)
    if backend in _POSTGRES:
        return replace(field, sql_type=_postgres_type(field, postgis))
    if backend in _MYSQL:
        return replace(field, sql_type=_mysql_type(field))
    return field


def truncate_to_micros(schema: Schema, backend: str) -> Schema | None:
    """Returns the microsecond schema for a nanosecond schema if the database has no nanoseconds; None for any other schema.
    Like Debezium, the sink truncates such values."""
    if backend not in _POSTGRES | _MYSQL or schema.name not in _NANOS or schema.type is not Type.INT64:
        return None
    default = None if schema.default is None else schema.default // 1000
    return schema.replace(name=_NANOS[schema.name], default=default)


def rounds_to_micros(schema: Schema, backend: str) -> bool:
    """Whether values are rounded to microseconds, like PostgreSQL's driver does for timestamps; otherwise they are truncated."""
    return backend in _POSTGRES and schema.name == "io.debezium.time.NanoTimestamp"


def _is_source_interval(schema: Schema) -> bool:
    return (schema.parameters or {}).get(SOURCE_TYPE, "").upper() == "INTERVAL"


def _length(field: SinkField) -> int | None:
    text = (field.schema.parameters or {}).get(SOURCE_LENGTH, "")
    return int(text) if text.isdecimal() and 0 < int(text) < 2**31 - 1 else None


def _precision(field: SinkField) -> int:
    """Returns the digits of fractional seconds: those of the source column if known, otherwise the maximum."""
    length = (field.schema.parameters or {}).get(SOURCE_LENGTH, "")
    return min(int(length), 6) if length.isdecimal() else 6


def _character_type(field: SinkField, max_length: int) -> str | None:
    """Returns ``char(n)`` or ``varchar(n)`` if the source column's type and length are known."""
    length, source = _length(field), (field.source_type or "").upper()
    if field.schema.type is not Type.STRING or field.schema.name is not None or length is None or length > max_length:
        return None
    if source in _CHAR:
        return f"char({length})" if length <= 255 else f"varchar({length})"
    return f"varchar({length})" if source in _VARCHAR else None


def _decimal_type(schema: Schema, scale: int, max_scale: int) -> str | None:
    precision = (schema.parameters or {}).get("connect.decimal.precision", "")
    if precision.isdecimal() and 0 <= scale <= min(int(precision), max_scale):
        return f"decimal({precision},{scale})"
    return f"decimal(38,{scale})" if 0 <= scale <= min(38, max_scale) else None


def _postgres_type(field: SinkField, postgis: str) -> str | None:
    logical = logical_type(field.schema, _PLAIN_OPTIONS)
    source = (field.source_type or "").upper()
    match logical.kind:
        case FieldKind.DECIMAL if field.schema.name == DECIMAL and logical.scale is not None:
            return _decimal_type(field.schema, logical.scale, 1000)
        case FieldKind.TIME:
            return f"time({_precision(field)})"
        case FieldKind.ZONED_TIME:
            return f"time({_precision(field)}) with time zone"
        case FieldKind.TIMESTAMP:
            return f"timestamp({_precision(field)})"
        case FieldKind.INSTANT:
            return f"timestamp({_precision(field)})" + ("" if logical.form is TemporalForm.CONNECT else " with time zone")
        case FieldKind.INT64 if source == "OID":
            return "oid"
        case FieldKind.STRING if source == "MONEY":
            return "money"
        case FieldKind.STRING:
            return _character_type(field, 10_485_760)
        case FieldKind.GEOMETRY if not (field.schema.name or "").endswith(".Point"):
            kind = "geography" if (field.schema.name or "").endswith(".Geography") else "geometry"
            return f'"{postgis.replace(chr(34), chr(34) * 2)}".{kind}'
    return None


def _mysql_type(field: SinkField) -> str | None:
    logical = logical_type(field.schema, _PLAIN_OPTIONS)
    if field.is_key and logical.kind in (FieldKind.STRING, FieldKind.BYTES, FieldKind.UUID, FieldKind.XML, FieldKind.INTERVAL):
        return _character_type(field, 255)  # otherwise the dialect chooses a type that an index can hold
    source = (field.source_type or "").upper()
    match logical.kind:
        case FieldKind.DECIMAL if logical.scale is not None:
            return _decimal_type(field.schema, logical.scale, 30)
        case FieldKind.TIME:
            return f"time({_precision(field)})"
        case FieldKind.TIMESTAMP:
            return f"datetime({_precision(field)})"
        case FieldKind.INSTANT:
            return f"{'datetime' if logical.form is TemporalForm.CONNECT else 'timestamp'}({_precision(field)})"
        case FieldKind.BOOLEAN:
            return "boolean"
        case FieldKind.INT16 if source == "TINYINT":
            return "tinyint" + (f"({length})" if (length := _length(field)) else "")
        case FieldKind.INT64 if source.startswith("BIGINT UNSIGNED"):
            return "bigint unsigned"
        case FieldKind.BYTES:
            return _mysql_bytes_type(field, source)
        case FieldKind.STRING:
            return _character_type(field, _MYSQL_MAX_CHARACTERS) or "longtext"
        case FieldKind.UUID:
            return "longtext"
        case FieldKind.GEOMETRY if (field.schema.name or "").endswith(".Point"):
            return "point"
    return None


def _mysql_bytes_type(field: SinkField, source: str) -> str:
    length = _length(field)
    if source in ("BINARY", "VARBINARY") and length is not None and length <= 65_535:
        return f"varbinary({length})"
    return "blob" if source == "BLOB" else "longblob"
