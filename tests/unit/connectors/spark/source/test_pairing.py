"""Rows of a version are compared by their values as the table has them, also in structs, arrays, and maps."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.spark.source.pairing import rows_equal

NAN = math.nan
FAR_DAYS = 3_000_000
FAR_MICROS = 300_000_000_000_000_000
"""A day and an instant after the year 9999."""
FLOATS = pa.struct([("x", pa.float64())])
FLOATS_BY_NAME = pa.map_(pa.string(), pa.float64())


def is_equal(left: pa.Array, right: pa.Array) -> bool:
    (equal,) = rows_equal(pa.table({"c": left}), pa.table({"c": right}))
    return bool(equal)


@pytest.mark.parametrize(
    ("type_", "left", "right", "equal"),
    [
        (pa.float64(), 0.0, -0.0, False),
        (FLOATS, {"x": 0.0}, {"x": -0.0}, False),
        (pa.list_(pa.float32()), [0.0], [-0.0], False),
        (FLOATS_BY_NAME, {"a": 0.0}, {"a": -0.0}, False),
        (pa.list_(FLOATS), [{"x": 0.0}], [{"x": -0.0}], False),
        (pa.float64(), NAN, NAN, True),
        (FLOATS, {"x": NAN}, {"x": NAN}, True),
        (pa.list_(pa.float32()), [NAN], [NAN], True),
        (FLOATS_BY_NAME, {"a": NAN}, {"a": NAN}, True),
        (FLOATS, {"x": None}, None, False),
        (FLOATS, None, None, True),
        (pa.list_(pa.int64()), [], None, False),
        (pa.list_(pa.int64()), [None], [], False),
        (pa.list_(pa.int64()), [None], [None], True),
        (pa.list_(pa.int64()), [1, 2], [1], False),
        (FLOATS_BY_NAME, {"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, False),
        (pa.struct([]), {}, {}, True),
        (pa.list_(pa.timestamp("ns")), [1], [2], False),
    ],
)
def test_nested_values_are_compared_as_others_are(type_: pa.DataType, left: Any, right: Any, equal: bool) -> None:
    assert is_equal(pa.array([left], type_), pa.array([right], type_)) is equal


@pytest.mark.parametrize(
    ("number", "type_"), [(FAR_DAYS, pa.date32()), (FAR_MICROS, pa.timestamp("us")), (FAR_MICROS, pa.timestamp("us", "UTC"))]
)
def test_nested_dates_and_timestamps_after_the_year_9999_are_compared(number: int, type_: pa.DataType) -> None:
    integers = pa.int32() if type_ == pa.date32() else pa.int64()
    one, other = (pa.array([at], integers).cast(type_) for at in (number, number + 1))
    for left, right, equal in ((one, one, True), (one, other, False)):
        nested = [pa.StructArray.from_arrays([array], ["at"]) for array in (left, right)]
        assert is_equal(*nested) is equal
        lists = [pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), array) for array in (left, right)]
        assert is_equal(*lists) is equal


_FLOAT = st.sampled_from([None, 0.0, -0.0, 1.5, NAN])
_NESTED = st.none() | st.fixed_dictionaries(
    {
        "x": _FLOAT,
        "list": st.none() | st.lists(st.none() | st.fixed_dictionaries({"y": _FLOAT}), max_size=2),
        "map": st.none() | st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.lists(_FLOAT, max_size=2)), max_size=2),
    }
)
_NESTED_TYPE = pa.struct(
    [
        ("x", pa.float64()),
        ("list", pa.list_(pa.struct([("y", pa.float32())]))),
        ("map", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ]
)


def bits_of(value: Any) -> Any:
    """The value with the bits of its floats."""
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, dict):
        return {name: bits_of(one) for name, one in value.items()}
    return [bits_of(one) for one in value] if isinstance(value, list | tuple) else value


@given(rows=st.lists(st.tuples(_NESTED, _NESTED), max_size=5), start=st.integers(0, 2))
def test_random_nested_values_are_equal_if_all_their_bits_are(rows: list[tuple[Any, Any]], start: int) -> None:
    left, right = (pa.array([row[side] for row in rows], _NESTED_TYPE).slice(start) for side in (0, 1))
    for one, other in ((left, right), (left, left), (right.take(pa.array(range(len(right)), pa.int64())), right)):
        shown = zip(one.to_pylist(), other.to_pylist(), strict=True)
        assert list(rows_equal(pa.table({"c": one}), pa.table({"c": other}))) == [bits_of(a) == bits_of(b) for a, b in shown]
