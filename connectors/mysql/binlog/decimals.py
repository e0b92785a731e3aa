"""NEWDECIMAL: groups of nine digits in four bytes each, big-endian; the first bit is the inverted sign."""

from __future__ import annotations

from connectors.mysql.binlog.wire import take

GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""The number of bytes of 0 to 9 digits."""


def decimal_groups(precision: int, scale: int) -> tuple[tuple[int, int], ...]:
    """Returns the groups of a decimal, each as ``(digits, bytes)``."""
    whole = precision - scale
    groups = [(whole % 9, GROUP_BYTES[whole % 9])] if whole % 9 else []
    groups += [(9, 4)] * (whole // 9 + scale // 9)
    if scale % 9:
        groups.append((scale % 9, GROUP_BYTES[scale % 9]))
    return tuple(groups)


def read_decimal(data: bytes, at: int, precision: int, scale: int, end: int) -> int:
    """Returns the unscaled value. Raises IndexError if the data is too short, ValueError if a group has too many digits."""
    groups = decimal_groups(precision, scale)
    size = sum(width for _, width in groups)
    raw = int.from_bytes(take(data, at, size, end)[0], "big")
    top = 1 << (size * 8 - 1)
    positive = bool(raw & top)
    raw ^= top if positive else top - 1
    value, shift = 0, size * 8
    for digits, width in groups:
        shift -= width * 8
        group = raw >> shift & ((1 << width * 8) - 1)
        if group >= 10**digits:
            raise ValueError(f"a group of {digits} digits has the value {group}")
        value = value * 10**digits + group
    return value if positive else -value


def decimal_text(unscaled: int, scale: int) -> str:
    """Returns MySQL's text of a decimal: all decimal places, and a zero before the point."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits
