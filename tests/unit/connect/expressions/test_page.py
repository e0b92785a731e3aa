"""docs/expressions.md names every variable, method and function, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

from connect.expressions import RECORD_VARIABLES, compile_expression
from connect.expressions.dialect import GROOVY, JAVASCRIPT
from connect.expressions.functions import FUNCTIONS
from connect.expressions.lexer import MOST_CHARACTERS
from connect.expressions.limits import MOST_BITS, MOST_MEMBERS, MOST_TEXT
from connect.expressions.methods import METHODS
from connect.expressions.regular_expressions import MOST_PATTERN

PAGE = (Path(__file__).parents[4] / "docs" / "expressions.md").read_text("utf-8")


def _listed(heading: str) -> set[str]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`([\w.]+)`", section))


def test_methods_and_functions_are_those_of_the_page() -> None:
    assert _listed("Methods") == {*METHODS, *FUNCTIONS}


def test_variables_are_those_of_the_page() -> None:
    assert set(RECORD_VARIABLES) <= _listed("Variables")


def test_limits_are_those_of_the_page() -> None:
    section = PAGE.partition("## Limits\n")[2]
    for bound in (MOST_CHARACTERS, MOST_TEXT, MOST_MEMBERS, MOST_BITS, MOST_PATTERN):
        assert f"{bound:,}" in section


def test_the_first_examples_are_in_the_language() -> None:
    condition = re.search(r"keep\.condition=(.*)", PAGE)
    topic = re.search(r"topic\.expression=(.*)", PAGE)
    assert condition is not None
    assert topic is not None
    compile_expression(condition[1], RECORD_VARIABLES, GROOVY)
    compile_expression(topic[1], RECORD_VARIABLES, JAVASCRIPT)
