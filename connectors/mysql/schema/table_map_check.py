"""Compares tables with TABLE_MAP, which describes them in the binary log, and builds tables from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from connect.errors import DataError
from connectors.mysql.binlog import TableMap
from connectors.mysql.binlog import column_types as wire
from connectors.mysql.binlog.column_types import WireColumn
from connectors.mysql.schema.ddl import data_types as jdbc
from connectors.mysql.schema.ddl.keys import find_key
from connectors.mysql.schema.model import PRIMARY, Column, Index, MySqlTable
from connectors.mysql.types.registry import sql_type

_BINARY_COLLATION: Final = 63
_ROW_START_AND_END: Final = 2
"""The number of columns that MariaDB adds to a table WITH SYSTEM VERSIONING that does not declare them."""

_BLOBS: Final = frozenset({wire.BLOB, wire.TINY_BLOB, wire.MEDIUM_BLOB, wire.LONG_BLOB, wire.BLOB_COMPRESSED})
_STRINGS: Final = frozenset({wire.VARCHAR, wire.VAR_STRING, wire.VARCHAR_COMPRESSED, wire.STRING})
_ANY_STRING: Final = _BLOBS | _STRINGS  # old servers make TEXT of a VARCHAR that is too long
_GEOMETRY: Final = frozenset({wire.GEOMETRY})
_TIMES: Final = frozenset({wire.TIME, wire.TIME2})
_DATETIMES: Final = frozenset({wire.DATETIME, wire.DATETIME2})
_TIMESTAMPS: Final = frozenset({wire.TIMESTAMP, wire.TIMESTAMP2})
_DECIMALS: Final = frozenset({wire.NEWDECIMAL})

_FLOATS: Final = frozenset({wire.FLOAT, wire.DOUBLE})

_TYPES: Final[dict[str, frozenset[int]]] = {
    **dict.fromkeys(("TINYINT", "BOOLEAN"), frozenset({wire.TINY})),
    "SMALLINT": frozenset({wire.SHORT}),
    "MEDIUMINT": frozenset({wire.INT24}),
    "INT": frozenset({wire.LONG}),
    "BIGINT": frozenset({wire.LONGLONG}),
    "FLOAT": _FLOATS,  # FLOAT(25) is DOUBLE
    "DOUBLE": frozenset({wire.DOUBLE}),
    "DECIMAL": _DECIMALS,
    "BIT": frozenset({wire.BIT}),
    "DATE": frozenset({wire.DATE, wire.NEWDATE}),
    "TIME": _TIMES,
    "DATETIME": _DATETIMES,
    "TIMESTAMP": _TIMESTAMPS,
    "YEAR": frozenset({wire.YEAR}),
    "ENUM": frozenset({wire.ENUM}),
    "SET": frozenset({wire.SET}),
    **dict.fromkeys(("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "BINARY", "VARBINARY"), _ANY_STRING),
    **dict.fromkeys(("BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB"), _ANY_STRING),
    "JSON": frozenset({wire.JSON}) | _BLOBS,  # a TEXT in MariaDB
    "VECTOR": frozenset({wire.VECTOR}) | _STRINGS,  # a VARBINARY in MariaDB
    **dict.fromkeys(("UUID", "INET4", "INET6"), _STRINGS),
    "XMLTYPE": _BLOBS,
}

_NAMES: Final[dict[int, tuple[str, int]]] = {
    wire.TINY: ("TINYINT", jdbc.TINYINT), wire.SHORT: ("SMALLINT", jdbc.SMALLINT), wire.INT24: ("MEDIUMINT", jdbc.INTEGER),
    wire.LONG: ("INT", jdbc.INTEGER), wire.LONGLONG: ("BIGINT", jdbc.BIGINT), wire.FLOAT: ("FLOAT", jdbc.FLOAT),
    wire.DOUBLE: ("DOUBLE", jdbc.DOUBLE), wire.NEWDECIMAL: ("DECIMAL", jdbc.DECIMAL), wire.BIT: ("BIT", jdbc.BIT),
    wire.DATE: ("DATE", jdbc.DATE), wire.NEWDATE: ("DATE", jdbc.DATE), wire.YEAR: ("YEAR", jdbc.INTEGER),
    wire.TIME: ("TIME", jdbc.TIME), wire.TIME2: ("TIME", jdbc.TIME), wire.DATETIME: ("DATETIME", jdbc.TIMESTAMP),
    wire.DATETIME2: ("DATETIME", jdbc.TIMESTAMP), wire.TIMESTAMP: ("TIMESTAMP", jdbc.TIMESTAMP_WITH_TIMEZONE),
    wire.TIMESTAMP2: ("TIMESTAMP", jdbc.TIMESTAMP_WITH_TIMEZONE), wire.ENUM: ("ENUM", jdbc.CHAR), wire.SET: ("SET", jdbc.CHAR),
    wire.JSON: ("JSON", jdbc.OTHER), wire.VECTOR: ("VECTOR", jdbc.OTHER), wire.GEOMETRY: ("GEOMETRY", jdbc.OTHER),
}  # fmt: skip
_TEXTS: Final = {1: ("TINYTEXT", "TINYBLOB"), 2: ("TEXT", "BLOB"), 3: ("MEDIUMTEXT", "MEDIUMBLOB"), 4: ("LONGTEXT", "LONGBLOB")}
_GEOMETRY_NAMES: Final = {
    0: "GEOMETRY", 1: "POINT", 2: "LINESTRING", 3: "POLYGON", 4: "MULTIPOINT", 5: "MULTILINESTRING", 6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}  # fmt: skip


def find_difference(table: MySqlTable, table_map: TableMap) -> str | None:
    """Returns how a table first differs from what the server logs, None if it does not.

    Compares the number of columns, their types, sizes that the log has, whether they may be NULL, and, as far as the log tells
    it, signs, names, and the values of ENUM and SET. Sizes of characters and character sets are not compared: rows are decoded by
    those of TABLE_MAP. Raises DataError if TABLE_MAP is damaged.
    """
    count = len(table.columns) + (_ROW_START_AND_END if table.has_system_versioning else 0)
    metadata = table_map.metadata
    if count != table_map.column_count:
        names = f": {', '.join(metadata.names)}" if metadata.names else ""
        return f"table {table} has {count} columns; the binary log has {table_map.column_count}{names}"
    for i, column in enumerate(table.columns):
        if difference := _column_difference(column, i, table_map):
            return f"column {column.name} of table {table} {difference}"
    return None


def _column_difference(column: Column, index: int, table_map: TableMap) -> str | None:
    on_wire, metadata = table_map.columns[index], table_map.metadata
    if metadata.names is not None and metadata.names[index] != column.name:
        return f"is {metadata.names[index]} in the binary log"
    base = sql_type(column).name
    expected = _TYPES.get(base, _GEOMETRY if column.jdbc_type == jdbc.OTHER else None)
    if column.jdbc_type == jdbc.REAL:
        expected = _FLOATS  # sql_mode=REAL_AS_FLOAT, which a history does not tell
    if expected is None or on_wire.type_code not in expected:
        return f"is {column.type_name}; the binary log has {on_wire.type_name}"
    if expected is _DECIMALS and (column.length, column.scale) != (on_wire.precision, on_wire.scale):
        return f"is {base}({column.length},{column.scale}); the binary log has DECIMAL({on_wire.precision},{on_wire.scale})"
    if expected in (_TIMES, _DATETIMES, _TIMESTAMPS) and on_wire.scale is not None and (column.length or 0) != on_wire.scale:
        return f"has {column.length or 0} fractional digits; the binary log has {on_wire.scale}"
    if base == "BIT" and column.length != on_wire.bits:
        return f"is BIT({column.length}); the binary log has BIT({on_wire.bits})"
    if table_map.nullable[index] != column.optional:
        return f"is {'NULL' if column.optional else 'NOT NULL'}; the binary log has the opposite"
    if metadata.unsigned is not None and column.jdbc_type in _SIGNED_TYPES and base != "YEAR":
        is_unsigned = "UNSIGNED" in column.type_name or "ZEROFILL" in column.type_name
        if metadata.unsigned[index] != is_unsigned:
            return f"is {column.type_name}; the binary log has {'an unsigned' if not is_unsigned else 'a signed'} number"
    values = metadata.enum_values.get(index) or metadata.set_values.get(index)
    if values is not None and len(values) != len(column.enum_values):
        return f"has {len(column.enum_values)} values; the binary log has {len(values)}"
    return None


_SIGNED_TYPES: Final = frozenset(
    {jdbc.TINYINT, jdbc.SMALLINT, jdbc.INTEGER, jdbc.BIGINT, jdbc.DECIMAL, jdbc.NUMERIC, jdbc.FLOAT, jdbc.DOUBLE, jdbc.REAL}
)


def table_from_map(
    table_map: TableMap, charset_of: Callable[[int], str | None], decode: Callable[[bytes, str], str]
) -> MySqlTable:
    """Returns the table that a TABLE_MAP with binlog_row_metadata=FULL describes.

    It lacks what the log does not have: defaults, comments, the lengths that declarations give to numbers, and unique indexes
    besides the primary key. Lengths of characters are in bytes. ``charset_of`` returns the character set of a collation's number,
    ``decode`` the text of bytes in a character set. Raises DataError if the metadata is not FULL, or a collation is unknown.
    """
    metadata = table_map.metadata
    if metadata.names is None:
        raise DataError(f"TABLE_MAP of {table_map} has no column names; the server needs binlog_row_metadata=FULL")
    columns = tuple(_column_from(table_map, i, charset_of, decode) for i in range(table_map.column_count))
    key = tuple(metadata.names[index] for index, _ in metadata.primary_key or ())
    indexes = (Index(PRIMARY, True, key),) if key else ()
    return MySqlTable(table_map.schema, table_map.table, columns, find_key(indexes, columns), None, indexes=indexes)


def _column_from(
    table_map: TableMap, index: int, charset_of: Callable[[int], str | None], decode: Callable[[bytes, str], str]
) -> Column:
    on_wire, metadata = table_map.columns[index], table_map.metadata
    assert metadata.names is not None
    collation = metadata.collations.get(index)
    charset = None if collation is None else charset_of(collation)
    if collation is not None and charset is None:
        raise DataError(f"column {table_map.column_label(index)} of {table_map} has collation {collation}, which is unknown")
    is_binary = collation in (None, _BINARY_COLLATION)
    name, jdbc_type, length, scale = _declared(on_wire, is_binary=is_binary)
    values: Sequence[bytes] = ()
    if on_wire.type_code in (wire.ENUM, wire.SET):
        values = metadata.enum_values.get(index) or metadata.set_values.get(index) or ()
        length = 1 if on_wire.type_code == wire.ENUM else max(0, 2 * len(values) - 1)
    elif on_wire.type_code == wire.GEOMETRY:
        name = _GEOMETRY_NAMES.get(metadata.geometry_types.get(index, 0), "GEOMETRY")
    elif on_wire.type_code == wire.VECTOR:
        length = metadata.vector_dimensions.get(index)
    if metadata.unsigned is not None and metadata.unsigned[index] and name != "YEAR":
        name += " UNSIGNED"
    optional = table_map.nullable[index]
    return Column(
        metadata.names[index],
        index + 1,
        name,
        name,
        jdbc_type,
        length,
        scale,
        charset if jdbc_type in jdbc.CHARACTER_TYPES else None,
        optional,
        has_default=optional,
        enum_values=tuple(decode(value, charset or "utf8mb4") for value in values),
    )


def _declared(column: WireColumn, *, is_binary: bool) -> tuple[str, int, int | None, int | None]:
    """Returns the name of a type, its number in java.sql.Types, its length, and its scale."""
    code = column.type_code
    if code in (wire.VARCHAR, wire.VAR_STRING, wire.VARCHAR_COMPRESSED):
        return ("VARBINARY", jdbc.VARBINARY, column.size, None) if is_binary else ("VARCHAR", jdbc.VARCHAR, column.size, None)
    if code == wire.STRING:
        return ("BINARY", jdbc.BINARY, column.size, None) if is_binary else ("CHAR", jdbc.CHAR, column.size, None)
    if code in _BLOBS:
        text, blob = _TEXTS.get(column.length_bytes, _TEXTS[4])
        return (blob, jdbc.BLOB, None, None) if is_binary else (text, jdbc.VARCHAR, None, None)
    name, jdbc_type = _NAMES[code]
    if code == wire.NEWDECIMAL:
        return name, jdbc_type, column.precision, column.scale
    if code == wire.BIT:
        return name, jdbc_type, column.bits, None
    if code in _TIMES | _DATETIMES | _TIMESTAMPS:
        return name, jdbc_type, column.scale or None, None
    return name, jdbc_type, None, None
