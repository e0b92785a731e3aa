"""Which cases of a parametrized test are long."""

from __future__ import annotations

import pytest

from tests.support.cases import first_fast


def test_all_cases_but_the_first_are_long() -> None:
    skipped = pytest.mark.skipif(False, reason="none")
    cases = first_fast(["a", "b", pytest.param("c", id="C", marks=skipped), ("d", 4)], 2)
    assert cases[:2] == ["a", "b"]
    assert [(case.values, case.id, [mark.name for mark in case.marks]) for case in cases[2:]] == [
        (("c",), "C", ["skipif", "long"]),
        (("d", 4), None, ["long"]),
    ]
