"""Steps of connection tests, and the entries that select data collections."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.config.finding import Finding, Severity
from connect.config.parsing import split_list
from connect.external_system import ConnectionStep, StepState, error_finding, regex_entry, warning_finding


@pytest.mark.parametrize(
    ("step", "state"),
    [
        (ConnectionStep("a"), StepState.PASSED),
        (ConnectionStep("a", findings=[Finding("x", Severity.NOTE, "m")]), StepState.PASSED),
        (ConnectionStep("a", findings=[warning_finding("x", "m")]), StepState.WARNING),
        (ConnectionStep("a", findings=[warning_finding("x", "m"), error_finding("y", "m")]), StepState.FAILED),
        (ConnectionStep("a", "no driver", is_skipped=True), StepState.SKIPPED),
    ],
)
def test_state_of_a_step_is_that_of_its_worst_finding(step: ConnectionStep, state: StepState) -> None:
    assert step.state is state


def test_plain_names_stay_readable() -> None:
    assert regex_entry("public", "order_items") == "public.order_items"
    assert regex_entry("public", "a.b") == r"public\.a\.b"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), min_size=1, max_size=3))
def test_entry_matches_its_name_and_is_one_entry_of_a_list(parts: list[str]) -> None:
    entry = regex_entry(*parts)
    assert re.fullmatch(entry, ".".join(parts))
    assert "," not in entry
    assert split_list(entry) in ([entry], [entry.strip()], [])


@given(st.text("ab.", min_size=1, max_size=3), st.text("ab.", min_size=1, max_size=3), st.text("ab.", max_size=7))
def test_entry_matches_no_other_qualified_name(schema: str, table: str, other: str) -> None:
    name = f"{schema}.{table}"
    if "." in other[1:-1] and other != name and "." not in schema + table:
        assert not re.fullmatch(regex_entry(schema, table), other)
