"""Arithmetic: exact for integers and decimals, double precision if an operand is a double."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

from connect.expressions.dialect import JAVASCRIPT, Dialect, describe_kind, is_number, to_script_number
from connect.expressions.errors import MAX_INTEGER_BITS, EvaluationError, check_integer_bits, check_list_size, check_text_length

_EXTRA_DIGITS = 10
"""A quotient of decimals has this many more digits than its operands, and at most this many decimals, as in Groovy."""
_DECIMALS = Context(prec=1_500, Emax=100_000, Emin=-100_000)

Operation = Callable[[Any, Any], Any]


def _convert_operands(operator: str, left: Any, right: Any, dialect: Dialect) -> tuple[Any, Any]:
    """Converts operands to two floats, two integers, or two decimals. Raises EvaluationError for operands without a meaning."""
    if not (is_number(left) and is_number(right)):
        if dialect is not JAVASCRIPT:
            raise EvaluationError(f"{describe_kind(left)} {operator} {describe_kind(right)} is not supported")
        left, right = to_script_number(left), to_script_number(right)
    if isinstance(left, float) or isinstance(right, float):
        return _to_double(left), _to_double(right)
    if isinstance(left, int) and isinstance(right, int):
        check_integer_bits(max(left.bit_length(), right.bit_length()))
        return left, right
    return Decimal(left), Decimal(right)


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check_size(value: Any) -> Any:
    if isinstance(value, int):
        check_integer_bits(value.bit_length())
    elif isinstance(value, Decimal):
        check_integer_bits(len(value.as_tuple().digits) * 4)
    return value


def _add(left: Any, right: Any, dialect: Dialect) -> Any:
    if isinstance(left, str) or isinstance(right, str):
        first, second = dialect.text(left), dialect.text(right)
        check_text_length(len(first) + len(second))
        return first + second
    if isinstance(left, list) and dialect is not JAVASCRIPT:
        added = right if isinstance(right, list) else [right]
        check_list_size(len(left) + len(added))
        return [*left, *added]
    first, second = _convert_operands("+", left, right, dialect)
    with localcontext(_DECIMALS):
        return _check_size(first + second)


def _subtract(left: Any, right: Any, dialect: Dialect) -> Any:
    if isinstance(left, str) and dialect is not JAVASCRIPT:
        return left.replace(dialect.text(right), "", 1)
    first, second = _convert_operands("-", left, right, dialect)
    with localcontext(_DECIMALS):
        return _check_size(first - second)


def _multiply(left: Any, right: Any, dialect: Dialect) -> Any:
    if isinstance(left, str) and isinstance(right, int) and not isinstance(right, bool) and dialect is not JAVASCRIPT:
        return repeat_text(left, right)
    first, second = _convert_operands("*", left, right, dialect)
    with localcontext(_DECIMALS):
        return _check_size(first * second)


def repeat_text(text: str, count: Any) -> str:
    """Repeats text. Raises EvaluationError if the result would be too long."""
    if not isinstance(count, int) or count < 0:
        raise EvaluationError(f"a text cannot be repeated {count} times")
    check_text_length(len(text) * count)
    return text * count


def _divide(left: Any, right: Any, dialect: Dialect) -> Any:
    first, second = _convert_operands("/", left, right, dialect)
    if dialect is JAVASCRIPT or isinstance(first, float):
        first, second = _to_double(first), _to_double(second)
        if second == 0:
            return math.nan if first == 0 or first != first else math.copysign(math.inf, first) * math.copysign(1, second)
        return first / second
    if second == 0:
        raise EvaluationError("division by zero")
    if isinstance(first, int) and first % second == 0:
        return first // second
    return _divide_decimals(Decimal(first), Decimal(second))


def _divide_decimals(left: Decimal, right: Decimal) -> Decimal:
    """Divides exactly if the quotient is finite, else with as many digits as Groovy."""
    digits = max(len(left.as_tuple().digits), len(right.as_tuple().digits)) + _EXTRA_DIGITS
    with localcontext(Context(prec=digits, rounding=ROUND_HALF_UP, Emax=100_000, Emin=-100_000)):
        quotient = left / right
    scale = max(-int(left.as_tuple().exponent), -int(right.as_tuple().exponent), _EXTRA_DIGITS)
    with localcontext(_DECIMALS) as exact:
        exact.rounding = ROUND_HALF_UP
        if quotient * right != left and -int(quotient.as_tuple().exponent) > scale:
            quotient = quotient.quantize(Decimal(1).scaleb(-scale))
    return quotient


def _remainder(left: Any, right: Any, dialect: Dialect) -> Any:
    first, second = _convert_operands("%", left, right, dialect)
    if isinstance(first, float) or (dialect is JAVASCRIPT and second == 0):
        first, second = _to_double(first), _to_double(second)
        return math.nan if second == 0 or math.isinf(first) or first != first else math.fmod(first, second)
    if second == 0:
        raise EvaluationError("division by zero")
    if isinstance(first, int):
        rest = abs(first) % abs(second)
        return -rest if first < 0 else rest
    # As in Java, a value smaller than the divisor keeps its decimals.
    with localcontext(_DECIMALS):
        return first if abs(first) < abs(second) else _check_size(first % second)


def _power(left: Any, right: Any, dialect: Dialect) -> Any:
    first, second = _convert_operands("**", left, right, dialect)
    if not isinstance(second, int) or second < 0 or not isinstance(first, int):
        try:
            raised = float(first) ** float(second)
        except OverflowError:
            return math.inf
        except ZeroDivisionError:
            return math.inf
        return raised if isinstance(raised, float) else math.nan
    check_integer_bits(min(second, MAX_INTEGER_BITS + 1) * max(1, first.bit_length() - 1) if abs(first) > 1 else 1)
    return _check_size(first**second)


def negate(value: Any, dialect: Dialect) -> Any:
    return _subtract(0, value, dialect)


def find_operation(operator: str, dialect: Dialect) -> Operation:
    """The function for ``+ - * / % **``."""
    functions = {"+": _add, "-": _subtract, "*": _multiply, "/": _divide, "%": _remainder, "**": _power}
    function = functions[operator]

    def calculate(left: Any, right: Any) -> Any:
        try:
            return function(left, right, dialect)
        except ArithmeticError as e:
            raise EvaluationError("the numbers are too large, or differ too much in size") from e

    return calculate
