"""What MySQL and MariaDB keep of a value that is finer, or longer, than its column, in their strict mode too."""

from __future__ import annotations

from typing import Any, Final

from connectors.jdbc.dialects.lossless import Keeps
from connectors.jdbc.dialects.mysql.catalog import Native

_WHOLE: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "bit"))
_TEXTS: Final = frozenset(("tinytext", "text", "mediumtext", "longtext"))


def keeps_of(native: Native) -> Keeps | None:
    type = native.type
    if type in _WHOLE:
        return Keeps(scale=0)
    if type in _TEXTS:
        return Keeps(most_bytes=native.length)
    match type:
        case "decimal":
            return Keeps(scale=native.scale)
        case "float":
            return Keeps(scale=native.scale, float_bits=32)
        case "double":
            return Keeps(scale=native.scale, float_bits=64)
        case "year":
            return Keeps(changed=_is_short_year)
        case "date":
            return Keeps(drops_time=True)
        case "time":
            return Keeps(digits=native.digits, drops_date=True, drops_zone=True)
        case "datetime" | "timestamp":
            return Keeps(digits=native.digits)
        case "char":
            return Keeps(most_chars=native.length, drops_blanks=True)
        case "varchar":
            return Keeps(most_chars=native.length)
        case "binary":
            return Keeps(filled_to=native.length)
    return None


def _is_short_year(value: Any) -> bool:
    """1 to 99 (as text 0 too) mean years from 1970 to 2069."""
    number = float(value)
    return number != int(number) or 0 < number < 100 or (number == 0 and isinstance(value, str) and len(value.strip()) < 4)
