"""What DuckDB's casts keep of a value finer than its column. Decimals and times that it would round are refused anyhow."""

from __future__ import annotations

from typing import Any

from connectors.jdbc.dialects.duckdb.arrow_staging import INTEGER_TARGETS
from connectors.jdbc.dialects.lossless import Keeps

_TIMES = ("time", "time with time zone")
_DIGITS = {"timestamp_s": 0, "timestamp_ms": 3, "timestamp_ns": 9}


def keeps_of(type: Any) -> Keeps | None:
    """Of a description of the driver's type."""
    if type.id in INTEGER_TARGETS:
        return Keeps(scale=0)
    if type.id in _TIMES:
        return Keeps(digits=6, drops_zone=type.id == "time")
    if type.id.startswith("timestamp"):
        return Keeps(digits=_DIGITS.get(type.id, 6))
    match type.id:
        case "decimal":
            return Keeps(scale=dict(type.children)["scale"])
        case "float":
            return Keeps(float_bits=32)
        case "double":
            return Keeps(float_bits=64)
        case "date":
            return Keeps(drops_time=True)
        case "list" | "array":
            return _parts(element=dict(type.children)["child"])
        case "map":
            return _parts(element=dict(type.children)["value"])
        case "struct":
            members = [(name, keeps_of(part)) for name, part in type.children]
            return Keeps(members=tuple((name, keeps) for name, keeps in members if keeps is not None))
    return None


def _parts(element: Any) -> Keeps | None:
    keeps = keeps_of(element)
    return Keeps(element=keeps) if keeps is not None else None
