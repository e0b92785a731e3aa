"""What SQLite's type affinities change: text that looks like a number becomes one; numbers in text columns become text.

https://www.sqlite.org/datatype3.html, section 3. Decimals, dates, and times are converted before to values that do not change.
"""

from __future__ import annotations

import re
from typing import Any

from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.sqlite.types import Affinity, SqliteColumnType

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)[ \t\n\v\f\r]*", re.ASCII)

_WHOLE = re.compile(r"-?\d+", re.ASCII)


def column_limits(parse_declared_type: SqliteColumnType) -> ColumnLimits | None:
    match parse_declared_type.affinity:
        case Affinity.TEXT:
            return ColumnLimits(changed=_is_cut_as_text)
        case Affinity.REAL:
            return ColumnLimits(changed=_is_rounded, float_bits=64)
        case Affinity.INTEGER | Affinity.NUMERIC:
            return ColumnLimits(changed=_is_other_number)
    return None


def _is_cut_as_text(value: Any) -> bool:
    """SQLite converts a double to text with 15 digits."""
    return isinstance(value, float) and value - value == 0 and float(f"{value:.15g}") != value


def _is_rounded(value: Any) -> bool:
    if isinstance(value, str):
        return _is_other_number(value) or (_WHOLE.fullmatch(value) is not None and float(value) != int(value))
    return isinstance(value, int) and float(value) != value


def _is_other_number(value: Any) -> bool:
    """True for text such as 007 and 1.50 whose spelling the number does not preserve."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
        return False
    if value.removeprefix("-").isdigit():
        number = int(value)
        # Beyond 64 bits it is a double.
        return value != str(number) or not -(1 << 63) <= number < 1 << 63
    return value != repr(float(value))
