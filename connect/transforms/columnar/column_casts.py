"""Casts whole columns as :mod:`connect.transforms.value_casts` casts single values.

A column of one plain class is cast in one call where that is faster; any other column is cast value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from connect.data.schema import Schema, Type
from connect.data.types import INT_RANGES
from connect.java.number_text import double_text
from connect.transforms.columnar.columns import Column, Constant, map_column
from connect.transforms.lossless import Caster
from connect.transforms.value_casts import INPUT_TYPES, NARROW

ColumnCaster = Callable[[Column], Column]
_BulkCaster = Callable[[Sequence[Any]], Column | None]
_NONE = type(None)
_TYPES = {str: Type.STRING, int: Type.INT64, float: Type.FLOAT64, bool: Type.BOOLEAN}
_SAFE_DIGITS = 18
"""Every number with this many digits fits into an int64."""


def column_caster(schema: Schema, target: Type, cast: Caster, *, strict: bool = False) -> ColumnCaster:
    """Builds the cast for columns of a schema; ``cast`` casts single values. Raises what ``cast`` raises."""
    bulk = None if strict else _bulk_caster(schema, target)
    if bulk is None:
        return lambda column: map_column(cast, column)
    python_type, cast_all = bulk

    def cast_column(column: Column) -> Column:
        if column.__class__ is Constant:
            return map_column(cast, column)
        kinds = set(map(type, column))
        if kinds == {python_type}:
            result = cast_all(column)
        elif kinds == {python_type, _NONE}:
            cast_values = cast_all([v for v in column if v is not None])
            rest = iter(cast_values or ())
            result = None if cast_values is None else [v if v is None else next(rest) for v in column]
        else:
            result = None
        return [cast(v) for v in column] if result is None else result

    return cast_column


def schemaless_column_caster(target: Type, cast: Caster, *, strict: bool = False) -> ColumnCaster:
    """Builds the cast for columns of values without a schema."""
    narrow = NARROW.get(target)
    known = {} if strict else {kind: _bulk_caster(Schema(source), target) for kind, source in _TYPES.items()}

    def cast_column(column: Column) -> Column:
        kinds = set(map(type, column))
        bulk = known.get(kinds.pop()) if len(kinds) == 1 else None
        result = None if bulk is None else bulk[1](column)
        if result is None:
            return [cast(v) for v in column]
        return result if narrow is None else list(map(narrow, result))

    return cast_column


def _bulk_caster(schema: Schema, target: Type) -> tuple[type, _BulkCaster] | None:
    """The value class that can be cast in one call, and the bulk cast; it returns None for values that need single casts."""
    source = schema.type
    if schema.name is not None or source not in INPUT_TYPES:
        return None
    if source in INT_RANGES and target in INT_RANGES:
        return int, _range_check(*INT_RANGES[target])
    if source is Type.STRING and target in INT_RANGES:
        check_range = _range_check(*INT_RANGES[target])
        return str, lambda texts: _parse_integers(texts, check_range)
    if source in INT_RANGES and target is Type.STRING:
        return int, lambda numbers: list(map(str, numbers))
    if source in INT_RANGES and target is Type.BOOLEAN:
        return int, lambda numbers: list(map(bool, numbers))
    if (source in INT_RANGES and target is Type.FLOAT64) or (source is Type.FLOAT32 and target is Type.FLOAT64):
        return (float if source is Type.FLOAT32 else int), lambda numbers: list(map(float, numbers))
    if source is Type.FLOAT64 and target is Type.STRING:
        return float, lambda numbers: list(map(double_text, numbers))
    if source is Type.STRING and target is Type.BOOLEAN:
        return str, lambda texts: [text.lower() == "true" for text in texts]
    if source is target and source in (Type.STRING, Type.BOOLEAN, Type.FLOAT64):
        return {Type.STRING: str, Type.BOOLEAN: bool, Type.FLOAT64: float}[source], lambda values: values
    return None


def _range_check(low: int, high: int) -> _BulkCaster:
    return lambda numbers: numbers if low <= min(numbers) and max(numbers) <= high else None


def _parse_integers(texts: Sequence[str], check_range: _BulkCaster) -> Column | None:
    joined = "".join(texts)
    if not (joined.isascii() and joined.isdigit()) or max(map(len, texts)) > _SAFE_DIGITS:
        return None
    try:
        return check_range(list(map(int, texts)))
    except ValueError:  # an empty text among them
        return None
