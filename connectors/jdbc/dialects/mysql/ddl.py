"""The types of columns that a sink creates, and their defaults."""

from __future__ import annotations

from typing import Final

from connect.errors import DataError
from connectors.jdbc.catalog import Column
from connectors.jdbc.dialects.field_kinds import Kind, Logical, logical_of
from connectors.jdbc.dialects.mysql.catalog import Native
from connectors.jdbc.dialects.mysql.literals import literal_of, quoted
from connectors.jdbc.options import SinkField, WriteOptions

_PLAIN: Final = {
    Kind.BOOLEAN: "TINYINT",
    Kind.INT8: "TINYINT",
    Kind.INT16: "SMALLINT",
    Kind.INT32: "INT",
    Kind.INT64: "BIGINT",
    Kind.FLOAT32: "FLOAT",
    Kind.FLOAT64: "DOUBLE",
    Kind.DATE: "DATE",
    Kind.YEAR: "YEAR",
    Kind.DURATION: "BIGINT",
    Kind.GEOMETRY: "GEOMETRY",
    Kind.JSON: "JSON",
    Kind.XML: "LONGTEXT",
    Kind.ARRAY: "JSON",
    Kind.MAP: "JSON",
    Kind.STRUCT: "JSON",
}
_WITHOUT_PLAIN_DEFAULT: Final = ("TEXT", "LONGTEXT", "JSON", "GEOMETRY", "BLOB", "LONGBLOB")
_KEY_BYTES: Final = 3072
"""What an index of InnoDB takes."""
_KEY_COLLATION: Final = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
"""Keys of Kafka that differ in case alone are different keys."""
_MOST_IN_VARCHAR: Final = 16_383
"""Characters of utf8mb4 in a row of 65,535 bytes."""


def column_type(field: SinkField, keys: int = 1) -> str:
    """The type of a new column; ``keys`` is how many columns the primary key has. Raises DataError where there is none."""
    logical = logical_of(field.schema, WriteOptions(), field.name)
    if field.is_key:
        return _key_type(logical, field, keys)
    return _type(logical, field)


def _type(logical: Logical, field: SinkField) -> str:
    kind = logical.kind
    if kind in _PLAIN:
        return _PLAIN[kind]
    match kind:
        case Kind.DECIMAL:
            return _decimal(logical, field)
        case Kind.TIME | Kind.ZONED_TIME:
            return f"TIME({min(logical.digits, 6)})"
        case Kind.TIMESTAMP | Kind.INSTANT:
            return f"DATETIME({min(logical.digits, 6)})"
        case Kind.BYTES:
            return "VARBINARY(1024)"
        case Kind.BITS:
            return f"BIT({logical.length})" if 1 <= (logical.length or 64) <= 64 else "TEXT"
        case Kind.UUID:
            return "CHAR(36)"
        case Kind.INTERVAL:
            return "VARCHAR(64)"
        case Kind.ENUM if logical.allowed:
            return f"ENUM({','.join(map(quoted, logical.allowed))})"
        case Kind.ENUM_SET if logical.allowed:
            return f"SET({','.join(map(quoted, logical.allowed))})"
    if logical.length is not None and 0 < logical.length <= _MOST_IN_VARCHAR:
        return f"VARCHAR({logical.length})"
    return "TEXT"


def _decimal(logical: Logical, field: SinkField) -> str:
    scale = logical.scale
    if scale is None:
        return "DECIMAL(65,30)"
    if not 0 <= scale <= 30:
        raise DataError(
            f"Field {field.name}: MySQL has decimals with 0 to 30 places, and its schema says {scale}; create the column by hand"
        )
    return f"DECIMAL(65,{scale})"


def _key_type(logical: Logical, field: SinkField, keys: int) -> str:
    """An index needs a length: the originals' TEXT cannot be a key."""
    type = _type(logical, field)
    if type in ("TEXT", "LONGTEXT") or type.startswith("VARCHAR("):
        return f"VARCHAR({min(255, _KEY_BYTES // 4 // keys)}) {_KEY_COLLATION}"
    if type == "VARBINARY(1024)":
        return f"VARBINARY({min(255, _KEY_BYTES // keys)})"
    if type in ("JSON", "GEOMETRY"):
        raise DataError(f"Field {field.name}: MySQL has no key over {type}; leave it out of pk.fields")
    return type


def default_literal(field: SinkField) -> str:
    """The default of a field's schema. Texts take one as an expression alone (MySQL 8.0.13, MariaDB 10.2)."""
    type = field.sql_type or column_type(field)
    native = Native(type.partition("(")[0].lower(), length=64 if type.startswith("BIT") else None)
    text = literal_of(field, Column(field.name, type, native=native), WriteOptions()).write(field.schema.default)
    return f"({text})" if type.upper().startswith(_WITHOUT_PLAIN_DEFAULT) else text
