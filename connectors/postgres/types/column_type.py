"""What a column's type means for its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.data.schema import Schema
from connect.errors import DataError

Decoder = Callable[[str], Any]


class Inline(Enum):
    """Conversions that the generated row decoders write out instead of calling a function."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TEXT = "text"
    DECIMAL = "decimal"
    ZONED = "zoned"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """``schema`` is the required form. ``decode`` takes the server's text and raises DataError for what the schema cannot hold.

    ``zero`` stands where a required column has no value (the old row of a delete, a default that is a function).
    ``placeholder`` stands for an unchanged TOASTed value; None for types that are never TOASTed.
    """

    schema: Schema
    decode: Decoder
    zero: Any
    placeholder: Any = None
    inline: Inline = Inline.CALL
    rebuild: Callable[[Schema], ColumnType] | None = None
    """For struct types: the same mapping whose values carry that schema, for a struct must have the very schema of its field."""

    def under(self, schema: Schema) -> ColumnType:
        """This mapping for a field of that schema (optional, with a default)."""
        return self if self.rebuild is None else self.rebuild(schema)


def refuse(text: str, what: str) -> DataError:
    """The error for a value that its schema cannot hold."""
    shown = text if len(text) <= 60 else text[:57] + "..."
    return DataError(f"{shown} is no {what}")
