"""Finds the mapping of a column."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from connect.data.schema import Schema
from connectors.mysql.schema.model import Column
from connectors.mysql.schema.type_names import without_synonym
from connectors.mysql.types import binary, numbers, temporal, texts
from connectors.mysql.types.column_type import MySqlColumnType
from connectors.mysql.types.config import MySqlTypeSettings
from connectors.mysql.types.defaults import parse_default

_ATTRIBUTES = frozenset({"SIGNED", "UNSIGNED", "ZEROFILL", "COMPRESSED"})
_SINGLE_PRECISION_DIGITS = 24
_INTEGERS = {
    "TINYINT": (Schema.INT8, Schema.INT16), "SMALLINT": (Schema.INT16, Schema.INT32), "MEDIUMINT": (Schema.INT32, Schema.INT32),
    "INT": (Schema.INT32, Schema.INT64), "BIGINT": (Schema.INT64, Schema.INT64),
}  # fmt: skip
"""Schemas of signed and unsigned numbers."""
_SHAPES = frozenset(
    {"GEOMETRY", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION", "GEOMCOLLECTION"}
)
_TEXTS = frozenset({"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"})
_CHOICES = frozenset({"ENUM", "SET"})
_NATIONAL_CHARSET = "utf8mb3"


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type without its synonyms. ``national``: its character set is UTF-8."""

    name: str
    unsigned: bool = False
    zerofill: bool = False
    national: bool = False


def sql_type(column: Column) -> SqlType:
    """Returns the type of a column, from its name in capitals with attributes."""
    words = re.sub(r"\([^)]*\)", " ", column.type_name.upper()).split()
    attributes = {word for word in words if word in _ATTRIBUTES}
    words = [word for word in words if word not in _ATTRIBUTES]
    if len(words) > 1 and words[-1] == "BINARY":  # a collation
        words.pop()
    name = without_synonym(" ".join(words))
    national = name.startswith("NATIONAL ")
    zerofill = "ZEROFILL" in attributes  # MySQL makes such a column unsigned
    return SqlType(name.removeprefix("NATIONAL ").rpartition(".")[2], "UNSIGNED" in attributes or zerofill, zerofill, national)


def column_type(column: Column, settings: MySqlTypeSettings, charset: str | None = None) -> MySqlColumnType | None:
    """Returns the mapping of a column, with the schema of its field: optional, with its default and its comment.

    ``charset`` is that of the table, for texts without one of their own. Returns None for a type that is not supported; Debezium
    leaves such columns out. Raises DataError for a character set that cannot be decoded.
    """
    mapped = _mapping(column, sql_type(column), settings, charset)
    if mapped is None:
        return None
    schema = mapped.schema
    changes: dict[str, object] = {}
    if column.optional:
        changes["optional"] = True
    if settings.includes_comments and column.comment is not None:
        changes["doc"] = column.comment
    if (default := parse_default(column, sql_type(column).name, mapped)) is not None:
        changes["default"] = default
    return mapped.under(schema.replace(**changes)) if changes else mapped


def text_charset(column: Column, charset: str | None) -> str | None:
    """Returns the character set of a column of texts in a table with that character set; None for other types."""
    type_ = sql_type(column)
    if type_.name not in _TEXTS and type_.name not in _CHOICES:
        return None
    return _NATIONAL_CHARSET if type_.national else column.charset or charset


def _mapping(column: Column, type_: SqlType, settings: MySqlTypeSettings, charset: str | None) -> MySqlColumnType | None:
    name = column.name
    if type_.name in _INTEGERS:
        if type_.name == "BIGINT" and type_.unsigned:
            return numbers.unsigned_bigint(name, settings)
        return numbers.integer(name, _INTEGERS[type_.name][type_.unsigned], unsigned=type_.unsigned, zerofill=type_.zerofill)
    if type_.name in _TEXTS:
        return texts.text(name, text_charset(column, charset), settings)
    if type_.name in _SHAPES:
        return binary.geometry(name)
    if type_.name in _TEMPORAL:
        return _TEMPORAL[type_.name](temporal.TemporalColumn(name, column.length, settings))
    maker = _OTHERS.get(type_.name)
    return None if maker is None else maker(column, type_, settings)


_TEMPORAL: dict[str, Callable[[temporal.TemporalColumn], MySqlColumnType]] = {
    "DATE": temporal.date, "DATETIME": temporal.datetime, "TIMESTAMP": temporal.timestamp, "TIME": temporal.time
}  # fmt: skip


def _float(column: Column, type_: SqlType, settings: MySqlTypeSettings) -> MySqlColumnType:
    is_single = column.scale is None and (column.length or 0) <= _SINGLE_PRECISION_DIGITS
    return numbers.floating(column.name, Schema.FLOAT32 if is_single else Schema.FLOAT64)


def _decimal(column: Column, type_: SqlType, settings: MySqlTypeSettings) -> MySqlColumnType:
    precision = 10 if column.length is None else column.length
    return numbers.exact_decimal(column.name, precision, column.scale or 0, settings, zerofill=type_.zerofill)


def _binary(column: Column, type_: SqlType, settings: MySqlTypeSettings) -> MySqlColumnType:
    return binary.binary(column.name, (column.length or 1) if type_.name == "BINARY" else None, settings)


def _plain(factory: Callable[[str], MySqlColumnType]) -> Callable[[Column, SqlType, MySqlTypeSettings], MySqlColumnType]:
    return lambda column, type_, settings: factory(column.name)


_OTHERS: dict[str, Callable[[Column, SqlType, MySqlTypeSettings], MySqlColumnType]] = {
    "BOOLEAN": _plain(numbers.boolean),
    "BIT": lambda column, type_, settings: numbers.bits(column.name, column.length or 1),
    "YEAR": _plain(numbers.year),
    "FLOAT": _float,
    "DOUBLE": lambda column, type_, settings: numbers.floating(column.name, Schema.FLOAT64),
    "DECIMAL": _decimal,
    **dict.fromkeys(("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), _binary),
    "ENUM": lambda column, type_, settings: texts.enumeration(column.name, column.enum_values),
    "SET": lambda column, type_, settings: texts.enumeration_set(column.name, column.enum_values),
    "JSON": lambda column, type_, settings: texts.json(column.name, settings),
    "UUID": _plain(texts.uuid),
    "INET4": _plain(partial(texts.inet, version=4)),
    "INET6": _plain(partial(texts.inet, version=6)),
    "POINT": _plain(binary.point),
    "VECTOR": _plain(binary.vector),
}
