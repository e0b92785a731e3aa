"""Types and default values of columns that sinks create."""

from __future__ import annotations

from typing import Final

from connect.errors import DataError
from connectors.jdbc.catalog import JdbcColumn
from connectors.jdbc.dialects.logical_types import FieldKind, LogicalType, logical_type
from connectors.jdbc.dialects.mysql.catalog import MySqlColumnDetails
from connectors.jdbc.dialects.mysql.literals import literal_for, quoted
from connectors.jdbc.options import SinkField, WriteOptions

_PLAIN: Final = {
    FieldKind.BOOLEAN: "TINYINT",
    FieldKind.INT8: "TINYINT",
    FieldKind.INT16: "SMALLINT",
    FieldKind.INT32: "INT",
    FieldKind.INT64: "BIGINT",
    FieldKind.FLOAT32: "FLOAT",
    FieldKind.FLOAT64: "DOUBLE",
    FieldKind.DATE: "DATE",
    FieldKind.YEAR: "YEAR",
    FieldKind.DURATION: "BIGINT",
    FieldKind.GEOMETRY: "GEOMETRY",
    FieldKind.JSON: "JSON",
    FieldKind.XML: "LONGTEXT",
    FieldKind.ARRAY: "JSON",
    FieldKind.MAP: "JSON",
    FieldKind.STRUCT: "JSON",
}
_WITHOUT_PLAIN_DEFAULT: Final = ("TEXT", "LONGTEXT", "JSON", "GEOMETRY", "BLOB", "LONGBLOB")
_KEY_BYTES: Final = 3072
"""Maximum size of a key in an InnoDB index."""
_KEY_COLLATION: Final = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
"""Makes Kafka keys that differ only in case different keys."""
_MOST_IN_VARCHAR: Final = 16_383
"""Maximum number of utf8mb4 characters in a row of 65,535 bytes."""


def column_type(field: SinkField, keys: int = 1) -> str:
    """Returns the type of a new column; ``keys`` is the number of primary key columns. Raises DataError if there is none."""
    logical = logical_type(field.schema, WriteOptions(), field.name)
    if field.is_key:
        return _key_type(logical, field, keys)
    return _type(logical, field)


def _type(logical: LogicalType, field: SinkField) -> str:
    kind = logical.kind
    if kind in _PLAIN:
        return _PLAIN[kind]
    match kind:
        case FieldKind.DECIMAL:
            return _decimal(logical, field)
        case FieldKind.TIME | FieldKind.ZONED_TIME:
            return f"TIME({min(logical.digits, 6)})"
        case FieldKind.TIMESTAMP | FieldKind.INSTANT:
            return f"DATETIME({min(logical.digits, 6)})"
        case FieldKind.BYTES:
            return "VARBINARY(1024)"
        case FieldKind.BITS:
            return f"BIT({logical.length})" if 1 <= (logical.length or 64) <= 64 else "TEXT"
        case FieldKind.UUID:
            return "CHAR(36)"
        case FieldKind.INTERVAL:
            return "VARCHAR(64)"
        case FieldKind.ENUM if logical.allowed:
            return f"ENUM({','.join(map(quoted, logical.allowed))})"
        case FieldKind.ENUM_SET if logical.allowed:
            return f"SET({','.join(map(quoted, logical.allowed))})"
    if logical.length is not None and 0 < logical.length <= _MOST_IN_VARCHAR:
        return f"VARCHAR({logical.length})"
    return "TEXT"


def _decimal(logical: LogicalType, field: SinkField) -> str:
    scale = logical.scale
    if scale is None:
        return "DECIMAL(65,30)"
    if not 0 <= scale <= 30:
        raise DataError(
            f"Field {field.name}: MySQL supports decimals with 0 to 30 decimal places, but the schema has {scale}; "
            "create the column yourself"
        )
    return f"DECIMAL(65,{scale})"


def _key_type(logical: LogicalType, field: SinkField, keys: int) -> str:
    """Returns the type of a key column. An index needs a length, so it cannot be TEXT as in Confluent's connector."""
    type = _type(logical, field)
    if type in ("TEXT", "LONGTEXT") or type.startswith("VARCHAR("):
        return f"VARCHAR({min(255, _KEY_BYTES // 4 // keys)}) {_KEY_COLLATION}"
    if type == "VARBINARY(1024)":
        return f"VARBINARY({min(255, _KEY_BYTES // keys)})"
    if type in ("JSON", "GEOMETRY"):
        raise DataError(f"Field {field.name}: MySQL has no keys of type {type}; remove it from pk.fields")
    return type


def default_literal(field: SinkField) -> str:
    """Returns the default of a field's schema as SQL. For text it must be an expression (MySQL 8.0.13, MariaDB 10.2)."""
    type = field.sql_type or column_type(field)
    native = MySqlColumnDetails(type.partition("(")[0].lower(), length=64 if type.startswith("BIT") else None)
    text = literal_for(field, JdbcColumn(field.name, type, native=native), WriteOptions()).write(field.schema.default)
    return f"({text})" if type.upper().startswith(_WITHOUT_PLAIN_DEFAULT) else text
