"""Compiling generated code: constants, tracebacks with source lines, and the field of a failure."""

from __future__ import annotations

import traceback

import pytest

from connect.generated_code import GeneratedSource, define_functions, evaluate


def test_functions_use_constants() -> None:
    lines = ["def add(value):", "    return value + k"]
    assert define_functions(lines, {"k": 2}, title="adder")["add"](3) == 5
    assert define_functions("\n".join(lines), {"k": 5}, title="adder")["add"](3) == 8


def test_constants_of_the_caller_are_not_changed() -> None:
    constants = {"k": 2}
    assert evaluate("lambda value: value * k", constants, title="product")(4) == 8
    assert constants == {"k": 2}


def test_traceback_shows_the_generated_line() -> None:
    divide = evaluate("lambda value: 1 // value", title="quotient")
    with pytest.raises(ZeroDivisionError) as raised:
        divide(0)
    shown = "".join(traceback.format_exception(raised.value))
    assert "generated/quotient" in shown
    assert "lambda value: 1 // value" in shown


def test_finder_returns_the_field_of_a_failure() -> None:
    source = GeneratedSource("decoder")
    divisor = source.constant(10)
    lines = source.function()
    source.write(lines, 0, "def decode(values):")
    with source.labeled("price"):
        source.write(lines, 1, f"first = {divisor} // values[0]")
    source.write(lines, 1, "values[0] = first")
    with source.labeled("count"):
        source.write(lines, 1, "return first + values[1]")
    names, finder = source.compile({})
    assert names["decode"]([5, 1]) == 3
    with pytest.raises(ZeroDivisionError) as division:
        names["decode"]([0, 1])
    assert finder.path(division.value) == "price"
    assert finder.add_field_path(division.value, "cannot divide") == "field price: cannot divide"
    with pytest.raises(TypeError) as addition:
        names["decode"]([5, "x"])
    assert finder.path(addition.value) == "count"


def test_finder_returns_nothing_for_a_failure_outside_fields() -> None:
    source = GeneratedSource("decoder")
    lines = source.function()
    source.write(lines, 0, "def decode(values): return values[0]")
    names, finder = source.compile({})
    with pytest.raises(IndexError) as raised:
        names["decode"]([])
    assert finder.path(raised.value) == ""
    assert finder.add_field_path(raised.value, "too short") == "too short"
