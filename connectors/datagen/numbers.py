"""Generates numbers: at random from a range, or by iteration over the records."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

from connect.data.logical import DATE, MILLIS_PER_DAY, TIME, TIMESTAMP
from connect.data.types import INT_RANGES, Schema, Type
from connect.java.sized_numbers import round_to_float32
from connectors.datagen.annotations import ITERATION, RANGE, Annotations

ValueGenerator = Callable[[Random, int], Any]
"""Generates the value of record n from the random generator and n."""
MAX_FLOAT32 = (2 - 2**-23) * 2.0**127
_EXACT = 2**53
_DEFAULT_RANGES = {DATE: (0, 47_482), TIME: (0, MILLIS_PER_DAY), TIMESTAMP: (0, 47_482 * MILLIS_PER_DAY)}
"""Dates and timestamps without annotations are from 1970 to 2099; upper bounds are exclusive."""


def integer_limits(schema: Schema) -> tuple[int, int]:
    """Returns the smallest and the largest value of an integer schema."""
    return (0, MILLIS_PER_DAY - 1) if schema.name == TIME else INT_RANGES[schema.type]


def integer_generator(schema: Schema, annotations: Annotations) -> ValueGenerator:
    """Returns the generator of an integer schema, in stored units for logical types."""
    low, high = integer_limits(schema)
    if ITERATION in annotations:
        return iterated_integer(annotations, low, high)
    default_low, default_high = _DEFAULT_RANGES.get(schema.name or "", (low, high + 1))
    if RANGE not in annotations:
        return random_integer(default_low, default_high)
    bounds = annotations.inside(RANGE, "min", "max")
    minimum, maximum = bounds.integer("min", low, high), bounds.integer("max", low, high + 1)
    if minimum is None:
        minimum = default_low if maximum is None or maximum > default_low else low
    if maximum is None:
        maximum = default_high if minimum < default_high else high + 1
    check_range(bounds, minimum, maximum)
    return random_integer(minimum, maximum)


def check_range(bounds: Annotations, minimum: float | Decimal, maximum: float | Decimal) -> None:
    if not bounds.values:
        raise bounds.error("expected min, max, or both")
    if minimum >= maximum:
        raise bounds.error(f"min {minimum} and max {maximum} are an empty range, expected min < max: max is exclusive")


def random_integer(minimum: int, maximum: int) -> ValueGenerator:
    """Returns the generator of random integers below the maximum."""
    span = maximum - minimum
    if span <= _EXACT:
        return lambda random, number: minimum + int(random.random() * span)
    return lambda random, number: minimum + random.randrange(span)


def float_generator(schema: Schema, annotations: Annotations) -> ValueGenerator:
    """Returns the generator of a floating-point schema; without annotations, of numbers from 0 to 1."""
    is_float32 = schema.type is Type.FLOAT32
    limit = MAX_FLOAT32 if is_float32 else sys.float_info.max
    if ITERATION in annotations:
        return _iterated_float(annotations, limit, is_float32)
    minimum, maximum = 0.0, 1.0
    if RANGE in annotations:
        bounds = annotations.inside(RANGE, "min", "max")
        low, high = bounds.number("min", limit), bounds.number("max", limit)
        minimum, maximum = float(-limit if low is None else low), float(limit if high is None else high)
        if is_float32:
            minimum, maximum = round_to_float32(minimum), round_to_float32(maximum)
        check_range(bounds, minimum, maximum)
    return _random_float32(minimum, maximum) if is_float32 else _random_float(minimum, maximum)


def _random_float(minimum: float, maximum: float) -> ValueGenerator:
    span = maximum - minimum

    def generate(random: Random, number: int) -> float:
        share = random.random()
        value = minimum + share * span if span <= sys.float_info.max else minimum * (1 - share) + maximum * share
        # Rounding may reach the maximum, which is exclusive.
        return value if value < maximum else minimum

    return generate


def _random_float32(minimum: float, maximum: float) -> ValueGenerator:
    generate = _random_float(minimum, maximum)

    def generate_float32(random: Random, number: int) -> float:
        value = round_to_float32(generate(random, number))
        return value if value < maximum else minimum

    return generate_float32


def iterated_integer(annotations: Annotations, low: int, high: int) -> ValueGenerator:
    """Returns the generator of the iteration's integers."""
    members = annotations.inside(ITERATION, "start", "restart", "step", "initial")
    found = {name: members.integer(name, low, high) for name in ("start", "restart", "step", "initial")}
    start, step, span, offset = _iteration(members, found, low, high)
    return _iterate(start, step, span, offset)


def _iterated_float(annotations: Annotations, limit: float, is_float32: bool) -> ValueGenerator:
    members = annotations.inside(ITERATION, "start", "restart", "step", "initial")
    found: dict[str, Decimal | None] = {}
    for name in ("start", "restart", "step", "initial"):
        value = members.number(name, limit)
        found[name] = None if value is None else Decimal(repr(value))
    # Decimal fractions are exact as integers of a common unit: the original iterates over BigDecimals.
    digits = max(_fraction_digits(value) for value in (*found.values(), Decimal(repr(limit))) if value is not None)
    unit = 10**digits
    scaled = {name: None if value is None else _scaled(value, digits) for name, value in found.items()}
    extreme = int(limit) * unit
    iterate = _iterate(*_iteration(members, scaled, -extreme, extreme, unit))
    if is_float32:
        return lambda random, number: round_to_float32(iterate(random, number) / unit)
    return lambda random, number: iterate(random, number) / unit


def _fraction_digits(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _scaled(value: Decimal, digits: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    unit: int = 10**digits
    return numerator * unit // denominator


def _iteration(
    members: Annotations, found: dict[str, int | None], low: int, high: int, unit: int = 1
) -> tuple[int, int, int, int]:
    """Returns start, step, the distance to the restart, and the distance to the first value."""
    start, restart, step, initial = (found[name] for name in ("start", "restart", "step", "initial"))
    if start is None:
        raise members.error("expected start")
    if step == 0:
        raise members.error("step is 0, expected another number")
    if step is None:
        step = unit if restart is None or restart > start else -unit
    if restart is None:
        restart = high if step > 0 else low
    if restart == start:
        raise members.error("start and restart are equal, expected different numbers")
    if (restart > start) != (step > 0):
        raise members.error("step leads away from restart, expected the opposite sign")
    offset = 0 if initial is None else initial - start
    if offset and (offset > 0) != (step > 0):
        raise members.error("initial lies before start, expected a number between start and restart")
    return start, step, abs(restart - start), offset


def _iterate(start: int, step: int, span: int, offset: int) -> ValueGenerator:
    sign = 1 if step > 0 else -1
    step, offset = abs(step), abs(offset)

    def generate(random: Random, number: int) -> int:
        # Only the first value may lie behind the restart.
        return start + sign * ((number * step + offset) % span if number else offset)

    return generate


def boolean_generator(annotations: Annotations) -> ValueGenerator:
    if ITERATION in annotations:
        start = annotations.inside(ITERATION, "start").values.get("start")
        if not isinstance(start, bool):
            raise annotations.error(f"iteration.start is {start!r}, expected true or false")
        return lambda random, number: start ^ (number % 2 == 1)
    odds = annotations.number("odds", 1.0)
    if odds is not None and odds < 0:
        raise annotations.error(f"odds is {odds}, expected 0 to 1")
    share = 0.5 if odds is None else odds
    return lambda random, number: random.random() < share
