"""Partition transforms, beside the hash function of another library and the examples of Iceberg's specification."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import transforms as peer
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, StringType, TimestampType

from connect.errors import ConfigError, ConnectError
from connectors.spark.partition_terms import parse_term
from connectors.spark.tables.iceberg.partitioning import Partitioning, murmur3, new_spec
from connectors.spark.tables.iceberg.types import new_schema

EPOCH = dt.datetime(1970, 1, 1)


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_another_library(data: bytes) -> None:
    assert murmur3(data) == mmh3.hash(data, signed=False)


def partitions(values: pa.Array, *terms: str) -> list[tuple[Any, ...]]:
    columns = {"c": values.type}
    schema = new_schema(columns)
    spec = new_spec([term.format("c") for term in terms], schema, columns)
    rows = pa.table({"c": values})
    found: list[tuple[Any, ...]] = [()] * len(values)
    index = {str(value): at for at, value in enumerate(values.to_pylist())}
    for partition, part in Partitioning.read(spec, schema).split(rows):
        for value in part["c"].to_pylist():
            found[index[str(value)]] = partition
    return found


def test_examples_of_the_specification() -> None:
    def hashed(value: Any, type_: pa.DataType) -> int:
        [(number,)] = partitions(pa.array([value], type_), "bucket({}, 2147483647)")
        return int(number)

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
        (pa.array([-(2**63), 5, None], pa.int64()), LongType()),
        (pa.array([Decimal("-1.07"), Decimal("10.65"), None], pa.decimal128(9, 2)), DecimalType(9, 2)),
        (pa.array(["", "äö\U0001f600x", None], pa.string()), StringType()),
    ],
)
def test_truncate_and_bucket_are_those_of_pyiceberg(values: pa.Array, type_: Any) -> None:
    truncate, bucket = peer.TruncateTransform(width=3).transform(type_), peer.BucketTransform(num_buckets=7).transform(type_)
    found = partitions(values, "truncate({}, 3)", "bucket(7, {})")
    expected = [(truncate(value), bucket(value)) for value in values.to_pylist()]
    assert [(text, number) for text, number in found] == [
        (None if a is None else str(a) if isinstance(a, Decimal) else a, b) for a, b in expected
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
    assert year == peer.YearTransform().transform(type_)(raw)
    assert month == peer.MonthTransform().transform(type_)(raw)
    assert (dt.date.fromisoformat(day) - EPOCH.date()).days == peer.DayTransform().transform(type_)(raw)
    if not is_date:
        assert partitions(values, "hours({})")[0] == (peer.HourTransform().transform(type_)(raw),)


def test_identity_values_have_their_json_form() -> None:
    assert partitions(pa.array([True]), "{}") == [(True,)]
    assert partitions(pa.array([b"\xab"]), "{}") == [("AB",)]
    assert partitions(pa.array([1], pa.timestamp("us", "UTC")), "{}") == [("1970-01-01T00:00:00.000001+00:00",)]
    assert partitions(pa.array([Decimal("1.50")], pa.decimal128(5, 2)), "{}") == [("1.50",)]


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
