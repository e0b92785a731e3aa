"""Parses and converts numbers like Java: parseInt, parseDouble, and the casts between number types."""

from __future__ import annotations

import decimal
import math
import re
import struct

from connect.java.sized_numbers import round_to_float32, wrap_integer

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"([+-]?)(?:(NaN|Infinity)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?)", re.ASCII)
_HEX = re.compile(r"([+-]?)0[xX](?:([0-9a-fA-F]+)\.?|([0-9a-fA-F]*)\.([0-9a-fA-F]+))[pP]([+-]?\d+)[fFdD]?", re.ASCII)
_BIG_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]{1,10}))?")
_COMPACT_DIGITS = 18
_MANY_DIGITS = 5000
_NO_EXPONENT_MARK = 'Character array is missing "e" notation exponential mark.'
_INT_LIMIT = 1 << 31
_BLANKS = "".join(map(chr, range(33)))
_DOUBLE = struct.Struct("<d")
_LONG = struct.Struct("<q")
_HALF_OF_FLOAT32 = 1 << 28
_SMALLEST_NORMAL_FLOAT32 = 2.0**-126


class NumberFormatError(ValueError):
    """A text is not a number in Java, or out of range."""


def parse_integer(text: str, bits: int) -> int:
    """Integer.parseInt and the like: digits of any script, no blanks. Raises NumberFormatError, also when out of range."""
    if not _INTEGER.fullmatch(text) or len(text) > 1000 or any(ord(c) > 0xFFFF for c in text):
        raise NumberFormatError(text)
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise NumberFormatError(text)
    return number


def parse_double(text: str) -> float:
    """Double.parseDouble: trims blanks and accepts ``1d``, ``NaN``, and ``0x1p3``. Raises NumberFormatError."""
    trimmed = text.strip(_BLANKS)
    found = _DECIMAL.fullmatch(trimmed)
    if found is not None:
        sign = -1.0 if found[1] == "-" else 1.0
        if found[2]:
            return math.copysign(math.nan if found[2] == "NaN" else math.inf, sign)
        return math.copysign(float(found[3]), sign)
    return _parse_hex(trimmed)


def parse_float32(text: str) -> float:
    """Float.parseFloat: the 32-bit float nearest to the text itself, not to its double. Raises NumberFormatError."""
    value = parse_double(text)
    found = _DECIMAL.fullmatch(text.strip(_BLANKS))
    if found is None or not found[3] or not math.isfinite(value):
        return round_to_float32(value)
    return nearest_float32(value, decimal.Decimal(found[1] + found[3]))


def _parse_hex(text: str) -> float:
    found = _HEX.fullmatch(text)
    if found is None:
        raise NumberFormatError(text)
    digits = f"{found[2]}" if found[2] else f"{found[3] or '0'}.{found[4]}"
    try:
        return float.fromhex(f"{found[1]}0x{digits}p{found[5]}")
    except OverflowError:
        return -math.inf if found[1] == "-" else math.inf


def nearest_float32(value: float, exact: decimal.Decimal | int) -> float:
    """Returns the 32-bit float nearest to an exact number whose nearest double is ``value``: rounding twice could be wrong."""
    if abs(value) < _SMALLEST_NORMAL_FLOAT32:
        in_the_middle = math.ldexp(value, 149) % 1.0 == 0.5
    else:
        in_the_middle = _LONG.unpack(_DOUBLE.pack(value))[0] & (2 * _HALF_OF_FLOAT32 - 1) == _HALF_OF_FLOAT32
    if in_the_middle:
        difference = decimal.Decimal(exact).compare(decimal.Decimal(value))
        if difference:
            value = math.nextafter(value, math.inf if difference > 0 else -math.inf)
    return round_to_float32(value)


def integer_to_float32(value: int) -> float:
    return nearest_float32(float(value), value) if abs(value) >= 1 << 53 else round_to_float32(float(value))


def decimal_to_double(value: decimal.Decimal) -> float:
    """BigDecimal.doubleValue."""
    return float(value)


def decimal_to_float32(value: decimal.Decimal) -> float:
    """BigDecimal.floatValue."""
    double = float(value)
    return nearest_float32(double, value) if math.isfinite(double) else double


def float_to_integer(value: float, bits: int) -> int:
    """The cast ``(int) value``: NaN is 0, and too large values saturate. A byte or short goes through int and wraps."""
    if value != value:
        return 0
    width = max(bits, 32)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    whole = low if value <= low else high if value >= high else int(value)
    return wrap_integer(whole, bits) if bits < width else whole


def decimal_to_integer(value: decimal.Decimal, bits: int) -> int:
    """BigDecimal.intValue and the like: the low bits of the integer part."""
    _, digits, exponent = value.as_tuple()
    if isinstance(exponent, int) and exponent >= 64:
        return 0  # a multiple of 2^64
    if len(digits) > _MANY_DIGITS:
        # Python converts a decimal to an int in quadratic time.
        whole = value.to_integral_value(decimal.ROUND_DOWN)
        value = decimal.Context(prec=len(digits) + 64).remainder(whole, 1 << 64)
    return wrap_integer(int(value), bits)


def parse_big_decimal(text: str) -> decimal.Decimal:
    """``new BigDecimal(text)``: no blanks, no NaN. Raises NumberFormatError with Java's message."""
    found = _BIG_DECIMAL.fullmatch(text)
    if found is None:
        text = _checked_decimal(text)
        found = _BIG_DECIMAL.fullmatch(text)
        assert found is not None
    exponent = int(found[3] or 0)
    if exponent and not -_INT_LIMIT <= exponent < _INT_LIMIT:
        raise NumberFormatError("Exponent overflow.")
    if exponent and not -_INT_LIMIT <= len(found[1] or found[2] or "") - exponent < _INT_LIMIT:
        raise NumberFormatError("Scale out of range.")
    return decimal.Decimal(text)


def _checked_decimal(text: str) -> str:
    """Returns the text with ASCII digits and a short exponent. Raises NumberFormatError if Java does not parse it."""
    sign = text[:1] if text[:1] in ("+", "-") else ""
    body = text[len(sign) :]
    mark = next((i for i, c in enumerate(body) if c in "eE"), len(body))
    digits = []
    for char in body[:mark]:
        if char == ".":
            if "." in digits:
                raise NumberFormatError("Character array contains more than one decimal point.")
            digits.append(char)
        elif char.isdecimal() and char <= "\uffff":
            digits.append(str(int(char)))
        elif len(body) <= _COMPACT_DIGITS:
            raise NumberFormatError(
                f'Character {char} is neither a decimal digit number, decimal point, nor "e" notation exponential mark.'
            )
        else:
            raise NumberFormatError(_NO_EXPONENT_MARK)
    exponent = _checked_exponent(body[mark + 1 :]) if mark < len(body) else ""
    if not text:
        raise NumberFormatError("An empty text is no number.")
    if not any(digit != "." for digit in digits):
        raise NumberFormatError("No digits found.")
    return f"{sign}{''.join(digits)}{exponent}"


def _checked_exponent(text: str) -> str:
    sign = text[:1] if text[:1] in ("+", "-") else ""
    digits = text[len(sign) :]
    if not digits:
        raise NumberFormatError("No exponent digits.")
    zeros = 0
    while len(digits) - zeros > 10 and digits[zeros].isdecimal() and int(digits[zeros]) == 0:
        zeros += 1
    if len(digits) - zeros > 10:
        raise NumberFormatError("Too many nonzero exponent digits.")
    if not all(char.isdecimal() and char <= "\uffff" for char in digits[zeros:]):
        raise NumberFormatError("Not a digit.")
    return f"e{sign}{int(digits[zeros:])}"
