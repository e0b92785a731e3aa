"""docs/expressions.md names every variable, method and function, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

from connect.expressions import RECORD_VARIABLES, compile_expression
from connect.expressions.dialect import GROOVY, JAVASCRIPT
from connect.expressions.errors import MAX_INTEGER_BITS, MAX_LIST_SIZE, MAX_TEXT_LENGTH
from connect.expressions.functions import FUNCTIONS
from connect.expressions.lexer import MAX_EXPRESSION_LENGTH
from connect.expressions.methods import METHODS
from connect.expressions.regular_expressions import MAX_PATTERN_LENGTH

PAGE = (Path(__file__).parents[4] / "docs" / "expressions.md").read_text("utf-8")


def _listed(heading: str) -> set[str]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`([\w.]+)`", section))


def test_documented_methods_and_functions_are_complete() -> None:
    assert _listed("Methods") == {*METHODS, *FUNCTIONS}


def test_all_variables_are_documented() -> None:
    assert set(RECORD_VARIABLES) <= _listed("Variables")


def test_documented_limits_are_correct() -> None:
    section = PAGE.partition("## Limits\n")[2]
    for bound in (MAX_EXPRESSION_LENGTH, MAX_TEXT_LENGTH, MAX_LIST_SIZE, MAX_INTEGER_BITS, MAX_PATTERN_LENGTH):
        assert f"{bound:,}" in section


def test_first_examples_compile() -> None:
    condition = re.search(r"keep\.condition=(.*)", PAGE)
    topic = re.search(r"topic\.expression=(.*)", PAGE)
    assert condition is not None
    assert topic is not None
    compile_expression(condition[1], RECORD_VARIABLES, GROOVY)
    compile_expression(topic[1], RECORD_VARIABLES, JAVASCRIPT)
