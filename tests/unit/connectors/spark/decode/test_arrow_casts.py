"""Whole columns of base64 become decimals: each value is the number of its bytes, or the column is refused."""

from __future__ import annotations

import base64
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.spark.decode.arrow_casts import decimals_of_base64

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
