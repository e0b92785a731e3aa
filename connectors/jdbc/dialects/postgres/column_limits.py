"""What PostgreSQL keeps of a value that is finer, or longer, than its column: it rounds numbers and times, and cuts blanks."""

from __future__ import annotations

from connectors.jdbc.dialects.lossless import Keeps
from connectors.jdbc.dialects.postgres.catalog import PgType

_HEADER = 4
"""Lengths and precisions are counted from here in a modifier."""
_FINEST = 6
_NAME_BYTES = 63
_FULL_PRECISION = 0xFFFF


def keeps_of(type: PgType, typmod: int) -> Keeps | None:
    """``typmod`` is -1 where the type has no length or precision."""
    if type.element is not None:
        inner = keeps_of(type.element, typmod)
        return Keeps(element=inner) if inner is not None else None
    digits = typmod if 0 <= typmod <= _FINEST else _FINEST
    match type.builtin:
        case "numeric" if typmod >= _HEADER:
            return Keeps(scale=(((typmod - _HEADER) & 0x7FF) ^ 1024) - 1024)
        case "money":
            return Keeps(scale=2)
        case "float4":
            return Keeps(float_bits=32)
        case "float8":
            return Keeps(float_bits=64)
        case "date":
            return Keeps(drops_time=True)
        case "time":
            return Keeps(digits=digits, drops_date=True, drops_zone=True)
        case "timetz":
            return Keeps(digits=digits, drops_date=True)
        case "timestamp" | "timestamptz":
            return Keeps(digits=digits)
        case "interval":
            precision = typmod & _FULL_PRECISION
            return Keeps(digits=precision if typmod >= 0 and precision <= _FINEST else _FINEST)
        case "bpchar" if typmod >= _HEADER:
            return Keeps(most_chars=typmod - _HEADER, padded_to=typmod - _HEADER)
        case "varchar" if typmod >= _HEADER:
            return Keeps(most_chars=typmod - _HEADER)
        case "name":
            return Keeps(most_bytes=_NAME_BYTES)
        case "char":
            return Keeps(most_bytes=1)
    return None
