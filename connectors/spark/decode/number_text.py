"""Decides whether a binary number keeps the decimal number of a text (promise 8).

A double keeps 0.1, because the text of the double is 0.1 again; it does not keep 12345678901234567.89 or 18446744073709551615.
Texts of a value are the shortest one and that of Java up to version 18, which differ in the last digit for a few powers of two.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Sequence

import numpy as np

from connect.converters.json.value_reader import to_float32
from connect.java.number_text import double_text, float_text

Number = int | decimal.Decimal | float
_FLOAT = struct.Struct("<f")


def exact_double(number: Number) -> float | None:
    """The double that keeps the number; None if every double would change it."""
    if isinstance(number, float):
        return number
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if _keeps(value, (repr(value), double_text(value)), decimal.Decimal(number)) else None


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
    return value if _keeps(value, (str(np.float32(value)), float_text(value)), text) else None


def _keeps(value: float, texts: Sequence[str], number: decimal.Decimal) -> bool:
    """Whether the number is one of the value's texts, or the value rounded to as many digits as the number has."""
    if not math.isfinite(value):
        return False
    if any(decimal.Decimal(text) == number for text in texts):
        return True
    digits = len(number.as_tuple().digits)
    return decimal.Decimal(format(value, f".{digits - 1}e")) == number
