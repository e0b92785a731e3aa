from __future__ import annotations

import decimal
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.java.numbers import (
    NumberFormatError,
    decimal_to_float32,
    decimal_to_integer,
    float_to_integer,
    integer_to_float32,
    parse_double,
    parse_float32,
    parse_integer,
)
from connect.java.sized_numbers import round_to_float32


@pytest.mark.parametrize(("text", "number"), [("+5", 5), ("-128", -128), ("١٢", 12), ("007", 7)])
def test_integers_are_read_as_in_java(text: str, number: int) -> None:
    assert parse_integer(text, 8) == number


@pytest.mark.parametrize("text", ["", " 5", "5.", "128", "1_0", "--1", "0x1", "1e1"])
def test_invalid_bytes_are_not_parsed(text: str) -> None:
    with pytest.raises(NumberFormatError):
        parse_integer(text, 8)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 1.5 ", 1.5),
        ("1d", 1.0),
        (".5f", 0.5),
        ("5.", 5.0),
        ("-Infinity", -math.inf),
        ("0x1p3", 8.0),
        ("0x.8p1D", 1.0),
        ("1e400", math.inf),
    ],
)
def test_doubles_are_read_as_in_java(text: str, number: float) -> None:
    assert parse_double(text) == number


@pytest.mark.parametrize("text", ["", "1_0", "inf", "nan", "0x10", "1,5", "١٢", "1e"])
def test_invalid_doubles_are_not_parsed(text: str) -> None:
    with pytest.raises(NumberFormatError):
        parse_double(text)


@pytest.mark.parametrize(
    ("value", "bits", "number"),
    [
        (math.nan, 32, 0),
        (1e10, 8, -1),
        (-1e10, 16, 0),
        (1e10, 32, 2**31 - 1),
        (-math.inf, 64, -(2**63)),
        (300.9, 8, 44),
        (-1.9, 32, -1),
    ],
)
def test_floats_narrow_as_in_java(value: float, bits: int, number: int) -> None:
    assert float_to_integer(value, bits) == number


def test_decimals_narrow_to_their_low_bits() -> None:
    assert decimal_to_integer(decimal.Decimal("4294967296.9"), 32) == 0
    assert decimal_to_integer(decimal.Decimal("-1.5"), 64) == -1
    assert decimal_to_integer(decimal.Decimal("1E+1000000"), 64) == 0


def test_a_float32_is_rounded_once() -> None:
    # The nearest double lies on the middle between two floats; rounding it again would go to the even one.
    text = "1.00000005960464477540"
    assert round_to_float32(float(text)) == 1.0
    assert parse_float32(text) == 1.0000001192092896
    assert integer_to_float32((1 << 60) + (1 << 36) + 1) == float((1 << 60) + (1 << 37))


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("1.629706610763601441441620196E-39", 1162997),
        ("-1.629706610763601441441620196E-39", -1162997),
        ("3.520536081914114432738916396E-39", 2512339),
        ("1e-45", 1),
    ],
)
def test_a_float32_below_the_normal_ones_is_rounded_once(text: str, units: int) -> None:
    assert parse_float32(text) == decimal_to_float32(decimal.Decimal(text)) == units * 2.0**-149


@given(st.floats(width=32, allow_nan=False))
def test_the_text_of_a_float_reads_back(value: float) -> None:
    assert parse_float32(repr(value).replace("inf", "Infinity")) == value
