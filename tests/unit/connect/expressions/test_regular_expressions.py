"""Regular expressions that may take too long are refused, or get a longest text."""

from __future__ import annotations

import pytest

from connect.errors import DataError
from connect.expressions import JAVASCRIPT, RECORD_VARIABLES, compile_expression
from connect.expressions.regular_expressions import compile_regex
from connect.record import SourceRecord

ALL = 1_000_000


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$", "(a+)+b", "(a*)*b", "(a|a)*b", "(a|aa)+c", "(a|ab)*(c|b)*d*(bc)*x|(x+x+)+y", r"(\w+\.?)*$", r"^(?:[a-z]+\d*)+$",
        "(.*)*x", "(a?){40}a{40}", "a?" * 40 + "a" * 40, "((ab)?(a)?)*c", "(?i)(k+K)+x", r"(\d+|\d+x)*y", "(?:a{0,30}){0,30}b",
        r"([a-z]+[a-z]*)*!", r"((a)\2?)*b|(b+)*", "(?=(a+)+b)a*", "(x?x?)*y",
    ],
)  # fmt: skip
def test_pattern_with_exponential_run_time_is_rejected(pattern: str) -> None:
    with pytest.raises(ValueError, match="in different ways"):
        compile_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [
        (r"(\w+\.)*foo", ALL),
        (r"[\w.]+@(?:[\w-]+\.)+[a-z]{2,}", ALL),
        (r"(?:\d{1,3}\.){3}\d{1,3}", ALL),
        (r"(?:foo|far|bar)+", ALL),
        (r"(?:[a-z]|[A-Z])+!", ALL),
        (r"orders_\d{4}|items_.*", ALL),
        (r"inventory\.(customers|orders)", ALL),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", ALL),
        (r"^\s*$", ALL),
        (r"(?>a+)+b", ALL),
        (r"(a+)++b", ALL),
        (r".*foo.*", ALL),
        (r"^(?=.*[A-Z])(?=.*\d).+$", ALL),
        (r"(.+)-(.+)", ALL),
    ],
)
def test_usual_patterns_have_the_maximum_text_length(pattern: str, whole: int) -> None:
    assert compile_regex(pattern).max_length_whole == whole


def test_maximum_text_length_decreases_with_each_ambiguous_part() -> None:
    lengths = [compile_regex("-".join([".+"] * parts)).max_length_whole for parts in (2, 3, 4, 5, 6)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == ALL
    assert 100 < lengths[-1] < lengths[1] < ALL


def test_text_that_is_too_long_for_the_pattern_is_rejected() -> None:
    expression = compile_expression("topic =~ /.*a.*b.*c.*d.*e/", RECORD_VARIABLES)
    with pytest.raises(DataError, match="might take too long for more than"):
        expression.value(SourceRecord({}, {}, "x" * 10_000)).__bool__()
    with pytest.raises(DataError, match=r"might take too long for more than .*, in topic\.matches"):
        compile_expression("topic.matches('.*a.*b.*c.*d.*e')", RECORD_VARIABLES).value(SourceRecord({}, {}, "x" * 10_000))


def test_pattern_from_the_data_is_checked() -> None:
    expression = compile_expression("topic.matches(key)", RECORD_VARIABLES)
    assert expression.value(SourceRecord({}, {}, "aaa", key="a*")) is True
    with pytest.raises(DataError, match="can double with each character"):
        expression.value(SourceRecord({}, {}, "aaa", key="(a*)*b"))
    with pytest.raises(DataError, match="the limit is 2000"):
        expression.value(SourceRecord({}, {}, "aaa", key="a" * 2_001))


def test_patterns_have_java_semantics() -> None:
    value = compile_expression(r"topic.matches('\\p{Upper}\\w+') && !'é'.matches('\\w')", RECORD_VARIABLES)
    assert value.value(SourceRecord({}, {}, "Ab1")) is True


def test_javascript_flags() -> None:
    for source in ("/^A$/i.test(topic)", "/b.$/s.test('b\\n')", "/^c/m.test('b\\nc')", "/x/gu.test('x')"):
        assert compile_expression(source, RECORD_VARIABLES, JAVASCRIPT).value(SourceRecord({}, {}, "a")) is True
