"""Decides whether a binary number keeps the decimal number of a text (promise 8).

A double keeps 0.1, because the text of the double is 0.1 again; it does not keep 12345678901234567.89 or 18446744073709551615.
"""

from __future__ import annotations

import decimal
import math
import struct

import numpy as np

from connect.converters.json.value_reader import to_float32

Number = int | decimal.Decimal | float
_FLOAT = struct.Struct("<f")
_JAVA_FLOAT_DIGITS = 8


def exact_double(number: Number) -> float | None:
    """The double that keeps the number; None if every double would change it."""
    if isinstance(number, float):
        return number
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if _keeps(value, repr(value), decimal.Decimal(number)) else None


def exact_float(number: Number) -> float | None:
    """The 32-bit float that keeps the number, widened to a double; None if every 32-bit float would change it."""
    if isinstance(number, float):
        if not math.isfinite(number):
            return number
        try:
            value: float = _FLOAT.unpack(_FLOAT.pack(number))[0]
        except OverflowError:
            return None
        if value == number:
            return value
        number = decimal.Decimal(repr(number))
    text = decimal.Decimal(number)
    if not text:
        return -0.0 if text.is_signed() else 0.0
    value = to_float32(number)
    if _keeps(value, str(np.float32(value)), text) or _is_float_of_java(value, text):
        return value
    return None


def _keeps(value: float, shortest: str, number: decimal.Decimal) -> bool:
    """Whether the number is the value's shortest text, or the value rounded to as many digits as the number has."""
    if not math.isfinite(value):
        return False
    if decimal.Decimal(shortest) == number:
        return True
    digits = len(number.as_tuple().digits)
    return decimal.Decimal(format(value, f".{digits - 1}e")) == number


def _is_float_of_java(value: float, number: decimal.Decimal) -> bool:
    """Whether the number may be Java's text of a 32-bit float: before version 19, the last of 8 digits can be off by one, mostly
    for powers of two."""
    _, digits, exponent = number.as_tuple()
    if len(digits) != _JAVA_FLOAT_DIGITS or not isinstance(exponent, int) or not math.isfinite(value):
        return False
    return abs(number - decimal.Decimal(value)) < decimal.Decimal(1).scaleb(exponent)
