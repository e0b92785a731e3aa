"""Writes JSON from the texts of decimals and doubles, for :mod:`connect.converters.json.text_writer`."""

from __future__ import annotations

from binascii import b2a_base64 as to_base64
from collections.abc import Callable

from connect.converters.json.value_writer import number_text
from connect.data.logical import int_to_bytes

# Base64 of numbers of two to four bytes, put together from the digits of 6 and 12 bits.
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]
_LAST_BYTE = [f'{_PAIRS[byte << 4]}=="' for byte in range(1 << 8)]
_LAST_HALF_BYTE = [f'{_DIGITS[bits << 2]}="' for bits in range(1 << 4)]
_MAX_PLAIN_DOUBLE = 17
"""Texts of this length may have more than 15 digits, and then another text may be the shortest one of the number."""


def decimal_writer(scale: int, write: Callable[[str], str]) -> Callable[[str], str]:
    """The function that writes a decimal as Base64. ``write`` writes texts that are not plain digits of this scale."""
    point = -scale - 1

    def write_integer(text: str) -> str:
        if not text[-1].isdecimal():
            return write(text)
        return unscaled_text(int(text))

    def write_decimal(text: str) -> str:
        if text[point:-scale] != "." or not text[-1].isdecimal():
            return write(text)
        return unscaled_text(int(text.replace(".", "", 1)))

    return write_decimal if scale else write_integer


def unscaled_text(unscaled: int) -> str:
    """Writes the unscaled value of a decimal as Base64."""
    if 0x7FFF < unscaled <= 0x7FFFFF:
        return f'"{_PAIRS[unscaled >> 12]}{_PAIRS[unscaled & 0xFFF]}"'
    if 0x7FFFFF < unscaled <= 0x7FFFFFFF:
        return f'"{_PAIRS[unscaled >> 20]}{_PAIRS[unscaled >> 8 & 0xFFF]}{_LAST_BYTE[unscaled & 0xFF]}'
    if 0x7F < unscaled <= 0x7FFF:
        return f'"{_PAIRS[unscaled >> 4]}{_LAST_HALF_BYTE[unscaled & 0xF]}'
    data = int_to_bytes(unscaled) if unscaled < 0 else unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big")
    return f'"{to_base64(data, newline=False).decode()}"'


def write_double(text: str) -> str:
    """Writes a double, like Java."""
    # From 1 to 10 million, and without superfluous zeros.
    if "." in text[1:8] and len(text) < _MAX_PLAIN_DOUBLE and "0" < text[0] <= "9" and text[-1] > "0" and "e" not in text:
        return text
    value = float(text)
    if not (0.001 <= value < 1e7 or -1e7 < value <= -0.001):
        return number_text(value, False)
    plain = len(text) < _MAX_PLAIN_DOUBLE and "." in text and text[-1] != "0" and "e" not in text
    return text if plain else repr(value)


def write_shortest_double(text: str) -> str:
    """Writes a double whose text has no superfluous digits, like Java."""
    # From 0.001 to 10 million.
    if "." in text[1:8] and "e" not in text and (text[0] > "0" or (text[0] == "0" and text[:5] > "0.001")):
        return text
    return write_double(text)
