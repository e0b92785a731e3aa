"""Texts in the column's character set, ENUM, SET, JSON, and what prints as text: UUID, INET4, INET6."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.cdc.schema.column_type import Inline
from connectors.mysql.binlog import ColumnReader
from connectors.mysql.types.charsets import UTF8, MySqlCharset, find_charset
from connectors.mysql.types.column_type import MySqlColumnType, refuse_value
from connectors.mysql.types.config import MySqlTypeSettings
from connectors.mysql.types.numbers import mapping

_KNOWN_SETS: Final = 512
"""How many values of a SET column are kept as texts."""


def text(column: str, charset: str | None, settings: MySqlTypeSettings) -> MySqlColumnType:
    """CHAR, VARCHAR, or TEXT. Raises DataError for a character set that Python does not have. None is UTF-8, as in Debezium."""
    codec = _charset(column, charset)
    placeholder = settings.placeholder
    if codec.name in UTF8:
        reader = ColumnReader(inline=codec.inline)
        return mapping(column, Schema.STRING, str, "", reader=reader, inline=Inline.TEXT, placeholder=placeholder)

    def decode(data: bytes) -> str:
        try:
            return codec.decode(data)
        except UnicodeDecodeError as e:
            raise refuse_value(column, data, f"text in {codec.name}: {e.reason} at byte {e.start}") from e

    # The server would replace what it cannot convert by question marks. Promise 8: bytes are converted here, or refused.
    select = "{name}" if codec.name == "binary" else "CAST({name} AS BINARY)"
    reader = ColumnReader(convert=decode, inline=codec.inline)
    return mapping(column, Schema.STRING, decode, "", reader=reader, placeholder=placeholder, select=select, is_bytes=True)


def _charset(column: str, name: str | None) -> MySqlCharset:
    try:
        return find_charset(name or "utf8mb4")
    except DataError as e:
        message = f"column {column}: {e.message}. Convert the column to utf8mb4, or exclude it with column.exclude.list"
        raise DataError(message) from e


def allowed_values(values: tuple[str, ...]) -> dict[str, str]:
    """The schema parameter with the values of an ENUM or SET: separated by commas, with backslashes before commas inside."""
    return {"allowed": ",".join(value.replace("\\", "\\\\").replace(",", "\\,") for value in values)}


class _EnumTexts(dict[int, str]):
    """Texts by number; 0 is the text of an invalid value."""

    def __init__(self, column: str, values: tuple[str, ...]) -> None:
        super().__init__(enumerate(("", *values)))
        self._column = column

    def __missing__(self, number: int) -> str:
        raise refuse_value(self._column, str(number), f"number of a value of its ENUM, which has {len(self) - 1}")


class _SetTexts(dict[int, str]):
    """Texts by bits, as they are found."""

    def __init__(self, column: str, values: tuple[str, ...]) -> None:
        super().__init__()
        self._column, self._values = column, values

    def __missing__(self, bits: int) -> str:
        values = self._values
        if bits >> len(values):
            raise refuse_value(self._column, str(bits), f"set of bits of its SET, which has {len(values)} values")
        if len(self) >= _KNOWN_SETS:
            self.clear()
        self[bits] = found = ",".join(value for i, value in enumerate(values) if bits >> i & 1)
        return found


def enumeration(column: str, values: tuple[str, ...]) -> MySqlColumnType:
    """ENUM as its text."""
    schema = Schema(Type.STRING, name="io.debezium.data.Enum", version=1, parameters=allowed_values(values))
    reader = ColumnReader(convert=_EnumTexts(column, values).__getitem__)
    return mapping(column, schema, str, "", reader=reader, inline=Inline.TEXT)


def enumeration_set(column: str, values: tuple[str, ...]) -> MySqlColumnType:
    """SET as its texts, separated by commas."""
    schema = Schema(Type.STRING, name="io.debezium.data.EnumSet", version=1, parameters=allowed_values(values))
    reader = ColumnReader(convert=_SetTexts(column, values).__getitem__)
    return mapping(column, schema, str, "", reader=reader, inline=Inline.TEXT)


def json(column: str, settings: MySqlTypeSettings) -> MySqlColumnType:
    """JSON: the server's text. The log of MySQL has it decoded, or only its changes; that of MariaDB has UTF-8."""
    placeholder = settings.placeholder

    def convert(value: Any) -> str:
        return value.decode() if isinstance(value, bytes) else placeholder

    schema = Schema(Type.STRING, name="io.debezium.data.Json", version=1)
    reader = ColumnReader(convert=convert, inline="{x} if {x}.__class__ is str else {c}({x})")
    return mapping(column, schema, str, "{}", reader=reader, inline=Inline.TEXT, placeholder=placeholder)


# The log has these without zeros at the end.


def _uuid_text(data: bytes) -> str:
    digits = data.ljust(16, b"\0").hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _inet4_text(data: bytes) -> str:
    return ".".join(map(str, data.ljust(4, b"\0")))


def _inet6_text(data: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6, data.ljust(16, b"\0"))


def uuid(column: str) -> MySqlColumnType:
    """UUID of MariaDB."""
    return _printed(column, Schema(Type.STRING, name="io.debezium.data.Uuid", version=1), _uuid_text)


def inet(column: str, version: int) -> MySqlColumnType:
    """INET4 or INET6 of MariaDB."""
    return _printed(column, Schema.STRING, _inet4_text if version == 4 else _inet6_text)


def _printed(column: str, schema: Schema, convert: Callable[[bytes], str]) -> MySqlColumnType:
    return mapping(column, schema, str, "", reader=ColumnReader(convert=convert), inline=Inline.TEXT)
