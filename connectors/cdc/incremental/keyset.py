"""SQL conditions for the rows behind a position in the order of some columns.

Each column is compared on its own, so that any of them may be null, and a database needs no comparison of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """A column and its value in a position, both as SQL; ``value`` is None for null."""

    name: str
    value: str | None
    is_nullable: bool = False


def rows_behind(columns: Sequence[BoundColumn], *, nulls_first: bool) -> str:
    """Returns the condition for rows behind a position. It is never null, so it can be negated."""
    terms: list[str] = []
    same: list[str] = []
    for column in columns:
        behind = _behind_nulls_first(column) if nulls_first else _behind_nulls_last(column)
        if behind is not None:
            terms.append(" AND ".join([*same, f"({behind})"]))
        if column.value is None:
            same.append(f"{column.name} IS NULL")
        elif nulls_first and column.is_nullable:
            same.append(f"{column.name} IS NOT NULL AND {column.name} = {column.value}")
        else:
            same.append(f"{column.name} = {column.value}")
    return "(" + " OR ".join(f"({term})" for term in terms) + ")" if terms else "false"


def _behind_nulls_last(column: BoundColumn) -> str | None:
    if column.value is None:
        return None  # nothing is behind a null
    null = f" OR {column.name} IS NULL" if column.is_nullable else ""
    return f"{column.name} > {column.value}{null}"


def _behind_nulls_first(column: BoundColumn) -> str:
    if column.value is None:
        return f"{column.name} IS NOT NULL"
    not_null = f"{column.name} IS NOT NULL AND " if column.is_nullable else ""
    return f"{not_null}{column.name} > {column.value}"


def order_by(names: Sequence[str], *, descending: bool = False) -> str:
    """Returns the order of rows by columns, which are SQL. Nulls are where the database puts them by default."""
    suffix = " DESC" if descending else ""
    return ", ".join(name + suffix for name in names)
