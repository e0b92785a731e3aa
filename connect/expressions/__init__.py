"""A safe language for conditions and names: expressions over a record's key, value, topic, headers and schemas.

It reads what people write in Groovy and JavaScript for such purposes, and nothing that could reach outside of the record: names
and methods come from closed lists, there are no loops, functions or assignments, and size, nesting, texts and regular
expressions are bounded. The language is told in ``docs/expressions.md``.
"""

from connect.expressions.dialect import GROOVY, JAVASCRIPT, Dialect
from connect.expressions.expression import RECORD_VARIABLES, Expression, compile_expression

__all__ = ["GROOVY", "JAVASCRIPT", "RECORD_VARIABLES", "Dialect", "Expression", "compile_expression"]
