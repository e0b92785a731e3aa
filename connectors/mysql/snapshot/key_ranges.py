"""SQL of key ranges: columns of keys, literals of their values, and conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connectors.cdc.snapshot.key_ranges import Key, KeyRange
from connectors.mysql.connection import quote_identifier, quote_value
from connectors.mysql.schema.model import Column
from connectors.mysql.schema.table_rows import CapturedMySqlColumn
from connectors.mysql.types.registry import sql_type

_NUMBERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "DECIMAL", "BOOLEAN", "YEAR"}
)  # fmt: skip
_FLOATS: Final = frozenset({"FLOAT", "DOUBLE"})
_TEXTS: Final = frozenset({"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"})
_BYTES: Final = frozenset({"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})
_QUOTED: Final = frozenset({"DATE", "DATETIME", "TIMESTAMP", "TIME", "UUID", "INET4", "INET6"})
_UTF8: Final = "utf8mb4"


@dataclass(frozen=True, slots=True)
class MySqlKeyColumn:
    """A column of the key by which a table is read. ``index`` is its place among the columns that are read.

    A key has the server's text of a value, that of bytes in hexadecimal; ``literal`` returns it as SQL.
    """

    name: str
    index: int
    select: str
    """The SQL expression that is read."""
    is_bytes: bool
    literal: Callable[[str], str]

    def text(self, value: Any) -> str:
        """The text of a value that was read."""
        return value.hex() if isinstance(value, bytes) else str(value)


def key_column(column: Column, captured: CapturedMySqlColumn, index: int, charset: str | None) -> MySqlKeyColumn | None:
    """Returns the column as part of a key; None if its values cannot be compared. ``charset`` is that of the table."""
    literal = _literal(column, charset)
    if literal is None:
        return None
    select = captured.select.format(name=quote_identifier(column.name))
    return MySqlKeyColumn(column.name, index, select, captured.is_bytes, literal)


def _literal(column: Column, charset: str | None) -> Callable[[str], str] | None:
    type_ = sql_type(column)
    name = type_.name
    if name in _NUMBERS:
        return str
    if name in _FLOATS:
        return lambda text: text if "e" in text.lower() else f"{text}e0"
    if name in _QUOTED:
        return quote_value
    if name in _BYTES:
        return lambda text: f"X'{text}'"
    if name == "BIT":
        return lambda text: str(int(text, 16))
    if name in _TEXTS:
        return _text_literal("utf8mb3" if type_.national else column.charset or charset or _UTF8)
    if name == "ENUM":
        # The order of the column is that of the numbers.
        numbers = {value: str(number) for number, value in enumerate(("", *column.enum_values))}
        return lambda text: numbers.get(text, "0")
    if name == "SET":
        bits = {value: 1 << number for number, value in enumerate(column.enum_values)}
        return lambda text: str(sum(bits[value] for value in text.split(",") if value in bits))
    return None


def _text_literal(charset: str) -> Callable[[str], str]:
    """A literal in the character set of the column, whose collation then decides."""
    charset = charset.lower()
    if charset == "binary":
        return lambda text: f"X'{text}'"
    if charset in ("utf8", "utf8mb3", "utf8mb4"):
        return lambda text: f"_{charset} X'{text.encode().hex()}'"
    return lambda text: f"_{charset} X'{text}'"


def range_condition(key: Sequence[MySqlKeyColumn], bounds: KeyRange) -> list[str]:
    """SQL conditions for the rows of a range, in a form for which the server uses an index."""
    found = []
    if bounds.after is not None:
        found.append(_beyond(key, bounds.after, ">", ">"))
    if bounds.until is not None:
        found.append(_beyond(key, bounds.until, "<", "<="))
    return found


def _beyond(key: Sequence[MySqlKeyColumn], bound: Key, operator: str, last_operator: str) -> str:
    """``a > x OR (a = x AND b > y)``: MySQL finds no range of an index for ``(a, b) > (x, y)``."""
    parts = []
    equal: list[str] = []
    for number, (column, text) in enumerate(zip(key, bound, strict=True)):
        name, literal = quote_identifier(column.name), column.literal(text)
        is_last = number == len(key) - 1
        parts.append(" AND ".join([*equal, f"{name} {last_operator if is_last else operator} {literal}"]))
        equal.append(f"{name} = {literal}")
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(f"({part})" for part in parts) + ")"


def key_order(key: Sequence[MySqlKeyColumn]) -> str:
    """SQL columns to order by."""
    return ", ".join(quote_identifier(column.name) for column in key)
