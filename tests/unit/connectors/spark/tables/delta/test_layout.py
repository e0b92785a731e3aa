"""Partition values, and rows divided by them."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConnectError
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.files.partition_values import parse_value, value_text

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (None, pa.int32(), None),
        ("", pa.string(), None),
        ("a b/ü%20=", pa.string(), "a b/ü%20="),
        (True, pa.bool_(), "true"),
        (-5, pa.int64(), "-5"),
        (decimal.Decimal("-0.0000001"), pa.decimal128(38, 7), "-0.0000001"),
        (0.1, pa.float32(), "0.1"),
        (-0.0, pa.float64(), "-0.0"),
        (float("nan"), pa.float64(), "NaN"),
        (-float("inf"), pa.float32(), "-Infinity"),
        (dt.date(1, 1, 1), pa.date32(), "0001-01-01"),
        (MOMENT, pa.timestamp("us"), "2026-01-02 03:04:05.000678"),
        (MOMENT, pa.timestamp("us", "UTC"), "2026-01-02T03:04:05.000678Z"),
    ],
)
def test_values_have_the_texts_of_the_protocol(value: Any, type_: pa.DataType, text: str | None) -> None:
    assert value_text(pa.scalar(value, type_)) == text


@pytest.mark.parametrize(("days", "text"), [(-719_529, "-0001-12-31"), (2_932_897, "+10000-01-01"), (-719_528, "0000-01-01")])
def test_years_outside_of_four_digits_have_a_sign(days: int, text: str) -> None:
    day = pa.scalar(days, pa.int32()).cast(pa.date32())
    assert value_text(day) == text
    assert parse_value(text, pa.date32(), "day").equals(day)


TYPES = {
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(38, 10): st.decimals(-(10**20), 10**20, places=10),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(),
}


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(st.data())
def test_rows_are_divided_without_loss(type_: pa.DataType, data: st.DataObject) -> None:
    values: list[Any] = data.draw(st.lists(st.none() | TYPES[type_], max_size=8))
    values = [data.draw(st.sampled_from(values)) for _ in range(len(values) * 2)]
    rows = pa.table({"p": pa.array(values, type_), "n": pa.array(range(len(values)), pa.int64())})
    layout = TableLayout(dict(zip(rows.column_names, rows.schema.types, strict=True)), ("p",))
    found: list[tuple[Any, int]] = []
    texts = []
    for partition, part in layout.split(rows):
        texts.append(partition["p"])
        value = parse_value(partition["p"], type_, "p").as_py()
        assert layout.file_rows(part).column_names == ["n"]
        assert part["n"].to_pylist() == sorted(part["n"].to_pylist())
        found += [(value, n) for n in part["n"].to_pylist()]
    assert len(set(texts)) == len(texts)
    assert [repr(v) for v, _ in sorted(found, key=lambda f: f[1])] == [repr(v) for v in rows["p"].to_pylist()]


def test_several_partition_columns_divide_by_their_combinations() -> None:
    rows = pa.table({"a": ["x", "y", "x", None, "x"], "b": [1, 1, 2, 1, 1], "n": range(5)})
    layout = TableLayout({"a": pa.string(), "b": pa.int64(), "c": pa.string(), "n": pa.int64()}, ("a", "b", "c"))
    parts = {tuple(values.values()): part["n"].to_pylist() for values, part in layout.split(rows)}
    assert parts == {("x", "1", None): [0, 4], ("y", "1", None): [1], ("x", "2", None): [2], (None, "1", None): [3]}


def test_rows_with_nothing_but_partition_columns_keep_their_number() -> None:
    layout = TableLayout({"p": pa.int64(), "v": pa.string()}, ("p",))
    ((values, part),) = layout.split(pa.table({"p": [7, 7]}))
    assert values == {"p": "7"}
    assert layout.file_rows(part).to_pydict() == {"v": [None, None]}


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("x", pa.int32()),
        ("maybe", pa.bool_()),
        ("2026", pa.date32()),
        ("2026-01-02 24:00:00", pa.timestamp("us")),
        ("2026-01-02 00:60:00", pa.timestamp("us")),
        ("1_0", pa.int32()),
        (" 10", pa.int32()),
        ("10 ", pa.int64()),
        ("\u0661\u0660", pa.int64()),
        ("1_0.5", pa.float64()),
        (" 1.5", pa.float64()),
        ("\uff11", pa.float32()),
        ("1_0", pa.decimal128(10, 2)),
        (" 1", pa.decimal128(10, 2)),
        ("NaN", pa.decimal128(10, 2)),
        ("300", pa.int8()),
    ],
)
def test_texts_of_other_types_are_rejected(text: str, type_: pa.DataType) -> None:
    with pytest.raises(ConnectError, match=f"partition value '{text}' of column p is not of the type"):
        parse_value(text, type_, "p")


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("+7", pa.int8(), 7),
        ("-007", pa.int64(), -7),
        ("1.0E10", pa.float64(), 1e10),
        (".5", pa.float32(), 0.5),
        ("1.", pa.float64(), 1.0),
        ("-Infinity", pa.float64(), float("-inf")),
        ("inf", pa.float32(), float("inf")),
        ("1E+2", pa.decimal128(10, 2), decimal.Decimal(100)),
    ],
)
def test_plain_numbers_are_values(text: str, type_: pa.DataType, value: object) -> None:
    assert parse_value(text, type_, "p").as_py() == value


def test_an_instant_without_a_zone_is_refused() -> None:
    """Delta's protocol: it is in the zone of the system that wrote it."""
    instant, local = pa.timestamp("us", "UTC"), pa.timestamp("us")
    with pytest.raises(ConnectError, match=r"'2026-01-02 03:04:05' of column a`t .*zone .*SET `a``t` = `a``t`"):
        parse_value("2026-01-02 03:04:05", instant, "a`t")
    assert parse_value("2026-01-02 03:04:05", local, "t").as_py() == dt.datetime(2026, 1, 2, 3, 4, 5)
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert parse_value("2026-01-02T03:04:05.000000Z", instant, "t").as_py() == moment
    assert parse_value("2026-01-02 03:04:05", instant, "t", assumes_utc=True).as_py() == moment
