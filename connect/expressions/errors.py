"""What is wrong with an expression, and where."""

from __future__ import annotations

from connect.errors import ConfigError, DataError

_SHOWN = 30
_PART_SHOWN = 80


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
        error = EvaluationError(f"{self.message}, in {part if len(part) <= _PART_SHOWN else part[:_PART_SHOWN] + '...'}")
        error.located = True
        return error


def excerpt(source: str, at: int) -> str:
    """The text around a position, which is marked."""
    before, after = source[max(0, at - _SHOWN) : at], source[at : at + _SHOWN]
    return f"{'...' if at > _SHOWN else ''}{before}>>>{after}{'...' if at + _SHOWN < len(source) else ''}".replace("\n", " ")
