"""What identifies a row, and what takes the record key out of it: functions, code, and cells of templates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from connect.generated_code import define_functions
from connect.text_records import Cell, TextKind
from connectors.cdc.schema.column_mapping import RowColumn, key_value

KeyOf = Callable[[Sequence[Any]], list[Any] | None]
"""Returns the key's values of a row's values; None for a table without a key."""


def identifying_columns(key: Sequence[str], captured: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns whose values tell which row a change replaces: the table's own ``key`` if all of it is captured, else
    all captured columns, which several rows may share. The record key does not count: several rows may have the same."""
    return tuple(key) if contains_key(key, captured) else tuple(captured)


def contains_key(key: Sequence[str], columns: Collection[str]) -> bool:
    """Whether some columns contain the table's own ``key``: no two rows have the same values of them. False without a key."""
    return bool(key) and set(key) <= set(columns)


def changes_nothing(before: Sequence[Any], after: Sequence[Any], key_of: KeyOf) -> bool:
    """Whether an update changes no captured value, nor the record key: a mask may hide that a value of it has changed."""
    return before == after and key_of(before) == key_of(after)


def key_code(columns: Sequence[RowColumn], index: int, name: str) -> str:
    """The code of the value for the record key of a column whose value is in the variable ``name``; it may use ``key_value``."""
    return f"key_value({name})" if columns[index].has_key_values else name


def key_getter(columns: Sequence[RowColumn], indexes: Sequence[int]) -> KeyOf:
    """Generates the function that returns the values of the key, which are those of the columns at ``indexes``."""
    if not indexes:
        return lambda values: None
    values = ", ".join(key_code(columns, i, f"v[{i}]") for i in indexes)
    code = f"def key_of(v): return [{values}]"
    getter: KeyOf = define_functions([code], {"key_value": key_value}, title="record key of a row")["key_of"]
    return getter


def key_cells(columns: Sequence[RowColumn], indexes: Sequence[int], cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells of the record key, of those of a row's ``columns``."""
    return tuple(Cell(cells[i].column, TextKind.OTHER, key_value) if columns[i].has_key_values else cells[i] for i in indexes)
