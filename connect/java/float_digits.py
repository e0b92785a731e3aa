"""The digits that Java up to version 18 shows of a floating number. Apache Kafka Connect runs on 17, and our texts follow it.

Java's rule in those versions, ``FloatingDecimal`` (after Guy Steele and Jon White, 1990), gives digits until what is left is
within half a unit in the last place. Its texts read back, but are not always the shortest that do, as Python's and later Javas'
are. The two differ in these cases only:

- Whole numbers from 2^53 to 2^63 are cut after the digits that count for sure: 2^60 is 1.15292150460684698E18. (For 32-bit
  floats from 2^24 on.)
- The ends of the interval are left out, though an even number reads back from them: 2e23 is 1.9999999999999998E23. Such an end
  has 54 bits, and 17 digits with up to 23 zeros behind it if it is to matter, so it lies between 2^53 and 1e41.
- For a power of two the room above is taken as half as wide as it is: 2^-909 is 2.3106488011069819E-274.
- With an exponent there are two digits at least, and the second is the best one: the smallest double is 4.9E-324, not 5.0E-324.
- With 32-bit floats a few sums of the original overflow unseen: 9.6623843E24 is not the nearest text of its length. (With
  doubles none does where it matters: they are calculated in 64 bits only where the sums are below 2^63.)

So between 0.001 and 10 million, where there is no exponent, both are the same, and elsewhere a double has the shortest digits
unless it is one of these cases. All of this was checked against Java 17 on six million numbers; a table of some is in the tests.
"""

from __future__ import annotations

import math
import struct

_FLOAT32 = struct.Struct("<f")
_WHOLE_DOUBLE = float(2**53)
_FIVES = tuple(5**n for n in range(27))
_BITS_OF_FIVES = (0, *(five.bit_length() for five in _FIVES[1:]))
_INT, _LONG = 32, 64


def double_digits(magnitude: float) -> tuple[str, int]:
    """The digits of a positive, finite double, and the power of ten of the first one."""
    fraction, exponent = math.frexp(magnitude)
    if fraction != 0.5 and not _WHOLE_DOUBLE <= magnitude < 1e41:
        digits, power = _split(repr(magnitude))
        if len(digits) > 1:
            return digits, power
    return java_digits(int(fraction * 2**53), exponent - 53, min(53, exponent + 1074))


def float32_digits(magnitude: float) -> tuple[str, int]:
    """The same of a number that is a 32-bit float."""
    fraction, exponent = math.frexp(magnitude)
    return java_digits(int(fraction * 2**24), exponent - 24, min(24, exponent + 149))


def shortest_float32(value: float) -> float:
    """The double with the shortest text that reads back as this 32-bit float, which is neither subnormal nor the largest."""
    bits = _FLOAT32.pack(value)
    for precision in ".6g", ".7g", ".8g":  # six digits always survive a 32-bit float
        shorter = float(format(value, precision))
        if _FLOAT32.pack(shorter) == bits:
            return shorter
    return float(format(value, ".9g"))


def _split(text: str) -> tuple[str, int]:
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    power = int(exponent or 0) + len(whole) - 1
    found = digits.lstrip("0")
    return found.rstrip("0"), power - (len(digits) - len(found))


def java_digits(mantissa: int, exponent: int, precision: int) -> tuple[str, int]:
    """The digits of ``mantissa * 2**exponent`` by Java's rule, and the power of ten of the first one.

    ``mantissa`` is positive. ``precision`` is the number of its bits that count: 53 for a double and 24 for a float, fewer for
    subnormal numbers.
    """
    top = exponent + mantissa.bit_length() - 1
    tail = (mantissa & -mantissa).bit_length() - 1
    mantissa >>= tail
    width = mantissa.bit_length()
    fraction_bits = max(0, width - top - 1)
    if fraction_bits == 0 and top <= 62:
        return _whole_digits(mantissa << (exponent + tail), top - precision - 1)
    return _generated_digits(mantissa, width, top, fraction_bits, precision)


def _whole_digits(number: int, uncertain_bits: int) -> tuple[str, int]:
    dropped = len(str(1 << uncertain_bits)) - 1 if uncertain_bits > 1 else 0
    if dropped:
        unit = 10**dropped
        number, rest = divmod(number, unit)
        number += rest >= unit // 2
    text = str(number)
    return text.rstrip("0"), len(text) - 1 + dropped


def _generated_digits(mantissa: int, width: int, top: int, fraction_bits: int, precision: int) -> tuple[str, int]:
    power = _estimated_power(mantissa, width, top)
    fives_up, fives_down = max(0, -power), max(0, power)
    # value = number / unit * 10**power; room is half a unit in the last place on the same scale.
    number_twos = fives_up + fraction_bits + top
    unit_twos = fives_down + fraction_bits
    room_twos = number_twos - precision
    number_twos -= width - 1
    shared = min(number_twos, unit_twos)
    number_twos, unit_twos, room_twos = number_twos - shared, unit_twos - shared, room_twos - shared
    if width == 1:
        room_twos -= 1
    if room_twos < 0:
        number_twos, unit_twos, room_twos = number_twos - room_twos, unit_twos - room_twos, 0
    word = _word(width + number_twos + _bits_of_five(fives_up), unit_twos + 1 + _bits_of_five(fives_down + 1))
    number = mantissa * 5**fives_up << number_twos
    unit = 5**fives_down << unit_twos
    room = 5**fives_up << room_twos
    tens = unit * 10

    digit, number = divmod(number, unit)
    number, room = number * 10, _wrapped(room * 10, word)
    low, high = number < room, _reaches(number, room, tens, word)
    digits = []
    if digit == 0 and not high:
        power -= 1
    else:
        digits.append(digit)
    if not -3 <= power < 8:
        low = high = False  # with an exponent there are at least two digits
    while not low and not high:
        digit, number = divmod(number, unit)
        number, room = number * 10, _wrapped(room * 10, word)
        low, high = (number < room, _reaches(number, room, tens, word)) if room > 0 else (True, True)
        digits.append(digit)
    difference = 2 * number - tens
    text = "".join(map(str, digits))
    if high and (not low or difference > 0 or (difference == 0 and digits[-1] % 2)):
        rounded = str(int(text) + 1).rjust(len(text), "0")
        return (rounded[:-1], power + 1) if len(rounded) > len(text) else (rounded, power)
    return text, power


def _estimated_power(mantissa: int, width: int, top: int) -> int:
    """The power of ten, or one more."""
    between_1_and_2 = mantissa / (1 << (width - 1))
    return math.floor((between_1_and_2 - 1.5) * 0.289529654 + 0.176091259 + top * 0.301029995663981)


def _bits_of_five(power: int) -> int:
    return _BITS_OF_FIVES[power] if power < len(_BITS_OF_FIVES) else 3 * power


def _word(number_bits: int, tens_bits: int) -> int:
    """How many bits the original calculates with; 0 is any number of them."""
    most = max(number_bits, tens_bits)
    return _INT if most < _INT else _LONG if most < _LONG else 0


def _wrapped(number: int, word: int) -> int:
    """What an overflow makes of it. The original overlooks some, which gives it a digit too many."""
    if word == 0 or number < 1 << (word - 1):
        return number
    half = 1 << (word - 1)
    return (number + half) % (2 * half) - half


def _reaches(number: int, room: int, tens: int, word: int) -> bool:
    return number + room >= tens if word == 0 else _wrapped(number + room, word) > tens
