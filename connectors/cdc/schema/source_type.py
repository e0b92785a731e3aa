"""Name, length, and scale of a column's type as the database's JDBC driver reports them: Debezium shows them to consumers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceType:
    """``is_text``: the driver's type is a character type. ``length`` is None for a vector without a dimension."""

    name: str
    length: int | None
    scale: int
    is_text: bool
