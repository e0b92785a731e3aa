"""Numbers as text: Double.toString and Float.toString of Java 17, and BigDecimal.toString."""

from __future__ import annotations

import decimal

from connect.java.float_digits import double_digits, float32_digits, shortest_float32
from connect.java.sized_numbers import round_to_float32


def double_text(value: float) -> str:
    """Double.toString of Java up to version 18."""
    magnitude = abs(value)
    if 1e-3 <= magnitude < 1e7 or value == 0.0:
        return repr(value)  # in this range, both show the shortest text: see float_digits
    if value != value:
        return "NaN"
    sign = "-" if value < 0 else ""
    if magnitude == float("inf"):
        return f"{sign}Infinity"
    digits, power = double_digits(magnitude)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def float_text(value: float) -> str:
    """Float.toString of the nearest 32-bit float in Java up to version 18."""
    rounded = round_to_float32(value)
    magnitude = abs(rounded)
    if 1e-3 <= magnitude < 1e7:
        return repr(shortest_float32(rounded))  # in this range, both show the shortest text
    if rounded == 0.0 or magnitude != magnitude or magnitude == float("inf"):
        return double_text(rounded)
    digits, power = float32_digits(magnitude)
    return f"{'-' if rounded < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{power}"


def decimal_text(value: decimal.Decimal) -> str:
    """BigDecimal.toString, which has no negative zero."""
    return str(value) if value else str(value.copy_abs())
