"""The functions of the language, such as ``parseInt(text)``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from connect.expressions.dialect import Dialect, to_script_number
from connect.expressions.errors import MAX_TEXT_LENGTH, EvaluationError

_LEADING_INTEGER = re.compile(r"\s*([+-]?\d{1,300})")
_LEADING_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_MAX_DIGITS = 400


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """A function; ``arity`` is the minimum and maximum number of arguments."""

    arity: tuple[int, int]
    call: Callable[..., Any]
    doc: str


def parse_json(text: Any) -> Any:
    """Parses JSON text into maps, lists, text, numbers, booleans, and null. Raises EvaluationError."""
    if not isinstance(text, str):
        raise EvaluationError("only text can be parsed as JSON")
    if len(text) > MAX_TEXT_LENGTH:
        raise EvaluationError(f"the JSON text has {len(text)} characters; the limit is {MAX_TEXT_LENGTH}")
    try:
        return orjson.loads(text)
    except ValueError as e:
        raise EvaluationError(f"the text is not JSON: {e}") from e


def to_number(text: Any, kind: type[int] | type[float] | type[Decimal]) -> Any:
    """Groovy's ``toInteger`` and similar methods. Raises EvaluationError if the value is not such a number."""
    if isinstance(text, bool) or not isinstance(text, str | int | float | Decimal):
        raise EvaluationError("only text and numbers can be converted to a number")
    try:
        if isinstance(text, str) and len(text) > _MAX_DIGITS:
            raise ValueError
        if isinstance(text, Decimal) and text.is_finite() and text.adjusted() > _MAX_DIGITS:
            raise ValueError
        return kind(text.strip() if isinstance(text, str) else text)
    except (ValueError, ArithmeticError) as e:
        raise EvaluationError(f"{str(text)[:40]} is not a number of that kind") from e


def _parse_int(dialect: Dialect, value: Any) -> Any:
    found = _LEADING_INTEGER.match(dialect.text(value))
    return math.nan if found is None else int(found[1])


def _parse_float(dialect: Dialect, value: Any) -> Any:
    found = _LEADING_NUMBER.match(dialect.text(value))
    return math.nan if found is None else float(found[1])


def _is_nan(_: Dialect, value: Any) -> bool:
    number = to_script_number(value)
    return bool(number != number)


FUNCTIONS: dict[str, FunctionEntry] = {
    "String": FunctionEntry((1, 1), lambda dialect, value: dialect.text(value), "the value as text"),
    "Number": FunctionEntry((1, 1), lambda _, value: to_script_number(value), "the value as a number, or NaN"),
    "Boolean": FunctionEntry((1, 1), lambda dialect, value: dialect.is_true(value), "whether the value is truthy"),
    "parseInt": FunctionEntry((1, 1), _parse_int, "the integer at the start of text, or NaN"),
    "parseFloat": FunctionEntry((1, 1), _parse_float, "the number at the start of text, or NaN"),
    "isNaN": FunctionEntry((1, 1), _is_nan, "whether the value is not a number"),
    "JSON.parse": FunctionEntry((1, 1), lambda _, text: parse_json(text), "JSON text as maps and lists"),
}
