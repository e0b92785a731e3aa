"""The demo's comparison finds every difference of a value, and no other."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from sluice.demo.compare import find_difference


def difference(expected: list[Any], actual: list[Any], kind: pa.DataType) -> str | None:
    keys = pa.table({"id": list(range(1, len(expected) + 1))})
    columns = [pa.chunked_array([pa.array(values, kind)]) for values in (expected, actual)]
    return find_difference("price", columns[0], columns[1], keys, ["id"])


@pytest.mark.parametrize("value", [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, None])
def test_equal_doubles_have_no_difference(value: float | None) -> None:
    assert difference([1.5, value], [1.5, value], pa.float64()) is None


@pytest.mark.parametrize(
    ("expected", "actual"), [(-0.0, 0.0), (math.nan, 0.0), (math.nan, None), (None, 0.0), (math.inf, -math.inf)]
)
def test_doubles_with_other_bits_differ(expected: float | None, actual: float | None) -> None:
    found = difference([1.5, expected], [1.5, actual], pa.float64())
    assert found == f"price: 1 rows differ, the first at id=2: {expected!r} in the database, {actual!r} in the lake"


def test_texts_and_nulls_are_compared() -> None:
    assert difference(["a", None], ["a", None], pa.string()) is None
    assert difference(["a", ""], ["a", None], pa.string()) is not None
