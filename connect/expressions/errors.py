"""What is wrong with an expression, and where."""

from __future__ import annotations

from connect.errors import ConfigError, DataError

MAX_TEXT_LENGTH = 1_000_000
"""Characters of a text that an expression puts together."""
MAX_LIST_SIZE = 10_000
"""Members of a list that an expression makes."""
MAX_INTEGER_BITS = 4_096
"""Bits of a whole number that an expression calculates."""
_EXCERPT_LENGTH = 30
_MAX_PART_LENGTH = 80


class ExpressionError(ConfigError):
    """An expression that is not in the language. The message tells position, token, and what there is instead."""

    def __init__(self, source: str, at: int, problem: str) -> None:
        line = source.count("\n", 0, at) + 1
        place = f"position {at + 1}" if line == 1 else f"line {line}, position {at - source.rfind(chr(10), 0, at)}"
        super().__init__(f"At {place} ({excerpt(source, at)}): {problem}")


class EvaluationError(DataError):
    """An expression that has no value for this record."""

    located = False
    """The message tells the part of the expression."""

    def within(self, part: str) -> EvaluationError:
        """The same with the part that has no value, unless a smaller one is told already."""
        if self.located:
            return self
        error = EvaluationError(
            f"{self.message}, in {part if len(part) <= _MAX_PART_LENGTH else part[:_MAX_PART_LENGTH] + '...'}"
        )
        error.located = True
        return error


def excerpt(source: str, at: int) -> str:
    """The text around a position, which is marked."""
    before, after = source[max(0, at - _EXCERPT_LENGTH) : at], source[at : at + _EXCERPT_LENGTH]
    return (
        f"{'...' if at > _EXCERPT_LENGTH else ''}{before}>>>{after}{'...' if at + _EXCERPT_LENGTH < len(source) else ''}".replace(
            "\n", " "
        )
    )


def check_text_length(length: int) -> None:
    if length > MAX_TEXT_LENGTH:
        raise EvaluationError(f"a text of {length} characters would be made; {MAX_TEXT_LENGTH} are the most")


def check_list_size(count: int) -> None:
    if count > MAX_LIST_SIZE:
        raise EvaluationError(f"a list of {count} members would be made; {MAX_LIST_SIZE} are the most")


def check_integer_bits(bits: int) -> None:
    if bits > MAX_INTEGER_BITS:
        raise EvaluationError(f"a number of {bits} bits would be calculated; {MAX_INTEGER_BITS} are the most")
