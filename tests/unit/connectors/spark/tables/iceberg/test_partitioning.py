"""Partition transforms, beside the hash function of another library and the examples of Iceberg's specification."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from decimal import Decimal
from typing import Any

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import transforms as peer
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from connect.errors import ConfigError, ConnectError
from connectors.spark.partition_terms import parse_term
from connectors.spark.tables.iceberg.partitioning import Partitioning, murmur3, new_spec
from connectors.spark.tables.iceberg.types import new_schema

EPOCH = dt.datetime(1970, 1, 1)


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_another_library(data: bytes) -> None:
    assert murmur3(data) == mmh3.hash(data, signed=False)


def partitions(values: pa.Array, *terms: str) -> list[tuple[Any, ...]]:
    """By row, its partition."""
    columns = {"c": values.type}
    schema = new_schema(columns)
    spec = new_spec([term.format("c") for term in terms], schema, columns)
    rows = pa.table({"c": values, "row": range(len(values))})
    found: list[tuple[Any, ...]] = [()] * len(values)
    for partition, part in Partitioning.read(spec, schema).split(rows):
        for row in part["row"].to_pylist():
            found[row] = partition
    return found


def number(form: str | None) -> int | None:
    """A value of a year, month, day, hour, or bucket."""
    return None if form is None else struct.unpack("<i", bytes.fromhex(form))[0]


def test_examples_of_the_specification() -> None:
    def hashed(value: Any, type_: pa.DataType) -> int:
        [(form,)] = partitions(pa.array([value], type_), "bucket({}, 2147483647)")
        found = number(form)
        assert found is not None
        return found

    assert hashed(34, pa.int32()) == hashed(34, pa.int64()) == 2017239379 & 0x7FFFFFFF
    assert hashed(Decimal("14.20"), pa.decimal128(9, 2)) == -500754589 & 0x7FFFFFFF
    assert hashed(dt.date(2017, 11, 16), pa.date32()) == -653330422 & 0x7FFFFFFF
    assert hashed(dt.datetime(2017, 11, 16, 22, 31, 8), pa.timestamp("us")) == -2047944441 & 0x7FFFFFFF
    assert hashed("iceberg", pa.string()) == 1210000089
    assert hashed(b"\0\1\2\3", pa.binary()) == -188683207 & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (pa.array([-5, 0, 7, None, 2**31 - 1], pa.int32()), IntegerType()),
        (pa.array([2 - 2**63, 5, None], pa.int64()), LongType()),
        (pa.array([Decimal("-1.07"), Decimal("10.65"), None], pa.decimal128(9, 2)), DecimalType(9, 2)),
        (pa.array(["", "äö\U0001f600x", None], pa.string()), StringType()),
    ],
)
def test_truncate_and_bucket_are_those_of_pyiceberg(values: pa.Array, type_: Any) -> None:
    truncate, bucket = peer.TruncateTransform(width=3).transform(type_), peer.BucketTransform(num_buckets=7).transform(type_)
    found = partitions(values, "truncate({}, 3)", "bucket(7, {})")
    for value, (short, bucket_of) in zip(values.to_pylist(), found, strict=True):
        assert number(bucket_of) == bucket(value)
        assert (None if short is None else from_bytes(type_, bytes.fromhex(short))) == truncate(value)


def test_long_decimals_keep_all_digits() -> None:
    long = Decimal("12345678901234567890123456789012345678")
    [(bucket, short)] = partitions(pa.array([long], pa.decimal128(38, 0)), "bucket({}, 16)", "truncate({}, 10)")
    assert number(bucket) == 11
    assert int.from_bytes(bytes.fromhex(short), "big") == 12345678901234567890123456789012345670
    [(short,)] = partitions(pa.array([Decimal("1234567890123456789012345678.95")], pa.decimal128(38, 2)), "truncate({}, 100)")
    assert int.from_bytes(bytes.fromhex(short), "big") == 123456789012345678901234567800


def test_integers_near_the_limits_are_truncated_as_in_java() -> None:
    """Iceberg's reference implementation wraps around, and readers use it."""
    assert [number(form) for (form,) in partitions(pa.array([-(2**31), -7, 7], pa.int32()), "truncate({}, 10)")] == [
        2_147_483_646,
        -10,
        0,
    ]


@pytest.mark.parametrize(
    ("moment", "resolution"),
    [(dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "us"), (dt.datetime(2024, 2, 29, 13), "us"), (dt.date(1, 1, 1), "D")],
)
def test_times_are_those_of_pyiceberg(moment: Any, resolution: str) -> None:
    is_date = resolution == "D"
    values = pa.array([moment, None], pa.date32() if is_date else pa.timestamp("us"))
    type_ = DateType() if is_date else TimestampType()
    raw = (moment - EPOCH.date()).days if is_date else (moment - EPOCH) // dt.timedelta(microseconds=1)
    (year, month, day), nothing = partitions(values, "years({})", "months({})", "days({})")
    assert nothing == (None, None, None)
    assert number(year) == peer.YearTransform().transform(type_)(raw)
    assert number(month) == peer.MonthTransform().transform(type_)(raw)
    assert number(day) == peer.DayTransform().transform(type_)(raw)
    if not is_date:
        assert number(partitions(values, "hours({})")[0][0]) == peer.HourTransform().transform(type_)(raw)


INTEGERS: dict[pa.DataType, tuple[Any, int]] = {
    pa.int32(): (IntegerType(), 32),
    pa.int64(): (LongType(), 64),
    pa.date32(): (DateType(), 32),
    pa.time64("us"): (TimeType(), 64),
    pa.timestamp("us"): (TimestampType(), 64),
    pa.timestamp("us", "UTC"): (TimestamptzType(), 64),
}
OTHERS: dict[pa.DataType, tuple[Any, st.SearchStrategy[Any]]] = {
    pa.bool_(): (BooleanType(), st.booleans()),
    pa.float32(): (FloatType(), st.floats(width=32)),
    pa.float64(): (DoubleType(), st.floats()),
    pa.string(): (StringType(), st.text(st.characters(exclude_categories=["Cs"]))),
    pa.binary(): (BinaryType(), st.binary()),
    pa.binary(3): (FixedType(3), st.binary(min_size=3, max_size=3)),
    pa.decimal128(9, 2): (DecimalType(9, 2), st.integers(1 - 10**9, 10**9 - 1).map(lambda n: Decimal((n < 0, digits(n), -2)))),
    pa.decimal128(38, 38): (
        DecimalType(38, 38),
        st.integers(1 - 10**38, 10**38 - 1).map(lambda n: Decimal((n < 0, digits(n), -38))),
    ),
}


def digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


def identity(values: pa.Array) -> list[Any]:
    """By row its value in the form that crosses to Java. Fixed types are only in tables of others."""
    schema = {"fields": [{"id": 1, "name": "c"}]}
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "c", "transform": "identity"}]}
    found: list[Any] = [None] * len(values)
    for (form,), part in Partitioning.read(spec, schema).split(pa.table({"c": values, "row": range(len(values))})):
        for row in part["row"].to_pylist():
            found[row] = form
    assert json.loads(json.dumps(found), parse_constant=pytest.fail) == found
    return found


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@given(st.data())
def test_numbers_and_times_have_the_binary_form_of_pyiceberg(type_: pa.DataType, data: st.DataObject) -> None:
    """Of any year."""
    peer_type, bits = INTEGERS[type_]
    numbers = data.draw(st.lists(st.none() | st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1), max_size=5))
    if pa.types.is_time64(type_):
        numbers = [None if n is None else n % 86_400_000_000 for n in numbers]
    values = pa.array(numbers, pa.int32() if bits == 32 else pa.int64()).cast(type_)
    assert identity(values) == [None if n is None else to_bytes(peer_type, n).hex() for n in numbers]


@pytest.mark.parametrize("type_", OTHERS, ids=str)
@given(st.data())
def test_other_values_have_the_binary_form_of_pyiceberg(type_: pa.DataType, data: st.DataObject) -> None:
    peer_type, strategy = OTHERS[type_]
    values = data.draw(st.lists(st.none() | strategy, max_size=5))
    expected = [math.nan if isinstance(v, float) and math.isnan(v) else v for v in values]  # all NaN are one partition
    assert identity(pa.array(values, type_)) == [None if v is None else to_bytes(peer_type, v).hex() for v in expected]


def test_rows_with_nan_are_in_one_partition_and_those_with_zeros_in_two() -> None:
    """Iceberg compares partitions as Java compares doubles."""
    forms = identity(pa.array([math.nan, -math.nan, 0.0, -0.0, math.inf], pa.float64()))
    assert forms[0] == forms[1]
    assert len(set(forms)) == 4


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("c", ("c", "identity")),
        ("days(c)", ("c", "day")),
        ("year( c )", ("c", "year")),
        ("bucket(c, 4)", ("c", "bucket[4]")),
        ("BUCKET(4, c)", ("c", "bucket[4]")),
        ("truncate(c,3)", ("c", "truncate[3]")),
    ],
)
def test_terms(term: str, expected: tuple[str, str]) -> None:
    assert parse_term(term) == expected


@pytest.mark.parametrize("term", ["days(a, b)", "bucket(c)", "bucket(c, 0)", "bucket(c, x)", "weeks(c)"])
def test_other_terms_are_refused(term: str) -> None:
    with pytest.raises(ConfigError, match=r"partition\.columns.*Expected a column, or years"):
        parse_term(term)


@pytest.mark.parametrize(
    ("term", "says"), [("d", "would have only the columns c"), ("hours(c)", "does not allow it"), ("days(c)", "does not allow")]
)
def test_terms_that_do_not_fit_the_columns_are_refused(term: str, says: str) -> None:
    columns = {"c": pa.string()}
    with pytest.raises(ConfigError, match=says):
        new_spec([term], new_schema(columns), columns)


def test_an_unknown_transform_of_a_table_is_refused() -> None:
    spec = {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1000, "name": "c_z", "transform": "zorder"}]}
    with pytest.raises(ConnectError, match=r"partitioned by c_z \(zorder\), which is not supported"):
        Partitioning.read(spec, new_schema({"c": pa.int64()}))
