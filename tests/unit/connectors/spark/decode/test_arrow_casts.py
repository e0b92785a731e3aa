"""Whole columns are cast: each value is that of its encoding, or the column is refused."""

from __future__ import annotations

import base64
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.spark.decode.arrow_casts import decimals_of_base64, time_of_day_of_millis, time_of_micros, time_of_millis

TYPE = pa.decimal128(38, 2)
SHORT = st.binary(min_size=1, max_size=6)


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def expected(data: bytes | None) -> Decimal | None:
    return None if data is None else Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-2)


@given(st.lists(st.none() | SHORT, min_size=1), st.lists(st.binary(min_size=7, max_size=9), max_size=1), st.integers(0, 3))
def test_decimals_are_the_numbers_of_their_bytes(short: list[bytes | None], long: list[bytes], start: int) -> None:
    values = [*short, *long][start:]
    texts = pa.array([text(value) for value in [*short, *long]], pa.string())[start:]
    assert decimals_of_base64(texts, 2, TYPE).to_pylist() == [expected(value) for value in values]


@pytest.mark.parametrize("wrong", ["A", "A===", "====", "=AAA", "A=BC", "AB=C", "AB!=", "AA==AAAA", "AAAA=AAA", "AAAAA==="])
def test_text_that_is_no_base64_is_refused(wrong: str) -> None:
    with pytest.raises(DataError, match="a Decimal is not in base64"):
        decimals_of_base64(pa.array(["AMg=", None, wrong]), 2, TYPE)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (-3_600_000_000, "-01:00:00.000000"),
        (-1, "-00:00:00.000001"),
        (0, "00:00:00.000000"),
        (86_399_999_999, "23:59:59.999999"),
        (86_400_000_000, "24:00:00.000000"),
        (3_020_399_000_000, "838:59:59.000000"),
        (-3_020_399_000_000, "-838:59:59.000000"),
    ],
)
def test_times_of_mysql_may_be_negative_or_longer_than_a_day(micros: int, text: str) -> None:
    """The text of a time of day is the same beside any other time."""
    assert time_of_micros(pa.array([micros], pa.int64())).to_pylist() == [text]
    others = pa.array([None, 1_500_000, micros, 90_000_000_000], pa.int64())[1:]
    assert time_of_micros(others).to_pylist() == ["00:00:01.500000", text, "25:00:00.000000"]


@pytest.mark.parametrize("millis", [-1, 86_400_001])
def test_connects_time_ends_with_the_day(millis: int) -> None:
    with pytest.raises(DataError, match=f"a time of day {millis} is not between 0 and 86400000"):
        time_of_day_of_millis(pa.array([0, millis], pa.int32()))
    assert time_of_millis(pa.array([millis], pa.int32()))[0].as_py()
    assert time_of_day_of_millis(pa.array([None, 86_400_000], pa.int32())).to_pylist() == [None, "24:00:00.000000"]
