"""The meaning of a column's declared type: SQLite's affinity and the values that the reader expects.

The type names are those of the Java driver (xerial's sqlite-jdbc): it reports INTEGER as a signed int and all other integer
types as unsigned, so INT is read as int64 and TINYINT as int16. Recordings of Confluent's connector pin this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Affinity(Enum):
    """https://www.sqlite.org/datatype3.html, section 3.1"""

    INTEGER = "INTEGER"
    TEXT = "TEXT"
    BLOB = "BLOB"
    REAL = "REAL"
    NUMERIC = "NUMERIC"


class SqliteValueKind(Enum):
    """The type as which values of a column are read."""

    INTEGER = "whole numbers"
    BOOLEAN = "0 or 1"
    FLOAT = "numbers"
    DECIMAL = "decimal numbers"
    NUMERIC = "decimal numbers as numeric.mapping says"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "dates"
    TIMESTAMP = "timestamps"
    ANY = "anything"
    """The declared type is ambiguous; the values decide."""


@dataclass(frozen=True, slots=True)
class SqliteColumnType:
    """The parsed declared type of a column."""

    affinity: Affinity
    expected: SqliteValueKind
    bits: int = 64
    """Bits of the narrowest integer type; larger values change it to 64."""
    precision: int | None = None
    scale: int | None = None

    @property
    def is_temporal(self) -> bool:
        return self.expected in (SqliteValueKind.DATE, SqliteValueKind.TIMESTAMP)


_FORM = re.compile(r"\s*([^()]*?)\s*(?:\(\s*([+-]?\d+)\s*(?:,\s*([+-]?\d+)\s*)?\)\s*(.*))?\s*", re.DOTALL)

_BY_NAME: dict[str, tuple[SqliteValueKind, int]] = {
    "INTEGER": (SqliteValueKind.INTEGER, 32),
    "SMALLINT": (SqliteValueKind.INTEGER, 32),
    "INT2": (SqliteValueKind.INTEGER, 32),
    "TINYINT": (SqliteValueKind.INTEGER, 16),
    "BOOLEAN": (SqliteValueKind.BOOLEAN, 64),
    "DATE": (SqliteValueKind.DATE, 64),
    "DATETIME": (SqliteValueKind.TIMESTAMP, 64),
    "TIMESTAMP": (SqliteValueKind.TIMESTAMP, 64),
    "TIMESTAMPTZ": (SqliteValueKind.TIMESTAMP, 64),
    "TIMESTAMP WITH TIME ZONE": (SqliteValueKind.TIMESTAMP, 64),
    "TIMESTAMP WITHOUT TIME ZONE": (SqliteValueKind.TIMESTAMP, 64),
    "STRING": (SqliteValueKind.TEXT, 64),
    "JSON": (SqliteValueKind.TEXT, 64),
    "UUID": (SqliteValueKind.TEXT, 64),
    "XML": (SqliteValueKind.TEXT, 64),
    "BINARY": (SqliteValueKind.BYTES, 64),
    "VARBINARY": (SqliteValueKind.BYTES, 64),
}
_DECIMALS = {
    "DECIMAL": SqliteValueKind.DECIMAL,
    "DEC": SqliteValueKind.DECIMAL,
    "NUMERIC": SqliteValueKind.NUMERIC,
    "NUMBER": SqliteValueKind.NUMERIC,
}
_NARROW_WITHOUT_SCALE = ("NUMERIC", "")
"""Types whose integers the Java driver reports as signed."""


@lru_cache(maxsize=1024)
def parse_declared_type(type_name: str) -> SqliteColumnType:
    """Parses a declared type; "" is a column without one."""
    upper = type_name.upper()
    match = _FORM.fullmatch(upper)
    name, first, second, rest = match.groups() if match is not None else (upper, None, None, None)
    name = " ".join(f"{name} {rest or ''}".split())
    affinity = _affinity(upper)
    if name in _DECIMALS and first is not None:
        return SqliteColumnType(affinity, _DECIMALS[name], precision=int(first), scale=int(second or 0))
    if name in _BY_NAME:
        expected, bits = _BY_NAME[name]
        return SqliteColumnType(affinity, expected, bits)
    match affinity:
        case Affinity.INTEGER:
            return SqliteColumnType(affinity, SqliteValueKind.INTEGER)
        case Affinity.TEXT:
            return SqliteColumnType(affinity, SqliteValueKind.TEXT)
        case Affinity.REAL:
            return SqliteColumnType(affinity, SqliteValueKind.FLOAT)
        case Affinity.BLOB if name:
            return SqliteColumnType(affinity, SqliteValueKind.BYTES)
    return SqliteColumnType(affinity, SqliteValueKind.ANY, 32 if name in _NARROW_WITHOUT_SCALE else 64)


def _affinity(upper: str) -> Affinity:
    if "INT" in upper:
        return Affinity.INTEGER
    if "CHAR" in upper or "CLOB" in upper or "TEXT" in upper:
        return Affinity.TEXT
    if "BLOB" in upper or not upper.strip():
        return Affinity.BLOB
    if "REAL" in upper or "FLOA" in upper or "DOUB" in upper:
        return Affinity.REAL
    return Affinity.NUMERIC
