"""Positions in the key order of a table: in SQL, and the values that Debezium stores in offsets."""

from __future__ import annotations

import binascii
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from connect.errors import DataError
from connect.java.serialization import JavaType
from connectors.cdc.incremental import keyset
from connectors.cdc.incremental.java_keys import JavaKeys, Position
from connectors.cdc.incremental.keyset import BoundColumn
from connectors.postgres.connection import quote_identifier, quote_value

_INTEGER: tuple[JavaType, Callable[[str], Any]] = (JavaType.INTEGER, int)
_STRING: tuple[JavaType, Callable[[str], Any]] = (JavaType.STRING, str)
_JAVA_VALUES: dict[str, tuple[JavaType, Callable[[str], Any]]] = {
    "int2": _INTEGER,
    "int4": _INTEGER,
    "int8": (JavaType.LONG, int),
    "bool": (JavaType.BOOLEAN, lambda text: text == "t"),
    "float4": (JavaType.FLOAT, float),
    "float8": (JavaType.DOUBLE, float),
    "numeric": (JavaType.DECIMAL, Decimal),
    "uuid": (JavaType.UUID, uuid.UUID),
    "bytea": (JavaType.BYTES, lambda text: binascii.unhexlify(text[2:])),
    "text": _STRING,
    "varchar": _STRING,
    "bpchar": _STRING,
}
"""What PostgreSQL's JDBC driver returns for a type, by its name in pg_type."""


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "t" if value else "f"
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f"\\x{value.hex()}"
        case int() | float() | str() | uuid.UUID():
            return str(value)
    raise DataError(f"{type(value).__name__} is no value of a key")


JAVA_KEYS = JavaKeys(_JAVA_VALUES, _text)


# --- SQL ------------------------------------------------------------------------------------------------------------------------


def order_by(columns: Sequence[str], *, descending: bool = False) -> str:
    """The order of rows. Nulls come last, as by default."""
    return keyset.order_by([quote_identifier(column) for column in columns], descending=descending)


def after(columns: Mapping[str, bool], position: Position) -> str:
    """The condition for rows behind a position. ``columns`` says which columns may be null."""
    if not any(columns.values()):
        return _compare_rows(columns, ">", position)
    return keyset.rows_behind(
        [
            BoundColumn(quote_identifier(name), None if text is None else quote_value(text), is_nullable)
            for (name, is_nullable), text in zip(columns.items(), position, strict=True)
        ],
        nulls_first=False,
    )


def up_to(columns: Mapping[str, bool], position: Position) -> str:
    """The condition for rows at or before a position."""
    if not any(columns.values()):
        return _compare_rows(columns, "<=", position)
    return f"NOT {after(columns, position)}"


def _compare_rows(columns: Iterable[str], operator: str, position: Position) -> str:
    """A comparison of rows can use an index on all columns of the key."""
    names, values = ", ".join(map(quote_identifier, columns)), ", ".join(quote_value(text or "") for text in position)
    return f"({names}) {operator} ({values})" if len(position) > 1 else f"{names} {operator} {values}"
