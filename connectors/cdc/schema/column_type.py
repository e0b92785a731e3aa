"""The mapping of a column's type to its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.data.schema import Schema
from connect.errors import DataError
from connect.text_records import TextKind

Decoder = Callable[[Any], Any]
"""Converts the server's text of a value; where a source says so, its bytes, or a value of its log."""

CONVERSION_ERRORS = (DataError, ValueError, TypeError, ArithmeticError, LookupError)
"""The errors that decoders of values raise."""


class Inline(Enum):
    """Conversions that generated row decoders inline instead of calling a function."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TEXT = "text"
    DECIMAL = "decimal"
    ZONED = "zoned"
    UTC_CLOCK = "clock in UTC"
    """``YYYY-MM-DD HH:MM:SS`` with any fraction becomes ISO-8601 text in UTC, unless it begins with 0."""
    CALL = "call"


TEXT_KINDS = {
    Inline.INT: TextKind.INTEGER,
    Inline.FLOAT: TextKind.FLOAT,
    Inline.BOOL: TextKind.BOOLEAN,
    Inline.TEXT: TextKind.STRING,
    Inline.DECIMAL: TextKind.DECIMAL,
    Inline.ZONED: TextKind.UTC_TIMESTAMP,
    Inline.UTC_CLOCK: TextKind.OTHER,
}
"""What the server's texts of these conversions are for a writer of texts."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """``schema`` is the schema of a required column. ``decode`` parses the server's text and raises DataError if it does not fit.

    ``zero`` is the value of a required column without a value (the old row of a delete, a default that is a function).
    ``placeholder`` marks an unavailable value; None for types that are never TOASTed.
    """

    schema: Schema
    decode: Decoder
    zero: Any
    placeholder: Any = None
    inline: Inline = Inline.CALL
    default_scale: int = 0
    """Fraction digits of a default that is a number as text."""
    call_kind: TextKind = TextKind.OTHER
    """What the server's text is for a writer of texts, with ``Inline.CALL``. ``decode`` decides it: a mapping with another one is
    OTHER."""
    rebuild: Callable[[Schema], ColumnType] | None = None
    """For struct types: returns the mapping with values of that schema, because a struct must have the schema of its field."""

    @property
    def text_kind(self) -> TextKind:
        """What the server's text is for a writer of texts."""
        return self.call_kind if self.inline is Inline.CALL else TEXT_KINDS[self.inline]

    def under(self, schema: Schema) -> ColumnType:
        """Returns this mapping for a field with that schema (optional, with a default)."""
        return self if self.rebuild is None else self.rebuild(schema)


def refuse(text: str, what: str) -> DataError:
    """The error for a value that does not fit its schema."""
    shown = text if len(text) <= 60 else text[:57] + "..."
    return DataError(f"{shown} is no {what}")
