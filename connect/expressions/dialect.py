"""The differences between Groovy and JavaScript: equality, truth, order, and conversion to text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from connect.data.java_text import java_text
from connect.data.struct import Struct
from connect.expressions.errors import EvaluationError
from connect.expressions.regular_expressions import Match

_NUMBERS = (int, float, Decimal)
_UNORDERED = (list, dict, Struct)
_FALSY_IN_GROOVY = (bool, str, int, float, Decimal, list, dict, bytes, Match)
_FALSY_IN_SCRIPT = (bool, str, int, float, Decimal, Match)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The semantics of one language. ``compare`` returns a negative number, zero, or a positive one; None if unordered."""

    name: str
    equals: Callable[[Any, Any], bool]
    """``==``."""
    is_true: Callable[[Any], bool]
    compare: Callable[[Any, Any], int | None]
    text: Callable[[Any], str]
    returns_operands: bool
    """``a || b`` returns one of the operands, not true or false."""
    missing_is_null: bool
    """A field that a struct's schema does not have, or an index outside of text, is null and not an error."""
    double_quotes_are_templates: bool
    decimal_literals: bool
    """``1.5`` is a decimal, not a double."""
    slashes_are_texts: bool
    """``/a/`` is text and not a pattern."""


def is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def describe_kind(value: Any) -> str:
    """The kind of a value, for errors."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if is_number(value):
        return "a number"
    names = {str: "text", Struct: "a struct", dict: "a map", list: "a list", bytes: "bytes", Match: "a match"}
    return names.get(type(value), f"a {type(value).__name__}")


def numbers_equal(left: Any, right: Any) -> bool:
    """Whether two numbers are equal; a decimal is compared with a double as a double."""
    if isinstance(left, Decimal) and isinstance(right, float):
        return float(left) == right
    if isinstance(left, float) and isinstance(right, Decimal):
        return left == float(right)
    return bool(left == right)


def _compare_numbers(left: Any, right: Any) -> int | None:
    if isinstance(left, Decimal) and isinstance(right, float):
        left = float(left)
    elif isinstance(left, float) and isinstance(right, Decimal):
        right = float(right)
    if left == right:
        return 0
    if left < right:
        return -1
    return 1 if left > right else None


def strictly_equals(left: Any, right: Any) -> bool:
    """``===``, and Groovy's ``==``: compares numbers by value; converts nothing else."""
    if is_number(left):
        return is_number(right) and numbers_equal(left, right)
    if isinstance(left, bool) or isinstance(right, bool) or is_number(right):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(strictly_equals(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and bool(left == right)


def _equals_loosely(left: Any, right: Any) -> bool:
    if isinstance(left, bool):
        left = int(left) if right is not None and not isinstance(right, bool) else left
    elif isinstance(right, bool) and left is not None:
        right = int(right)
    if is_number(left) and isinstance(right, str):
        right = to_script_number(right)
    elif isinstance(left, str) and is_number(right):
        left = to_script_number(left)
    return strictly_equals(left, right)


def to_script_number(value: Any) -> Any:
    """JavaScript's ``Number(value)``; NaN for anything that is not a number."""
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if is_number(value):
        return value
    if isinstance(value, str):
        text = value.strip()
        try:
            return int(text) if text.lstrip("+-").isdecimal() and len(text) < 300 else float(text) if text else 0
        except ValueError:
            return math.nan
    return math.nan


def _is_true_in_groovy(value: Any) -> bool:
    if value is True or value is False:
        return value
    return value is not None and (not isinstance(value, _FALSY_IN_GROOVY) or bool(value))


def _is_true_in_script(value: Any) -> bool:
    if value is True or value is False:
        return value
    if value is None or value != value:
        return False
    return not isinstance(value, _FALSY_IN_SCRIPT) or bool(value)


def _compare_in_groovy(left: Any, right: Any) -> int | None:
    if is_number(left) and is_number(right):
        return _compare_numbers(left, right)
    if left is None or right is None:
        return (left is not None) - (right is not None)
    return _compare_same_type(left, right)


def _compare_same_type(left: Any, right: Any) -> int:
    if type(left) is type(right) and not isinstance(left, _UNORDERED):
        try:
            return -1 if left < right else int(left > right)
        except TypeError:
            pass
    raise EvaluationError(f"{describe_kind(left)} and {describe_kind(right)} cannot be ordered")


def _compare_in_script(left: Any, right: Any) -> int | None:
    if type(left) is type(right) and not isinstance(left, _NUMBERS) and left is not None:
        return _compare_same_type(left, right)
    left, right = to_script_number(left), to_script_number(right)
    return _compare_numbers(left, right)


def _to_groovy_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        members = ", ".join(f"{_to_groovy_text(key)}:{_to_groovy_text(member)}" for key, member in value.items())
        return f"[{members or ':'}]"
    if isinstance(value, list):
        return f"[{', '.join(map(_to_groovy_text, value))}]"
    return java_text(None, value)


def _to_script_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, list):
        return ",".join("" if member is None else _to_script_text(member) for member in value)
    if isinstance(value, float):
        return "NaN" if value != value else repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    return java_text(None, value)


GROOVY = Dialect(
    "Groovy", strictly_equals, _is_true_in_groovy, _compare_in_groovy, _to_groovy_text,
    returns_operands=False, missing_is_null=False, double_quotes_are_templates=True, decimal_literals=True,
    slashes_are_texts=True,
)  # fmt: skip
JAVASCRIPT = Dialect(
    "JavaScript", _equals_loosely, _is_true_in_script, _compare_in_script, _to_script_text,
    returns_operands=True, missing_is_null=True, double_quotes_are_templates=False, decimal_literals=False,
    slashes_are_texts=False,
)  # fmt: skip
