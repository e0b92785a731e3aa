"""DuckDB's types as plain values, because table descriptions must not keep the driver's objects alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_NESTED = ("list", "struct", "map", "union", "array")


@dataclass(frozen=True, slots=True)
class DuckDbType:
    """A type: its kind, its parts by name (types, or numbers for lengths and digits), and its SQL text."""

    id: str
    children: tuple[tuple[str, Any], ...]
    text: str

    def __str__(self) -> str:
        return self.text


def describe_type(type_: Any) -> DuckDbType:
    """Copies the driver's description of a type."""
    kind = type_.id
    if kind in _NESTED:
        children = tuple((name, describe_type(part) if hasattr(part, "id") else part) for name, part in type_.children)
    elif kind == "decimal":
        children = tuple(type_.children)
    else:
        children = ()
    return DuckDbType(kind, children, str(type_))
