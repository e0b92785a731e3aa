"""A safe expression language for conditions and topic names, over a record's key, value, topic, headers, and schemas.

It covers what people usually write in Groovy and JavaScript for this purpose, but cannot reach anything outside the record: names
and methods come from fixed lists, there are no loops, functions, or assignments, and size, nesting, texts, and regular
expressions are bounded. ``docs/expressions.md`` describes the language.
"""

from connect.expressions.dialect import GROOVY, JAVASCRIPT, Dialect
from connect.expressions.expression import RECORD_VARIABLES, Expression, compile_expression

__all__ = ["GROOVY", "JAVASCRIPT", "RECORD_VARIABLES", "Dialect", "Expression", "compile_expression"]
