"""The columns that order the rows of a table, and conditions for the rows behind a position in this order.

Conditions compare by the column's own collation. ENUM and SET are ordered by their numbers, which literals have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connectors.cdc.incremental import keyset
from connectors.cdc.incremental.java_keys import Position
from connectors.cdc.incremental.keyset import BoundColumn
from connectors.mysql.connection import quote_identifier
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.snapshot.key_ranges import MySqlKeyColumn, key_column
from connectors.mysql.types import key_type_name
from connectors.mysql.types.registry import sql_type

_BINARY = frozenset({"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})
_NO_JAVA_VALUE = "encoded "
"""Precedes the name of a type whose texts in positions are not those that Debezium stores."""


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """A column that orders rows. ``type_name`` says what its texts in positions are."""

    key: MySqlKeyColumn
    type_name: str
    is_nullable: bool

    @property
    def sql_name(self) -> str:
        return quote_identifier(self.key.name)

    @property
    def has_java_value(self) -> bool:
        """Whether Debezium's offsets have the same texts."""
        return not self.type_name.startswith(_NO_JAVA_VALUE)


def order_column(table: MySqlTableRows, name: str) -> OrderColumn | None:
    """Returns how a captured column orders rows; None if its type has no order, or it is not captured."""
    column = table.table.column(name)
    index = next((i for i, captured in enumerate(table.columns) if column is not None and captured.name == column.name), None)
    if column is None or index is None:
        return None
    key = key_column(column, table.columns[index], index, table.table.charset)
    if key is None:
        return None
    type_name = key_type_name(column)
    if key.is_bytes and sql_type(column).name not in _BINARY:
        type_name = _NO_JAVA_VALUE + type_name  # the bytes of a text, or of BIT
    return OrderColumn(key, type_name, column.optional)


def position_of(order: Sequence[OrderColumn], values: Sequence[Any]) -> Position:
    """Returns the position of a row from the texts, or bytes, of its columns."""
    return tuple(None if value is None else column.key.text(value) for column, value in zip(order, values, strict=True))


def rows_after(order: Sequence[OrderColumn], position: Position) -> str:
    """The condition for rows behind a position. Raises ValueError for a text that the column cannot have."""
    bounds = [
        BoundColumn(column.sql_name, None if text is None else column.key.literal(text), column.is_nullable)
        for column, text in zip(order, position, strict=True)
    ]
    return keyset.rows_behind(bounds, nulls_first=True)


def rows_up_to(order: Sequence[OrderColumn], position: Position) -> str:
    """The condition for rows at or before a position. Raises ValueError for a text that the column cannot have."""
    return f"NOT {rows_after(order, position)}"
