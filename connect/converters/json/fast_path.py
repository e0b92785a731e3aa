"""Parts of the fast path that reading and writing share: columns, and checks that the C codec behaves exactly like Apache.

The checks of schemaless values scan a whole batch, with a few passes in C for each column. That costs about as much as reading or
writing; a scan value by value would cost several times as much.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any

from connect.data.schema import Type
from connect.data.types import INT_RANGES

Column = Callable[[Sequence[Any]], Sequence[Any]]
"""Converts the values of one column. Raises FastPathMiss."""

_SMALLEST, _LARGEST = INT_RANGES[Type.INT64]
_BIG = 2.0**63
_NONE = type(None)
_ALWAYS_EXACT = {str, bool, _NONE}
_PLAIN = {*_ALWAYS_EXACT, int, float, dict, list}
_MAX_COLUMNS = 10_000
"""The maximum number of columns to scan. A value that contains itself has infinitely many: the slow path decides."""
_MAX_VALUES = 1 << 20
"""The maximum size of one column."""


class FastPathMiss(Exception):
    """A batch contains something that the fast path does not handle. Not an error: the slow path decides."""


def nullable_column(types: set[type], convert: Column, null: Any, *, allows_null: bool) -> Column:
    """Returns a column that converts the values of these types and replaces nulls by ``null``; it raises FastPathMiss for other
    types, and for nulls that are not allowed."""

    def column(values: Sequence[Any]) -> Sequence[Any]:
        found = set(map(type, values))
        if found and found <= types:
            return convert(values)
        found.discard(_NONE)
        if not found <= types or not allows_null:
            raise FastPathMiss
        if not found:
            return values if null is None else [null] * len(values)
        present = [v for v in values if v is not None]
        converted = convert(present)
        if converted is present and null is None:
            return values
        following = iter(converted)
        return [null if v is None else next(following) for v in values]

    return column


def keep_column(values: Sequence[Any]) -> Sequence[Any]:
    """Returns the values unchanged."""
    return values


def integer_column(low: int, high: int) -> Column:
    """Returns a column that checks the range of integers."""

    def check(values: Sequence[int]) -> Sequence[int]:
        if min(values) < low or max(values) > high:
            raise FastPathMiss
        return values

    return check


def list_column(element: Column) -> Column:
    """Returns a column that converts the elements of all lists as one column."""

    def convert(values: Sequence[list[Any]]) -> Sequence[Any]:
        flat = list(chain.from_iterable(values))
        if not flat:
            return values
        converted = element(flat)
        if converted is flat:
            return values
        following = iter(converted)
        return [list(islice(following, len(v))) for v in values]

    return convert


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """Returns the unscaled number of a decimal. Raises FastPathMiss, or ValueError if it is not finite."""
    # The text is the cheapest exact way: "12.30" with scale 2 is 1230. Other exponents take the slow path.
    whole, _, fraction = str(value).partition(".")
    if len(fraction) == scale:
        return int(whole + fraction)
    if value or value.as_tuple().exponent != -scale:
        raise FastPathMiss
    return 0  # its text has an exponent beyond six digits: 0E-8


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Checks of columns of numbers."""

    ints: Callable[[Sequence[int]], bool]
    floats: Callable[[Sequence[float]], bool]


def writes_exactly(values: Sequence[Any]) -> bool:
    """Returns whether the codec writes all of these values like Jackson, except for escapes in text."""
    return _are_plain(values, _WRITTEN)


def was_read_exactly(nodes: Sequence[Any]) -> bool:
    """Returns whether the codec read all of these values like Apache. It reads integers beyond 64 bits as floats, where Apache
    wraps them, and keeps the sign of -0.0, which Apache's decimals do not have."""
    return _are_plain(nodes, _READ)


def _are_plain(values: Sequence[Any], numbers: _Numbers) -> bool:
    try:
        return _scan(values, numbers, _MAX_COLUMNS) > 0
    except RecursionError:
        return False


def _scan(values: Sequence[Any], numbers: _Numbers, left: int) -> int:
    """Returns how many more columns may be scanned; 0 if a check failed or there are too many."""
    types = set(map(type, values))
    if types <= _ALWAYS_EXACT:
        return left - 1
    if not types <= _PLAIN:
        return 0
    alone = len(types) == 1
    if int in types and not numbers.ints(values if alone else [v for v in values if type(v) is int]):
        return 0
    if float in types and not numbers.floats(values if alone else [v for v in values if type(v) is float]):
        return 0
    if list in types:
        elements = list(chain.from_iterable(values if alone else [v for v in values if type(v) is list]))
        left = _scan(elements, numbers, left) if len(elements) <= _MAX_VALUES else 0
    if dict in types and left > 0:
        for column in _columns(values if alone else [v for v in values if type(v) is dict]):
            left = _scan(column, numbers, left) if len(column) <= _MAX_VALUES else 0
            if left <= 0:
                break
    return left - 1


def _columns(rows: Sequence[dict[Any, Any]]) -> Iterable[Sequence[Any]]:
    """Yields the values of dicts as columns if all have the same keys, because a column usually has one type; otherwise all
    values as one column."""
    first = rows[0]
    if len(first) > 1 and len(rows) > 1 and set(map(len, rows)) == {len(first)}:
        try:
            return zip(*map(itemgetter(*first), rows), strict=True)
        except KeyError:
            pass
    return (list(chain.from_iterable([row.values() for row in rows])),)


def _floats_are_written_exactly(numbers: Sequence[float]) -> bool:
    # Only in this range is the codec's text the same as Java's. Usually all numbers of a column are in it.
    return False not in [0.001 <= v < 1e7 or v == 0.0 or -1e7 < v <= -0.001 for v in numbers]


def _floats_were_read_exactly(numbers: Sequence[float]) -> bool:
    if not -_BIG < min(numbers) <= max(numbers) < _BIG:
        return False
    return 0.0 not in numbers or all(math.copysign(1.0, v) > 0.0 for v in numbers if v == 0.0)


_WRITTEN = _Numbers(lambda numbers: min(numbers) >= _SMALLEST and max(numbers) <= _LARGEST, _floats_are_written_exactly)
# The codec reads integers below the smallest as floats.
_READ = _Numbers(lambda numbers: max(numbers) <= _LARGEST, _floats_were_read_exactly)
