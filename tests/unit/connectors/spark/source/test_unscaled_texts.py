"""Decimals as Base64 of their unscaled values."""

from __future__ import annotations

import decimal
from base64 import b64encode

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from connectors.spark.source.unscaled_texts import unscaled_texts

LARGEST = 10**38 - 1
EDGES = [sign * (1 << bits) + more for bits in (7, 8, 15, 16, 23, 31, 63, 64, 126) for sign in (1, -1) for more in (-1, 0, 1)]


def encoded(unscaled: int) -> str:
    """As Java's BigInteger.toByteArray does."""
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()


def decimals(numbers: list[int | None], scale: int) -> pa.Array:
    with decimal.localcontext(prec=50):
        values = [None if number is None else decimal.Decimal(number).scaleb(-scale) for number in numbers]
    return pa.array(values, pa.decimal128(38, scale))


def test_limits_of_each_length() -> None:
    numbers = [0, LARGEST, -LARGEST, *EDGES]
    assert unscaled_texts(decimals([*numbers], 0)) == list(map(encoded, numbers))


@given(st.lists(st.none() | st.integers(-LARGEST, LARGEST) | st.integers(-1000, 1000)), st.integers(0, 38), st.data())
def test_parts_of_arrays_and_nulls(numbers: list[int | None], scale: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(numbers)))
    count = data.draw(st.integers(0, len(numbers)))
    array = decimals(numbers, scale).slice(start, count)
    expected = [None if number is None else encoded(number) for number in numbers[start : start + count]]
    assert unscaled_texts(array) == expected
