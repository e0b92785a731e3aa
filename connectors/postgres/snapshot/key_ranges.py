"""SQL of key ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.cdc.snapshot.key_ranges import KeyRange
from connectors.postgres.connection import quote_identifier, quote_value


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the key by which a table is read. ``type`` is SQL; ``index`` is its place among the columns that are read."""

    name: str
    type: str
    index: int


def range_condition(key: Sequence[KeyColumn], bounds: KeyRange) -> list[str]:
    """SQL conditions for the rows of a range. A comparison of rows can use an index on all columns of the key."""
    columns = ", ".join(quote_identifier(column.name) for column in key)
    return [
        f"({columns}) {operator} ({', '.join(map(_literal, bound, key))})"
        for operator, bound in ((">", bounds.after), ("<=", bounds.until))
        if bound is not None
    ]


def _literal(text: str, column: KeyColumn) -> str:
    return f"CAST({quote_value(text)} AS {column.type})"


def key_order(key: Sequence[KeyColumn]) -> str:
    """SQL columns to order by."""
    return ", ".join(quote_identifier(column.name) for column in key)
