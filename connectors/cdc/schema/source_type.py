"""Name, length, and scale of a column's type as the database's JDBC driver reports them: Debezium shows them to consumers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceType:
    """``is_text``: the driver's type is a character type. ``length`` and ``scale`` are None if the type has none."""

    name: str
    length: int | None
    scale: int | None
    is_text: bool
    comment: str | None = None
