"""Expressions: compiled once, evaluated for each record; and the variables of a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from connect.expressions.compiler import Evaluate, compile_tree
from connect.expressions.dialect import GROOVY, Dialect
from connect.expressions.errors import EvaluationError
from connect.expressions.members import HeaderValue
from connect.expressions.parser import parse
from connect.record import ConnectRecord


class Expression:
    """A compiled expression. Evaluation has no side effects, and its cost is bounded by the size of expression and data."""

    __slots__ = ("_evaluate", "dialect", "source")

    def __init__(self, source: str, dialect: Dialect, evaluate: Evaluate) -> None:
        self.source = source
        self.dialect = dialect
        self._evaluate = evaluate

    def value(self, subject: Any) -> Any:
        """Evaluates the expression. Raises EvaluationError (a DataError) that names the failed part."""
        try:
            return self._evaluate(subject)
        except EvaluationError as e:
            raise EvaluationError(f"The expression {self.source!r} failed for this record: {e.message}") from e
        except RecursionError as e:
            raise EvaluationError(f"The expression {self.source!r} failed for this record: the data is nested too deeply") from e

    def holds(self, subject: Any) -> bool:
        """Evaluates the expression as a condition. Raises EvaluationError if the result is neither true nor false."""
        value = self.value(subject)
        if value is True or value is False:
            return value
        shown = "null" if value is None else f"{self.dialect.text(value)[:60]!r}"
        raise EvaluationError(
            f"The expression {self.source!r} returns {shown} for this record; a condition must return true or false, so compare "
            "the value with something"
        )


def compile_expression(
    source: str, variables: Mapping[str, Callable[[Any], Any]], dialect: Dialect = GROOVY
) -> Expression:  # fmt: skip
    """Compiles an expression. ``variables`` are read from the subject of an evaluation, as ``RECORD_VARIABLES`` from a record.
    Raises ExpressionError (a ConfigError) for anything outside the language."""
    return Expression(source, dialect, compile_tree(source, parse(source, variables, dialect), variables, dialect))


def _headers_by_name(record: ConnectRecord) -> dict[str, HeaderValue]:
    """The headers by name; the last one if a name is repeated."""
    return {} if record.headers is None else {h.key: HeaderValue(h.schema, h.value) for h in record.headers}


RECORD_VARIABLES: Mapping[str, Callable[[ConnectRecord], Any]] = MappingProxyType(
    {
        "key": lambda record: record.key,
        "value": lambda record: record.value,
        "keySchema": lambda record: record.key_schema,
        "valueSchema": lambda record: record.value_schema,
        "topic": lambda record: record.topic,
        "partition": lambda record: record.partition,
        "timestamp": lambda record: record.timestamp,
        "header": _headers_by_name,
        "headers": _headers_by_name,
    }
)
"""The variables of a record: names, and the functions that read them."""
