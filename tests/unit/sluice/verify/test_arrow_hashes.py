"""Hashes of Arrow columns are those of the values' forms, whatever the type and the way of comparing it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.data import logical
from connect.data.schema import Schema, Type
from connectors.spark.verification.tables import column_type, python_values
from sluice.verify.arrow_hashes import hash_array
from sluice.verify.canonical import ColumnForms, Form, column_forms
from sluice.verify.row_hashes import hash_forms

_BIG = (1 << 63) - 1
_TYPES: dict[pa.DataType, Any] = {
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-_BIG - 1, _BIG) | st.sampled_from([0, 1, _BIG]),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, 1e-9, 3.5e38]),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=6) | st.sampled_from(["0", "-0", "1.50", "NaN", "1e5", "true", "2024-01-01"]),
    pa.large_string(): st.text(max_size=6),
    pa.binary(): st.binary(max_size=6),
    pa.date32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.timestamp("us"): st.integers(-_BIG, _BIG) | st.integers(-(10**15), 10**15),
    pa.timestamp("us", "UTC"): st.integers(-(10**15), 10**15) | st.sampled_from([9_223_372_036_825_200_000]),
    pa.decimal128(38, 10): st.decimals("-1e20", "1e20", places=10) | st.sampled_from([Decimal("0E-10"), Decimal("1E-10")]),
    pa.decimal128(12, 2): st.decimals("-1e9", "1e9", places=2) | st.sampled_from([Decimal("100.00"), Decimal("0.00")]),
    pa.decimal128(20, 0): st.integers(-(10**19), 10**19).map(Decimal),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(-9, 9), max_size=3),
    pa.struct({"a": pa.int64()}): st.fixed_dictionaries({"a": st.none() | st.integers(-9, 9)}),
}
_SCHEMAS: list[Schema | None] = [
    None,
    Schema.INT64,
    Schema.FLOAT32,
    Schema.FLOAT64,
    Schema.STRING,
    Schema(Type.BOOLEAN),
    Schema(Type.BYTES),
    logical.decimal_schema(2),
    *(Schema(Type.INT64, name=f"io.debezium.time.{name}") for name in ("MicroTimestamp", "NanoTimestamp", "MicroTime")),
    Schema(Type.INT32, name="io.debezium.time.Date"),
    Schema(Type.STRING, name="io.debezium.time.ZonedTimestamp"),
    Schema(Type.STRING, name="io.debezium.data.Json"),
]


def _array(type_: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if pa.types.is_date(type_):
        return pa.array(values, pa.int32()).view(type_)
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return pa.array(values, pa.int64()).view(type_)
    return pa.array(values, type_)


@pytest.mark.parametrize("type_", _TYPES, ids=str)
@settings(max_examples=10)
@given(data=st.data())
def test_hashes_of_arrays_are_those_of_forms(type_: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | _TYPES[type_], min_size=1, max_size=30))
    whole = _array(type_, values)
    # Also a part of an array, whose buffers begin before it.
    start = data.draw(st.integers(0, len(values) - 1))
    for array in (whole, whole.slice(start)):
        for schema in _SCHEMAS:
            for negative_zero in (True, False):
                forms = column_forms(schema, column_type(type_), negative_zero=negative_zero)
                if not forms.is_comparable:
                    continue

                def some(places: Sequence[int], array: pa.Array = array, forms: ColumnForms = forms) -> Sequence[Form]:
                    return forms.of_actual(python_values(array.take(pa.array(places, pa.int64()))))

                slow = hash_forms(some(range(len(array))))
                assert hash_array(array, forms.kind, some).tolist() == slow.tolist(), (schema, forms.kind)


def test_fast_hashes_need_no_forms() -> None:
    """The fast way is one: no value becomes a Python object of its own."""

    def refuse(places: Sequence[int]) -> Sequence[Form]:
        raise AssertionError(places)

    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    for kind, array in (
        ("integer", pa.array([1, None], pa.int32())),
        ("decimal", pa.array([Decimal("1.20"), None], pa.decimal128(38, 2))),
        ("timestamp", pa.array([moment, None], pa.timestamp("us", "UTC"))),
        ("date", pa.array([dt.date(2024, 2, 29), None])),
        ("time", pa.array([dt.time(1, 2, 3, 4), None])),
        ("double", pa.array([1.5, None])),
        ("float", pa.array([1.5, None], pa.float32())),
        ("boolean", pa.array([True, None])),
        ("text", pa.array(["a", None])),
        ("bytes", pa.array([b"a", None])),
    ):
        assert len(set(hash_array(array, kind, refuse).tolist())) == 2


@pytest.mark.parametrize("values", [["1.5", "1.50"], ["100", "100.0"], ["0", "0.00"], ["-3.10", "-3.1"]])
def test_zeros_at_the_end_of_a_fraction_do_not_count(values: list[str]) -> None:
    assert len(set(hash_array(pa.array(values), "decimal", lambda places: []).tolist())) == 1
