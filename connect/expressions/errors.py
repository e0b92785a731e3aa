"""Errors of expressions with their position, and the limits of one evaluation."""

from __future__ import annotations

from connect.errors import ConfigError, DataError

MAX_TEXT_LENGTH = 1_000_000
"""Maximum number of characters of constructed text."""
MAX_LIST_SIZE = 10_000
"""Maximum number of elements of a constructed list."""
MAX_INTEGER_BITS = 4_096
"""Maximum number of bits of a calculated integer."""
_EXCERPT_LENGTH = 30
_MAX_PART_LENGTH = 80


class ExpressionError(ConfigError):
    """An expression outside the language. The message has the position, the token, and the nearest alternative."""

    def __init__(self, source: str, position: int, problem: str) -> None:
        line = source.count("\n", 0, position) + 1
        where = f"position {position + 1}"
        if line > 1:
            where = f"line {line}, position {position - source.rfind(chr(10), 0, position)}"
        super().__init__(f"At {where} ({excerpt(source, position)}): {problem}")


class EvaluationError(DataError):
    """An expression that cannot be evaluated for a record."""

    located = False
    """Whether the message names the part of the expression."""

    def within(self, part: str) -> EvaluationError:
        """Adds the failed part of the expression to the message, unless it names a smaller part already."""
        if self.located:
            return self
        shortened = part if len(part) <= _MAX_PART_LENGTH else part[:_MAX_PART_LENGTH] + "..."
        error = EvaluationError(f"{self.message}, in {shortened}")
        error.located = True
        return error


def excerpt(source: str, position: int) -> str:
    """The text around a position, with a mark."""
    start, end = max(0, position - _EXCERPT_LENGTH), position + _EXCERPT_LENGTH
    text = f"{source[start:position]}>>>{source[position:end]}"
    return f"{'...' if start else ''}{text}{'...' if end < len(source) else ''}".replace("\n", " ")


def check_text_length(length: int) -> None:
    if length > MAX_TEXT_LENGTH:
        raise EvaluationError(f"the text would have {length} characters; the limit is {MAX_TEXT_LENGTH}")


def check_list_size(count: int) -> None:
    if count > MAX_LIST_SIZE:
        raise EvaluationError(f"the list would have {count} elements; the limit is {MAX_LIST_SIZE}")


def check_integer_bits(bits: int) -> None:
    if bits > MAX_INTEGER_BITS:
        raise EvaluationError(f"the number would have {bits} bits; the limit is {MAX_INTEGER_BITS}")
