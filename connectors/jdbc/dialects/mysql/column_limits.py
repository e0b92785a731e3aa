"""What MySQL and MariaDB silently round or truncate, even in strict mode."""

from __future__ import annotations

from typing import Any, Final

from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.mysql.catalog import MySqlColumnDetails

_WHOLE: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "bit"))
_TEXTS: Final = frozenset(("tinytext", "text", "mediumtext", "longtext"))


def column_limits(native: MySqlColumnDetails) -> ColumnLimits | None:
    type = native.type
    if type in _WHOLE:
        return ColumnLimits(scale=0)
    if type in _TEXTS:
        return ColumnLimits(max_bytes=native.length)
    match type:
        case "decimal":
            return ColumnLimits(scale=native.scale)
        case "float":
            return ColumnLimits(scale=native.scale, float_bits=32)
        case "double":
            return ColumnLimits(scale=native.scale, float_bits=64)
        case "year":
            return ColumnLimits(changed=_is_short_year)
        case "date":
            return ColumnLimits(drops_time=True)
        case "time":
            return ColumnLimits(digits=native.digits, drops_date=True, drops_zone=True)
        case "datetime" | "timestamp":
            return ColumnLimits(digits=native.digits)
        case "char":
            return ColumnLimits(max_chars=native.length, drops_blanks=True)
        case "varchar":
            return ColumnLimits(max_chars=native.length)
        case "binary":
            return ColumnLimits(filled_to=native.length)
    return None


def _is_short_year(value: Any) -> bool:
    """True for 1 to 99, and for "0" as text, which mean years from 1970 to 2069."""
    number = float(value)
    return number != int(number) or 0 < number < 100 or (number == 0 and isinstance(value, str) and len(value.strip()) < 4)
