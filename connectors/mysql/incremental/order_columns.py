"""The columns that order the rows of a table: their values as texts, and these texts as SQL.

Conditions compare by the column's own collation: a literal adopts it. ENUM and SET are ordered by their numbers, but compared
with a text by their texts, so their literals are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connect.errors import DataError
from connectors.cdc.incremental import keyset
from connectors.cdc.incremental.java_keys import Position
from connectors.cdc.incremental.keyset import BoundColumn
from connectors.mysql.connection import quote_identifier, quote_value
from connectors.mysql.schema.model import Column, MySqlTable
from connectors.mysql.types import MySqlTypeSettings, column_type, key_type_name
from connectors.mysql.types.registry import sql_type

_EXACT: Final = MySqlTypeSettings()
_BINARY: Final = frozenset({"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})
_TEXTS: Final = frozenset({"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"})
_INTEGERS: Final = frozenset({"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR", "BOOLEAN"})
_QUOTED: Final = _TEXTS | {"DATE", "DATETIME", "TIMESTAMP", "TIME", "UUID", "INET4", "INET6"}
_FLOATS: Final = frozenset({"FLOAT", "DOUBLE"})


@dataclass(frozen=True, slots=True)
class KeysetColumn:
    """A column that orders rows. ``select`` is the SQL of its value, which ``to_text`` converts to the text of a position;
    ``literal`` converts that to SQL, and raises DataError if the column cannot have it."""

    name: str
    type_name: str
    is_nullable: bool
    select: str
    to_text: Callable[[bytes], str]
    literal: Callable[[str], str]

    @property
    def sql_name(self) -> str:
        return quote_identifier(self.name)


def keyset_column(table: MySqlTable, column: Column) -> KeysetColumn:
    """Returns how a column orders rows. Raises DataError for a type without an order, and a character set that is unknown."""
    name, quoted = sql_type(column).name, quote_identifier(column.name)
    select = quoted
    to_text: Callable[[bytes], str] = _decode_utf8
    literal: Callable[[str], str] = quote_value
    if name in _TEXTS:
        mapped = column_type(column, _EXACT, table.charset)
        assert mapped is not None
        if mapped.is_bytes:
            select, to_text = mapped.select.format(name=quoted), mapped.text.decode
    elif name in _BINARY:
        to_text, literal = bytes.hex, _binary_literal
    elif name == "BIT":
        to_text, literal = _bit_text, _integer_literal
    elif name in _INTEGERS:
        literal = _integer_literal
    elif name in _FLOATS:
        select, literal = f"{quoted} * 1e0", _float_literal
    elif name == "DECIMAL":
        literal = _decimal_literal
    elif name in ("ENUM", "SET"):
        literal = _enum_literal(column) if name == "ENUM" else _set_literal(column)
    elif name not in _QUOTED:
        raise DataError(f"column {column.name} of type {column.type_name} does not order rows")
    return KeysetColumn(column.name, key_type_name(column), column.optional, select, to_text, literal)


def rows_after(columns: Sequence[KeysetColumn], position: Position) -> str:
    """The condition for rows behind a position. Raises DataError if the columns cannot have it."""
    return keyset.rows_behind(_bounds(columns, position), nulls_first=True)


def rows_up_to(columns: Sequence[KeysetColumn], position: Position) -> str:
    """The condition for rows at or before a position. Raises DataError if the columns cannot have it."""
    return f"NOT {rows_after(columns, position)}"


def _bounds(columns: Sequence[KeysetColumn], position: Position) -> list[BoundColumn]:
    return [
        BoundColumn(column.sql_name, None if text is None else column.literal(text), column.is_nullable)
        for column, text in zip(columns, position, strict=True)
    ]


def _decode_utf8(data: bytes) -> str:
    return data.decode()


def _bit_text(data: bytes) -> str:
    return str(int.from_bytes(data))


def _integer_literal(text: str) -> str:
    return str(_checked(int, text))


def _decimal_literal(text: str) -> str:
    if not text.lstrip("-").replace(".", "", 1).isdecimal():
        raise DataError(f"{text} is no decimal number")
    return text


def _float_literal(text: str) -> str:
    # Without an exponent, it would be a decimal number.
    number = repr(_checked(float, text))
    return number if "e" in number else f"{number}e0"


def _binary_literal(text: str) -> str:
    return f"X'{_checked(bytes.fromhex, text).hex()}'"


def _checked(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as e:
        raise DataError(str(e)) from e


def _enum_literal(column: Column) -> Callable[[str], str]:
    def literal(text: str) -> str:
        if text == "" and text not in column.enum_values:
            return "0"
        if text not in column.enum_values:
            raise DataError(f"column {column.name} has no value {text}")
        return str(column.enum_values.index(text) + 1)

    return literal


def _set_literal(column: Column) -> Callable[[str], str]:
    def literal(text: str) -> str:
        parts = text.split(",") if text else []
        if unknown := [part for part in parts if part not in column.enum_values]:
            raise DataError(f"column {column.name} has no value {unknown[0]}")
        return str(sum(1 << column.enum_values.index(part) for part in parts))

    return literal
