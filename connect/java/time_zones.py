"""Parses time zones in dates like SimpleDateFormat: ``Z``, ``+0200``, ``GMT+2:00``, ``UTC``, ``PST``."""

from __future__ import annotations

from connect.java.calendar_fields import CalendarField, CalendarFields
from connect.java.time_zone_names import NAME_SIZES, ZONE_NAMES

_MILLIS_PER_MINUTE = 60_000


def parse_zone(text: str, start: int, position: int, letter: str, count: int, fields: CalendarFields) -> int | None:
    """Sets the zone offset and returns the position after it, or None. ``position`` is ``start`` after blanks."""
    char = text[position]
    sign = {"+": 1, "-": -1}.get(char, 0)
    if letter == "X":
        if char == "Z":
            return _set(fields, 0, position + 1)
        return _offset(text, position + 1, sign, count, count == 3, fields) if sign else None
    if sign:
        return _offset(text, position + 1, sign, 0, False, fields)
    if text[start : start + 3].upper() == "GMT":
        position = start + 3
        sign = {"+": 1, "-": -1}.get(text[position : position + 1], 0)
        return _offset(text, position + 1, sign, 0, True, fields) if sign else _set(fields, 0, position)
    rest = text[position : position + NAME_SIZES[0]].lower()
    for size in NAME_SIZES:
        minutes = ZONE_NAMES.get(rest[:size])
        if minutes is not None:
            return _set(fields, minutes, position + min(size, len(rest)))
    return None


def _set(fields: CalendarFields, minutes: int, position: int) -> int:
    fields.set(CalendarField.ZONE_OFFSET, minutes * _MILLIS_PER_MINUTE)
    return position


def _offset(text: str, position: int, sign: int, count: int, colon: bool, fields: CalendarFields) -> int | None:
    """Parses ``hh``, ``hhmm``, or ``hh:mm``; after ``GMT`` (count 0 and a colon), hours may have one digit."""
    hours = _digits(text, position, 2)
    size = 2
    if hours is None:
        hours, size = _digits(text, position, 1), 1
        if hours is None or count > 0 or not colon or position + 1 >= len(text):
            return None
    position += size
    if hours > 23:
        return None
    minutes = 0
    if count != 1:
        if colon:
            if text[position : position + 1] != ":":
                return None
            position += 1
        found = _digits(text, position, 2)
        if found is None or found > 59:
            return None
        minutes = found
        position += 2
    return _set(fields, sign * (hours * 60 + minutes), position)


def _digits(text: str, position: int, count: int) -> int | None:
    digits = text[position : position + count]
    return int(digits) if len(digits) == count and digits.isascii() and digits.isdigit() else None
