"""What is not in the language is refused when it is read, with place and reason."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.expressions import GROOVY, JAVASCRIPT, RECORD_VARIABLES, compile_expression
from connect.expressions.methods import METHODS
from connect.record import SourceRecord

VARIABLES = "header, headers, key, keySchema, partition, timestamp, topic, value, valueSchema"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("System.exit(0)", f"At position 1 (>>>System.exit(0)): there is no variable System; known: {VARIABLES}"),
        ("java.lang.Runtime.getRuntime().exec('x')", "no variable java"),
        ("eval('1')", "no variable eval; did you mean value?"),
        ("Java.type('x')", "no variable Java"),
        ("__import__('os')", "no variable __import__"),
        ("import os", "statements and definitions are not supported"),
        ("def x = 1", "statements and definitions are not supported"),
        ("var x = 1; x", "statements and definitions are not supported"),
        ("if (true) 1", "statements and definitions are not supported"),
        ("new File('x')", "JsonSlurper is the only class"),
        ("new groovy.json.JsonSlurper", "( is expected after JsonSlurper"),
        ("JSON.stringify(1)", "JsonSlurper is the only class"),
        ("value.getClass()", "there is no method getClass"),
        ("value.op.execute()", "At position 10 (value.op.>>>execute()): there is no method execute"),
        ("value.__class__()", "there is no method __class__"),
        ("value.op.startWith('a')", "did you mean startsWith?"),
        ("value.op.trim(1)", "trim takes 0 arguments, not 1"),
        ("value.op.substring()", "substring takes 1 to 2 arguments, not 0"),
        ("value.op = 'u'", "assignments are not supported; == compares"),
        ("value.op & 1", "&& is the logical and"),
        ("{ it }", "blocks, closures, and maps are not supported"),
        ("value.find { it }", "unexpected symbol {"),
        ("value.op.each({ it })", "there is no method each"),
        ("[a: 1]", "no variable a"),
        ("[:]", "maps are not supported"),
        ("valeu.op", "did you mean value?"),
        ("topic()", "only methods of a value can be called"),
        ("(value.op", ") is expected to close the parenthesis, but found the end"),
        ("value.", "a name is expected after the dot, but found the end"),
        ("value.op ==", "a value is expected, but found the end"),
        ("1 2", "At position 3 (1 >>>2): unexpected number 2"),
        ("", "the expression is empty"),
        (" ; ", "the expression is empty"),
        ("'x", "the text is not closed: ' is missing"),
        ("'x\n'", "not closed: ' is missing"),
        ('"${topic', "is not closed"),
        ('"${}"', "the expression is empty"),
        (r"'\u00'", "four hexadecimal digits"),
        ("/abc", "/ is missing"),
        ("1abc", "1abc is not a number"),
        ("9" * 500, "too many digits"),
        ("1e999999", "too many digits"),
        ("topic #", "unexpected character '#'"),
        ("topic ? 1", ": is expected between the two values of ?"),
        ("topic.matches('(')", "cannot be used"),
        ("topic ==~ /(a+)+b/", "can double with each character"),
        ("(" * 100 + "1" + ")" * 100, "nested too deeply"),
        ("!" * 5_000 + "true", "nested too deeply"),
        ("-" * 5_000 + "1", "nested too deeply"),
        ("[" * 5_000, "nested too deeply"),
        ("value" + ".op" * 5_000, "nested too deeply"),
        ("1" + " + 1" * 4_000, "nested too deeply"),
        ("1 ? " * 4_000 + "1", "nested too deeply"),
        ('"${' * 50, "too many nested templates; the limit is 8"),
        ("1 + " * 6_000 + "1", "the limit is 20000"),
        ("topic\n  .foo()", "At line 2, position 4"),
    ],
)
def test_unsupported_groovy_is_rejected(source: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_expression(source, RECORD_VARIABLES, GROOVY)
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("typeof value", "no variable typeof"),
        ("process.exit()", "no variable process"),
        ("value => true", "unexpected symbol ="),
        ("(function() { return 1 })()", "statements and definitions are not supported"),
        ("this.constructor", "no variable this"),
        ("value.constructor('x')", "there is no method constructor"),
        ("/a/x.test(topic)", "has the unknown flag x"),
    ],
)
def test_unsupported_javascript_is_rejected(source: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_expression(source, RECORD_VARIABLES, JAVASCRIPT)
    assert problem in caught.value.message


def test_long_chain_of_conditions_compiles() -> None:
    source = " || ".join(f"topic == 't{i}'" for i in range(1_000))
    assert compile_expression(source, RECORD_VARIABLES).holds(SourceRecord({}, {}, "t999")) is True


_PIECES = st.sampled_from(
    [
        "value", "topic", "header", "key", ".op", "?.after", ".get('op')", "['x']", "[0]", "[-1]", "'text'", '"$topic"',
        '"${value}"', "`${topic}`", "/a+/", "/(b)/g", "1", "2.5", "0x1", "10L", "null", "true", "==", "!=", "===", "=~", "==~",
        "<", "<=>", "&&", "||", "and", "or", "not", "!", "in", "not in", "?", ":", "?:", "??", "+", "-", "*", "/", "%", "**",
        "..", "(", ")", "[", "]", ",", ".trim()", ".size()", ".split(',')", ".replaceAll('a', '$1')", ".matches('a*')",
        ".repeat(9)", ".substring(1)", ".equals(1)", "JSON.parse('[1]')", "parseInt('1')", "return", ";", "new JsonSlurper()",
        ".parseText('{}')",
    ]
)  # fmt: skip
_SUBJECTS = [
    SourceRecord({}, {}, "shop.orders", value={"op": "u", "after": {"id": [1, "2", None, 2.5]}}),
    SourceRecord({}, {}, "t", value=None, key=5),
    SourceRecord({}, {}, "t", value="text"),
]


@settings(max_examples=250, deadline=None)
@given(st.lists(_PIECES, min_size=1, max_size=12).map(" ".join) | st.text(max_size=30))
def test_any_text_evaluates_or_raises_a_connect_error(source: str) -> None:
    for dialect in (GROOVY, JAVASCRIPT):
        try:
            expression = compile_expression(source, RECORD_VARIABLES, dialect)
        except ConfigError:
            continue
        for subject in _SUBJECTS:
            try:
                expression.value(subject)
            except DataError as e:
                message = e.message
            else:
                continue
            assert repr(source) in message


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Every method, with as many arguments as it may take, and the operators, on what is inside."""

    def arguments(name: str) -> st.SearchStrategy[str]:
        least, most = METHODS[name].arity
        some = st.lists(inner, min_size=least, max_size=most)
        return st.tuples(inner, some).map(lambda parts: f"({parts[0]})?.{name}({', '.join(parts[1])})")

    signs = st.sampled_from(["==", "<", "<=>", "+", "-", "*", "/", "%", "**", "in", "=~", "==~", "..", "&&", "?:"])
    return (
        st.sampled_from(sorted(METHODS)).flatmap(arguments)
        | st.tuples(inner, signs, inner).map(lambda parts: f"({' '.join(parts)})")
        | st.tuples(inner, inner).map(lambda parts: f"({parts[0]})[{parts[1]}]")
    )


_ROW = SchemaBuilder.struct().field("a", Schema.INT32).build()
_NESTED: list[object] = []
for _ in range(3_000):
    _NESTED = [_NESTED]
_VALUES = {
    "t": "text", "n": None, "i": 7, "f": 1.5, "inf": math.inf, "d": Decimal("1.5"), "far": Decimal("1E+9000"), "big": 10**300,
    "b": b"x", "l": [1, "a", None], "m": {"a": 1}, "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "s": Struct(_ROW, [1]),
    "deep": _NESTED, "schema": _ROW, "yes": True,
}  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    st.recursive(
        st.sampled_from(["value." + name for name in _VALUES] + ["0", "-1", "'a'", "[1, 2]", "''"]), _calls, max_leaves=6
    )
)
def test_any_call_on_any_value_raises_only_connect_errors(source: str) -> None:
    record = SourceRecord({}, {}, "t", value=_VALUES)
    for dialect in (GROOVY, JAVASCRIPT):
        try:
            value = compile_expression(source, RECORD_VARIABLES, dialect).value(record)
        except (ConfigError, DataError) as e:
            value = e.message
        assert not isinstance(value, Exception)
