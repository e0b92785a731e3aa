"""An expression, parsed and compiled once, evaluated for each record."""

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
    """A compiled expression. It has no side effects, and one evaluation's work is bounded by the sizes of expression and data."""

    __slots__ = ("_evaluate", "dialect", "source")

    def __init__(self, source: str, dialect: Dialect, evaluate: Evaluate) -> None:
        self.source = source
        self.dialect = dialect
        self._evaluate = evaluate

    def value(self, subject: Any) -> Any:
        """What it gives for this subject. Raises EvaluationError (a DataError) that tells the part without a value."""
        try:
            return self._evaluate(subject)
        except EvaluationError as e:
            raise EvaluationError(f"The expression {self.source!r} has no value for this record: {e.message}") from e
        except RecursionError as e:
            raise EvaluationError(f"The expression {self.source!r} has no value for this record: it is nested too deeply") from e

    def holds(self, subject: Any) -> bool:
        """Its value as a condition. Raises EvaluationError when that is neither true nor false."""
        value = self.value(subject)
        if value is True or value is False:
            return value
        shown = "null" if value is None else f"{self.dialect.text(value)[:60]!r}"
        raise EvaluationError(
            f"The expression {self.source!r} gives {shown} for this record, and a condition is true or false; compare the value "
            "with something"
        )


def compile_expression(
    source: str, variables: Mapping[str, Callable[[Any], Any]], dialect: Dialect = GROOVY
) -> Expression:  # fmt: skip
    """The expression over variables that are read from a subject, as ``RECORD_VARIABLES`` are from a record. Raises
    ExpressionError (a ConfigError) for what is not in the language."""
    return Expression(source, dialect, compile_tree(source, parse(source, variables, dialect), variables, dialect))


def _headers(record: ConnectRecord) -> dict[str, HeaderValue]:
    """The headers by name; of several with one name the last."""
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
        "header": _headers,
        "headers": _headers,
    }
)
"""Each variable's name, and how it is read."""
