"""What PostgreSQL silently changes: it rounds numbers and times to the column's precision and truncates blanks."""

from __future__ import annotations

from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.postgres.catalog import PostgresType

_HEADER = 4
"""The offset of lengths and precisions in a type modifier."""
_FINEST = 6
_NAME_BYTES = 63
_FULL_PRECISION = 0xFFFF


def column_limits(type: PostgresType, typmod: int) -> ColumnLimits | None:
    """Returns the limits of a type. ``typmod`` is -1 if it has no length or precision."""
    if type.element is not None:
        inner = column_limits(type.element, typmod)
        return ColumnLimits(element=inner) if inner is not None else None
    digits = typmod if 0 <= typmod <= _FINEST else _FINEST
    match type.builtin:
        case "numeric" if typmod >= _HEADER:
            return ColumnLimits(scale=(((typmod - _HEADER) & 0x7FF) ^ 1024) - 1024)
        case "money":
            return ColumnLimits(scale=2)
        case "float4":
            return ColumnLimits(float_bits=32)
        case "float8":
            return ColumnLimits(float_bits=64)
        case "date":
            return ColumnLimits(drops_time=True)
        case "time":
            return ColumnLimits(digits=digits, drops_date=True, drops_zone=True)
        case "timetz":
            return ColumnLimits(digits=digits, drops_date=True)
        case "timestamp" | "timestamptz":
            return ColumnLimits(digits=digits)
        case "interval":
            precision = typmod & _FULL_PRECISION
            return ColumnLimits(digits=precision if typmod >= 0 and precision <= _FINEST else _FINEST)
        case "bpchar" if typmod >= _HEADER:
            return ColumnLimits(max_chars=typmod - _HEADER, padded_to=typmod - _HEADER)
        case "varchar" if typmod >= _HEADER:
            return ColumnLimits(max_chars=typmod - _HEADER)
        case "name":
            return ColumnLimits(max_bytes=_NAME_BYTES)
        case "char":
            return ColumnLimits(max_bytes=1)
    return None
