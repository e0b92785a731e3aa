"""Types and default values of columns that sinks create."""

from __future__ import annotations

from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.jdbc.dialects.logical_types import FieldKind, LogicalType, TemporalForm, logical_type
from connectors.jdbc.dialects.postgres.catalog import PostgresType
from connectors.jdbc.dialects.postgres.value_encoder import build_encoder
from connectors.jdbc.options import SinkField, WriteOptions

_TYPES: dict[FieldKind, tuple[str, str]] = {
    FieldKind.BOOLEAN: ("BOOLEAN", "bool"),
    FieldKind.INT8: ("SMALLINT", "int2"),
    FieldKind.INT16: ("SMALLINT", "int2"),
    FieldKind.INT32: ("INT", "int4"),
    FieldKind.INT64: ("BIGINT", "int8"),
    FieldKind.FLOAT32: ("REAL", "float4"),
    FieldKind.FLOAT64: ("DOUBLE PRECISION", "float8"),
    FieldKind.STRING: ("TEXT", "text"),
    FieldKind.BYTES: ("BYTEA", "bytea"),
    FieldKind.DECIMAL: ("DECIMAL", "numeric"),
    FieldKind.DATE: ("DATE", "date"),
    FieldKind.TIME: ("TIME", "time"),
    FieldKind.ZONED_TIME: ("TIMETZ", "timetz"),
    FieldKind.TIMESTAMP: ("TIMESTAMP", "timestamp"),
    FieldKind.YEAR: ("INT", "int4"),
    FieldKind.INTERVAL: ("INTERVAL", "interval"),
    FieldKind.DURATION: ("INTERVAL", "interval"),
    FieldKind.JSON: ("JSON", "json"),
    FieldKind.UUID: ("UUID", "uuid"),
    FieldKind.XML: ("XML", "xml"),
    FieldKind.ENUM: ("TEXT", "text"),
    FieldKind.ENUM_SET: ("TEXT", "text"),
    FieldKind.MAP: ("JSONB", "jsonb"),
    FieldKind.STRUCT: ("JSONB", "jsonb"),
}
"""The type in SQL, and its name in pg_type."""

_TEXTUAL = frozenset(
    {"json", "jsonb", "uuid", "xml", "inet", "cidr", "macaddr", "macaddr8", "tsvector", "tsquery", "interval", "citext", "hstore",
     "ltree", "pg_lsn", "jsonpath", "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange", "int4multirange",
     "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange", "line", "lseg", "box", "path",
     "polygon", "circle", "varbit"}
)  # fmt: skip
"""Types whose values are sent as text, so a new column can have the type of the source column."""

_UNLIMITED = 2_147_483_647
_DIALECT_OPTIONS = WriteOptions()


def column_type(field: SinkField) -> str:
    """Returns the type of a new column. Raises DataError if PostgreSQL has none for the schema."""
    source_type = (field.source_type or "").lower()
    if source_type in _TEXTUAL and field.schema.type is Type.STRING:
        return source_type.upper()
    return _type(logical_type(field.schema, _DIALECT_OPTIONS), f"Field {field.name}")[0]


def _type(logical: LogicalType, what: str) -> tuple[str, str]:
    match logical.kind:
        case FieldKind.INSTANT:
            # Confluent's and Aiven's connectors use TIMESTAMP for Connect's Timestamp; a string with a zone keeps the zone.
            return ("TIMESTAMP", "timestamp") if logical.form is TemporalForm.CONNECT else ("TIMESTAMPTZ", "timestamptz")
        case FieldKind.BITS:
            unlimited = logical.length is None or logical.length >= _UNLIMITED
            return "BIT VARYING" if unlimited else f"BIT({logical.length})", "varbit"
        case FieldKind.GEOMETRY:
            return _geometry(logical.schema)
        case FieldKind.ARRAY:
            assert logical.element is not None
            element = _type(logical.element, what)
            return ("JSONB", "jsonb") if element[1] == "jsonb" else (f"{element[0]}[]", "array")
    found = _TYPES.get(logical.kind)
    if found is None:
        raise DataError(f"{what} is {logical.kind.value}, which PostgreSQL has no type for")
    return found


def _geometry(schema: Schema) -> tuple[str, str]:
    if (schema.name or "").endswith(".Point"):
        return "POINT", "point"
    return ("GEOGRAPHY" if (schema.name or "").endswith(".Geography") else "GEOMETRY"), "geometry"


def literal(field: SinkField) -> str:
    """Returns the default of a field's schema as a SQL literal."""
    what = f"The default of field {field.name}"
    logical = logical_type(field.schema, _DIALECT_OPTIONS)
    type = _type(logical, what)
    element: PostgresType | None = None
    if logical.kind is FieldKind.ARRAY and type[1] == "array":
        innermost = logical
        while innermost.element is not None and innermost.kind is FieldKind.ARRAY:
            innermost = innermost.element
        element = _builtin(_type(innermost, what)[1], None)
    text = build_encoder(logical, _builtin(type[1], element), -1, _DIALECT_OPTIONS, what).one(field.schema.default)
    if "\0" in text:
        raise DataError(f"{what} holds the character U+0000, which PostgreSQL cannot store")
    if logical.kind in (FieldKind.INT8, FieldKind.INT16, FieldKind.INT32, FieldKind.INT64, FieldKind.DECIMAL):
        return text
    if logical.kind is FieldKind.BOOLEAN:
        return "TRUE" if field.schema.default else "FALSE"
    # Sessions of this dialect set standard_conforming_strings, so a backslash needs no escape.
    return "'" + text.replace("'", "''") + "'"


def _builtin(name: str, element: PostgresType | None) -> PostgresType:
    return PostgresType(0, "pg_catalog", name, "b", element, ",", name)
