"""What DuckDB's casts round. Decimals and times that would be rounded are always rejected."""

from __future__ import annotations

from typing import Any

from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.duckdb.arrow_staging import INTEGER_TARGETS

_TIMES = ("time", "time with time zone")
_DIGITS = {"timestamp_s": 0, "timestamp_ms": 3, "timestamp_ns": 9}


def column_limits(type: Any) -> ColumnLimits | None:
    """Returns the limits of a type."""
    if type.id in INTEGER_TARGETS:
        return ColumnLimits(scale=0)
    if type.id in _TIMES:
        return ColumnLimits(digits=6, drops_zone=type.id == "time")
    if type.id.startswith("timestamp"):
        return ColumnLimits(digits=_DIGITS.get(type.id, 6))
    match type.id:
        case "decimal":
            return ColumnLimits(scale=dict(type.children)["scale"])
        case "float":
            return ColumnLimits(float_bits=32)
        case "double":
            return ColumnLimits(float_bits=64)
        case "date":
            return ColumnLimits(drops_time=True)
        case "list" | "array":
            return _parts(element=dict(type.children)["child"])
        case "map":
            return _parts(element=dict(type.children)["value"])
        case "struct":
            members = [(name, column_limits(part)) for name, part in type.children]
            return ColumnLimits(members=tuple((name, limits) for name, limits in members if limits is not None))
    return None


def _parts(element: Any) -> ColumnLimits | None:
    limits = column_limits(element)
    return ColumnLimits(element=limits) if limits is not None else None
