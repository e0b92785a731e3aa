"""Whole columns to another type, as :mod:`connect.transforms.casting` does it value by value.

What is quick for a column of one plain class is done by one call for all; any other column goes value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from connect.data.schema import Schema, Type
from connect.data.types import INT_RANGES
from connect.java.number_text import double_text
from connect.transforms.casting import INPUT_TYPES, NARROW, Caster
from connect.transforms.columnar.columns import Column, Constant, map_column

ColumnCaster = Callable[[Column], Column]
_Quick = Callable[[Sequence[Any]], Column | None]
_NONE = type(None)
_SOURCES = {str: Type.STRING, int: Type.INT64, float: Type.FLOAT64, bool: Type.BOOLEAN}
_LONGEST_DIGITS = 18
"""As many digits as every int64 has room for."""


def column_caster(schema: Schema, target: Type, cast: Caster, *, strict: bool = False) -> ColumnCaster:
    """The cast of columns of a schema, whose values ``cast`` casts one by one. Raises what that raises."""
    quick = None if strict else _quick(schema, target)
    if quick is None:
        return lambda column: map_column(cast, column)
    python_type, cast_quickly = quick

    def cast_column(column: Column) -> Column:
        if column.__class__ is Constant:
            return map_column(cast, column)
        kinds = set(map(type, column))
        if kinds == {python_type}:
            changed = cast_quickly(column)
        elif kinds == {python_type, _NONE}:
            following = cast_quickly([v for v in column if v is not None])
            rest = iter(following or ())
            changed = None if following is None else [v if v is None else next(rest) for v in column]
        else:
            changed = None
        return [cast(v) for v in column] if changed is None else changed

    return cast_column


def schemaless_column_caster(target: Type, cast: Caster, *, strict: bool = False) -> ColumnCaster:
    """The same for columns of values that carry their own type."""
    narrow = NARROW.get(target)
    known = {} if strict else {kind: _quick(Schema(source), target) for kind, source in _SOURCES.items()}

    def cast_column(column: Column) -> Column:
        kinds = set(map(type, column))
        quick = known.get(kinds.pop()) if len(kinds) == 1 else None
        changed = None if quick is None else quick[1](column)
        if changed is None:
            return [cast(v) for v in column]
        return changed if narrow is None else list(map(narrow, changed))

    return cast_column


def _quick(schema: Schema, target: Type) -> tuple[type, _Quick] | None:
    """The one class of values that is cast all at once, and how; None from that leaves them to be cast one by one."""
    source = schema.type
    if schema.name is not None or source not in INPUT_TYPES:
        return None
    if source in INT_RANGES and target in INT_RANGES:
        return int, _bounded(*INT_RANGES[target])
    if source is Type.STRING and target in INT_RANGES:
        bounded = _bounded(*INT_RANGES[target])
        return str, lambda texts: _parsed(texts, bounded)
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


def _bounded(low: int, high: int) -> _Quick:
    return lambda numbers: numbers if low <= min(numbers) and max(numbers) <= high else None


def _parsed(texts: Sequence[str], bounded: _Quick) -> Column | None:
    joined = "".join(texts)
    if not (joined.isascii() and joined.isdigit()) or max(map(len, texts)) > _LONGEST_DIGITS:
        return None
    try:
        return bounded(list(map(int, texts)))
    except ValueError:  # an empty text among them
        return None
