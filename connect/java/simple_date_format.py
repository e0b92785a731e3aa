"""Formats and parses instants with patterns of ``java.text.SimpleDateFormat``.

Locale en_US, time zone UTC. Parsing is as lenient as Java's: it accepts blanks before a field, fields out of range, text after
the match, and short texts for adjacent numbers. For the pattern letters, see the Javadoc of SimpleDateFormat.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from connect.java.calendar import date_of_day, day_of_date
from connect.java.calendar_fields import MILLIS_PER_DAY, CalendarField, CalendarFields, week_of_month, week_of_year, weekday_of
from connect.java.sized_numbers import wrap_integer
from connect.java.time_zone_names import NAME_SIZES, ZONE_NAMES

LETTERS = "GyMdkHmsSEDFwWahKzZYuXL"
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NUMBER = re.compile(r"NaN|(-?)(?:∞|(\d+)(?:E(-?\d+))?)")
_UNITS_MS = {"S": 1, "s": 1000, "m": 60_000, **dict.fromkeys("HkKh", 3_600_000), "a": 43_200_000}
_MOST_TEXTS = 4096
_DIGITS = re.compile(r"\d+")
_INT_MAX = (1 << 31) - 1


class PatternError(ValueError):
    """The pattern is invalid; the message is Java's."""


class _Instant(NamedTuple):
    """The calendar fields of an instant. ``year`` 0 is 1 BC."""

    day: int
    year: int
    month: int
    day_of_month: int
    hour: int
    minute: int
    second: int
    millisecond: int


@dataclass(frozen=True, slots=True)
class _Literal:
    text: str


@dataclass(frozen=True, slots=True)
class _Letter:
    letter: str
    count: int


def _tokens(pattern: str) -> list[_Literal | _Letter]:
    tokens: list[_Literal | _Letter] = []
    position, size, quoted = 0, len(pattern), False
    while position < size:
        char = pattern[position]
        if char == "'":
            if pattern[position + 1 : position + 2] == "'":
                tokens.append(_Literal("'"))
                position += 2
                continue
            quoted = not quoted
        elif quoted or not (char.isascii() and char.isalpha()):
            tokens.append(_Literal(char))
        else:
            if char not in LETTERS:
                raise PatternError(f"Illegal pattern character '{char}'")
            end = position
            while end < size and pattern[end] == char:
                end += 1
            following = pattern[end : end + 1]
            if following.isascii() and following.isalpha() and following not in LETTERS:
                raise PatternError(f"Illegal pattern character '{following}'")
            if char == "X" and end - position >= 4:
                raise PatternError(f"invalid ISO 8601 format: length={end - position}")
            tokens.append(_Letter(char, end - position))
            position = end
            continue
        position += 1
    if quoted:
        raise PatternError("Unterminated quote")
    return tokens


class SimpleDateFormat:
    """A compiled pattern. Raises :class:`PatternError` for an invalid one. Not thread-safe."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._tokens = _tokens(pattern)
        self._printers = [_printer(token) for token in self._tokens]
        # Instants within one unit of the finest letter have the same text: a pattern of days formats each day once.
        self._unit_ms = min(
            [_UNITS_MS.get(token.letter, MILLIS_PER_DAY) for token in self._tokens if isinstance(token, _Letter)] or [1]
        )
        self._texts: dict[int, str] = {}
        # Two-digit years fall into the century that started 80 years before the format was created.
        now = dt.datetime.now(dt.UTC)
        self._century_start_year = now.year - 80
        of_day = (now - now.replace(hour=0, minute=0, second=0, microsecond=0)) // dt.timedelta(milliseconds=1)
        self._century_start = day_of_date(now.year - 80, now.month, now.day) * MILLIS_PER_DAY + of_day

    def format(self, millis: int) -> str:
        """Formats an instant, given in ms since 1970 UTC."""
        unit = millis // self._unit_ms
        text = self._texts.get(unit)
        if text is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            text = self._texts[unit] = self._print(millis)
        return text

    def _print(self, millis: int) -> str:
        day, of_day = divmod(millis, MILLIS_PER_DAY)
        seconds, millisecond = divmod(of_day, 1000)
        year, month, day_of_month = date_of_day(day)
        instant = _Instant(
            day, year, month, day_of_month, seconds // 3600, seconds // 60 % 60, seconds % 60, millisecond
        )  # fmt: skip
        return "".join([printer(instant) for printer in self._printers])

    def parse(self, text: str) -> int | None:
        """Parses an instant to ms since 1970 UTC; None when the text does not match. Text after the match is ignored."""
        found = self._read(text)
        return None if found is None else found[0]

    def represents_exactly(self, text: str) -> bool:
        """Returns whether parsing the text loses nothing: no text follows the match, and no field is out of range, such as
        30 February. Ranges are not checked for texts with a time zone."""
        found = self._read(text)
        if found is None or found[1] != len(text):
            return False
        if any(isinstance(token, _Letter) and token.letter in "zZX" for token in self._tokens):
            return True
        return [int(number) for number in _DIGITS.findall(text)] == [int(n) for n in _DIGITS.findall(self.format(found[0]))]

    def _read(self, text: str) -> tuple[int, int] | None:
        """Returns the instant and the end of its text."""
        fields, position, ambiguous = CalendarFields(), 0, False
        for i, token in enumerate(self._tokens):
            if isinstance(token, _Literal):
                if not text.startswith(token.text, position):
                    return None
                position += len(token.text)
                continue
            following = self._tokens[i + 1] if i + 1 < len(self._tokens) else None
            found = self._parse_field(token, text, position, _is_number(following), fields)
            if found is None:
                return None
            position, is_ambiguous = found
            ambiguous = ambiguous if is_ambiguous is None else is_ambiguous  # of several years the last one counts
        if position == 0:
            return None
        millis = fields.to_millis()
        if ambiguous and millis < self._century_start:
            fields.add_years(100)
            millis = fields.to_millis()
        return millis, position

    def _parse_field(
        self, token: _Letter, text: str, start: int, bounded: bool, fields: CalendarFields
    ) -> tuple[int, bool | None] | None:
        """Returns the position after the field, and for a two-digit year whether it is ambiguous; None when the text does not
        match.

        ``bounded``: another number follows without a delimiter, so this one has only as many digits as the pattern has letters.
        """
        position = start
        while position < len(text) and text[position] in " \t":
            position += 1
        if position == len(text):
            return None
        letter, count = token.letter, token.count
        if letter in "zZX":
            end = parse_zone(text, start, position, letter, count, fields)
            return None if end is None else (end, None)
        names = _names_of(letter, count)
        if names is not None:
            # Blanks are skipped before numbers only, as in Java.
            name, size = _longest(names, text, start)
            if name is None:
                return None
            fields.set(*names[name])
            return start + size, None
        if bounded and start + count > len(text):
            return None
        number = _NUMBER.match(text, position, start + count if bounded else len(text))
        if number is None:
            return None
        value, end = _int_value(number), number.end()
        ambiguous = None
        if letter in "yY":
            if count <= 2 and end - position == 2 and text[position].isdigit() and text[position + 1].isdigit():
                century, rest = divmod(self._century_start_year, 100)
                ambiguous = value == rest
                value += century * 100 + (100 if value < rest else 0)
        elif letter in "ML":
            value -= 1
        elif letter in "kh":
            value = 0 if value == (24 if letter == "k" else 12) else value
        elif letter == "u":
            value = (1 if value == 7 else value + 1) if 1 <= value <= 7 else value
        fields.set(_FIELDS[letter], value)
        return end, ambiguous


_FIELDS = {
    "y": CalendarField.YEAR,
    "Y": CalendarField.WEEK_YEAR,
    "M": CalendarField.MONTH,
    "L": CalendarField.MONTH,
    "d": CalendarField.DAY_OF_MONTH,
    "k": CalendarField.HOUR_OF_DAY,
    "H": CalendarField.HOUR_OF_DAY,
    "K": CalendarField.HOUR,
    "h": CalendarField.HOUR,
    "m": CalendarField.MINUTE,
    "s": CalendarField.SECOND,
    "S": CalendarField.MILLISECOND,
    "D": CalendarField.DAY_OF_YEAR,
    "F": CalendarField.DAY_OF_WEEK_IN_MONTH,
    "w": CalendarField.WEEK_OF_YEAR,
    "W": CalendarField.WEEK_OF_MONTH,
    "u": CalendarField.DAY_OF_WEEK,
}


def _is_number(token: _Literal | _Letter | None) -> bool:
    if not isinstance(token, _Letter):
        return False
    return token.count <= 2 if token.letter in "ML" else token.letter in _FIELDS


def _int_value(found: re.Match[str]) -> int:
    """Number.intValue of what DecimalFormat parses: a long is cut to its low bits, larger numbers saturate, NaN is 0."""
    if found[2] is None:
        return 0 if found[1] is None else -_INT_MAX - 1 if found[1] else _INT_MAX
    digits = int(found[2])
    if found[3]:
        power = min(int(found[3]), 40)
        if power >= 0:
            digits *= 10**power
        else:
            digits, fraction = divmod(digits, 10 ** min(-power, 40))
            digits = min(digits, _INT_MAX) if fraction else digits  # a fraction makes it a double
    value = -digits if found[1] else digits
    if -(1 << 63) <= value < 1 << 63:
        return wrap_integer(value, 32)
    return _INT_MAX if value > 0 else -_INT_MAX - 1


_Names = dict[str, tuple[CalendarField, int]]
_MONTH_NAMES: _Names = {
    **{name: (CalendarField.MONTH, i) for i, name in enumerate(_MONTHS)},
    **{name[:3]: (CalendarField.MONTH, i) for i, name in enumerate(_MONTHS)},
}
_WEEKDAY_NAMES: _Names = {
    **{name: (CalendarField.DAY_OF_WEEK, i) for i, name in enumerate(_WEEKDAYS, 1)},
    **{name[:3]: (CalendarField.DAY_OF_WEEK, i) for i, name in enumerate(_WEEKDAYS, 1)},
}
_ERA_NAMES: _Names = {
    "AD": (CalendarField.ERA, 1), "BC": (CalendarField.ERA, 0),
    "Anno Domini": (CalendarField.ERA, 1), "Before Christ": (CalendarField.ERA, 0),
}  # fmt: skip
_HALF_NAMES: _Names = {"AM": (CalendarField.AM_PM, 0), "PM": (CalendarField.AM_PM, 1)}


_NAMES = {"E": _WEEKDAY_NAMES, "G": _ERA_NAMES, "a": _HALF_NAMES}


def _names_of(letter: str, count: int) -> _Names | None:
    if letter in "ML":
        return _MONTH_NAMES if count >= 3 else None
    return _NAMES.get(letter)


def _longest(names: _Names, text: str, start: int) -> tuple[str | None, int]:
    fitting = [name for name in names if text[start : start + len(name)].lower() == name.lower()]
    best = max(fitting, key=len, default=None)
    return best, len(best or "")


_Printer = Callable[[_Instant], str]


def _printer(token: _Literal | _Letter) -> _Printer:
    if isinstance(token, _Literal):
        text = token.text
        return lambda _: text
    letter, count = token.letter, token.count
    match letter:
        case "y":
            return lambda i: _year_text(i.year if i.year > 0 else 1 - i.year, count)
        case "Y":
            return lambda i: _year_text(week_of_year(i.day)[0], count)
        case "G":
            # For any number of letters: the long names are for parsing only.
            return lambda i: "AD" if i.year > 0 else "BC"
        case "M" | "L" if count >= 3:
            return lambda i: _MONTHS[i.month - 1] if count >= 4 else _MONTHS[i.month - 1][:3]
        case "E":
            return lambda i: _WEEKDAYS[weekday_of(i.day) - 1] if count >= 4 else _WEEKDAYS[weekday_of(i.day) - 1][:3]
        case "a":
            return lambda i: "PM" if i.hour >= 12 else "AM"
        case "z":
            name = "Coordinated Universal Time" if count >= 4 else "UTC"
            return lambda _: name
        case "Z":
            return lambda _: "+0000"
        case "X":
            return lambda _: "Z"
    number = _NUMBERS[letter]
    return lambda i: str(number(i)).zfill(count)


def _year_text(year: int, count: int) -> str:
    """Formats a year; two letters mean two digits. A week year before the year 1 has a sign in addition."""
    digits = str(abs(year) % 100).zfill(2) if count == 2 else str(abs(year)).zfill(count)
    return f"-{digits}" if year < 0 else digits


_NUMBERS: dict[str, Callable[[_Instant], int]] = {
    "M": lambda i: i.month,
    "L": lambda i: i.month,
    "d": lambda i: i.day_of_month,
    "k": lambda i: i.hour or 24,
    "H": lambda i: i.hour,
    "K": lambda i: i.hour % 12,
    "h": lambda i: i.hour % 12 or 12,
    "m": lambda i: i.minute,
    "s": lambda i: i.second,
    "S": lambda i: i.millisecond,
    "D": lambda i: i.day - day_of_date(i.year, 1, 1) + 1,
    "F": lambda i: (i.day - day_of_date(i.year, i.month, 1)) // 7 + 1,
    "w": lambda i: week_of_year(i.day)[1],
    "W": lambda i: week_of_month(i.day),
    "u": lambda i: (weekday_of(i.day) + 5) % 7 + 1,
}


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
