"""Where Groovy and JavaScript differ over one grammar: what is equal, true, less, and how values look as text."""

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
_WITHOUT_ORDER = (list, dict, Struct)
_FALSY_IN_GROOVY = (bool, str, int, float, Decimal, list, dict, bytes, Match)
_FALSY_IN_SCRIPT = (bool, str, int, float, Decimal, Match)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules of one language. ``compare`` gives a negative number, zero or a positive one, and None where neither is less."""

    name: str
    equals: Callable[[Any, Any], bool]
    """``==``."""
    is_true: Callable[[Any], bool]
    compare: Callable[[Any, Any], int | None]
    text: Callable[[Any], str]
    gives_operands: bool
    """``a || b`` is one of the two, not true or false."""
    missing_is_null: bool
    """A struct's field that is not in its schema, and a place outside of a text, is null and no error."""
    double_quotes_are_templates: bool
    decimal_literals: bool
    """``1.5`` is a decimal, not a double."""
    slashes_are_texts: bool
    """``/a/`` is a text and not a pattern."""


def is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def kind_of(value: Any) -> str:
    """What errors call a value's kind."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if is_number(value):
        return "a number"
    names = {str: "text", Struct: "a struct", dict: "a map", list: "a list", bytes: "bytes", Match: "a match"}
    return names.get(type(value), f"a {type(value).__name__}")


def same_numbers(left: Any, right: Any) -> bool:
    """Whether two numbers are equal; a decimal beside a double counts as one."""
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
    """``===``, and Groovy's ``==``: numbers by value, whatever their width; nothing else is converted."""
    if is_number(left):
        return is_number(right) and same_numbers(left, right)
    if isinstance(left, bool) or isinstance(right, bool) or is_number(right):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(strictly_equals(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and bool(left == right)


def _loosely_equals(left: Any, right: Any) -> bool:
    if isinstance(left, bool):
        left = int(left) if right is not None and not isinstance(right, bool) else left
    elif isinstance(right, bool) and left is not None:
        right = int(right)
    if is_number(left) and isinstance(right, str):
        right = script_number(right)
    elif isinstance(left, str) and is_number(right):
        left = script_number(left)
    return strictly_equals(left, right)


def script_number(value: Any) -> Any:
    """JavaScript's ``Number(value)``; what is no number gives NaN."""
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


def _groovy_truth(value: Any) -> bool:
    if value is True or value is False:
        return value
    return value is not None and (not isinstance(value, _FALSY_IN_GROOVY) or bool(value))


def _script_truth(value: Any) -> bool:
    if value is True or value is False:
        return value
    if value is None or value != value:
        return False
    return not isinstance(value, _FALSY_IN_SCRIPT) or bool(value)


def _groovy_compare(left: Any, right: Any) -> int | None:
    if is_number(left) and is_number(right):
        return _compare_numbers(left, right)
    if left is None or right is None:
        return (left is not None) - (right is not None)
    return _ordered(left, right)


def _ordered(left: Any, right: Any) -> int:
    if type(left) is type(right) and not isinstance(left, _WITHOUT_ORDER):
        try:
            return -1 if left < right else int(left > right)
        except TypeError:
            pass
    raise EvaluationError(f"{kind_of(left)} and {kind_of(right)} cannot be compared by size")


def _script_compare(left: Any, right: Any) -> int | None:
    if type(left) is type(right) and not isinstance(left, _NUMBERS) and left is not None:
        return _ordered(left, right)
    left, right = script_number(left), script_number(right)
    return _compare_numbers(left, right)


def _groovy_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        members = ", ".join(f"{_groovy_text(key)}:{_groovy_text(member)}" for key, member in value.items())
        return f"[{members or ':'}]"
    if isinstance(value, list):
        return f"[{', '.join(map(_groovy_text, value))}]"
    return java_text(None, value)


def _script_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, list):
        return ",".join("" if member is None else _script_text(member) for member in value)
    if isinstance(value, float):
        return "NaN" if value != value else repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    return java_text(None, value)


GROOVY = Dialect(
    "Groovy", strictly_equals, _groovy_truth, _groovy_compare, _groovy_text,
    gives_operands=False, missing_is_null=False, double_quotes_are_templates=True, decimal_literals=True, slashes_are_texts=True,
)  # fmt: skip
JAVASCRIPT = Dialect(
    "JavaScript", _loosely_equals, _script_truth, _script_compare, _script_text,
    gives_operands=True, missing_is_null=True, double_quotes_are_templates=False, decimal_literals=False, slashes_are_texts=False,
)  # fmt: skip
