"""Texts and calendars as Java has them."""

from __future__ import annotations

import datetime as dt
import math
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.data.schema import Schema
from connect.data.temporal_text import parse_temporal
from connect.data.values import parse_string
from connect.java.calendar import CUTOVER_DAY, date_of_day, day_of_date
from connect.java.float_digits import double_digits, float32_digits, java_digits
from connect.java.number_text import double_text, float_text
from connect.java.sized_numbers import round_to_float32, wrap_integer


@settings(derandomize=True, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_text_reads_back(number: float) -> None:
    assert float(double_text(number)) == number
    assert "." in double_text(number)


@settings(derandomize=True, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_text_reads_back_as_the_same_float(number: float) -> None:
    assert struct.pack("<f", round_to_float32(float(float_text(number)))) == struct.pack("<f", number)


def test_numbers_are_formatted_like_java_17() -> None:
    """``number_texts.txt`` was written by Java 17: kind, bits, text. Later Javas show another text for many of them."""
    forms = {"double": (">d", double_text), "float": (">f", float_text)}
    lines = Path(__file__).with_name("number_texts.txt").read_text().splitlines()
    wrong = []
    for line in lines:
        kind, bits, text = line.split()
        form, shown = forms[kind]
        found = shown(struct.unpack(form, bytes.fromhex(bits))[0])
        if found != text:
            wrong.append((line, found))
    assert not wrong
    assert len(lines) > 300


@settings(derandomize=True, deadline=None)
@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_shortest_digits_are_used_only_where_java_has_the_same(number: float) -> None:
    fraction, exponent = math.frexp(number)
    generated = java_digits(int(fraction * 2**53), exponent - 53, min(53, exponent + 1074))
    assert double_digits(number) == generated
    if 1e-3 <= number < 1e7:
        digits, power = generated
        assert repr(number) == repr(float(f"{digits}e{power - len(digits) + 1}"))


@settings(derandomize=True, deadline=None)
@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False, width=32))
def test_floats_without_an_exponent_have_the_shortest_text(number: float) -> None:
    digits, power = float32_digits(number)
    if 1e-3 <= number < 1e7:
        assert float_text(number) == repr(float(f"{digits}e{power - len(digits) + 1}"))


@settings(derandomize=True, deadline=None)
@given(st.integers(-800_000, 4_000_000))
def test_every_day_has_one_date(day: int) -> None:
    assert day_of_date(*date_of_day(day)) == day


@settings(derandomize=True, deadline=None)
@given(st.dates(min_value=dt.date(1582, 10, 15)))
def test_days_since_the_reform_are_pythons(date: dt.date) -> None:
    assert date_of_day((date - dt.date(1970, 1, 1)).days) == (date.year, date.month, date.day)


def test_days_before_the_reform_are_julian() -> None:
    assert date_of_day(CUTOVER_DAY) == (1582, 10, 15)
    assert date_of_day(CUTOVER_DAY - 1) == (1582, 10, 4)


def test_dates_roll_over() -> None:
    rolled = {"2024-02-30": dt.date(2024, 3, 1), "2024-13-01": dt.date(2025, 1, 1), "2024-5-067": dt.date(2024, 7, 6)}
    for text, expected in rolled.items():
        found = parse_temporal(text)
        assert found is not None
        assert found.value == expected


@settings(derandomize=True, deadline=None)
@given(st.integers(), st.sampled_from([8, 16, 32, 64]))
def test_narrowing_keeps_the_low_bits(number: int, bits: int) -> None:
    wrapped = wrap_integer(number, bits)
    assert (number - wrapped) % (1 << bits) == 0
    assert -(1 << (bits - 1)) <= wrapped < 1 << (bits - 1)


@pytest.mark.parametrize("text", ['{1:"a",true:"b"}', "{1e400:1,10e399:2}", "{[1]:2}", "{{}:1}"])
def test_map_with_unhashable_keys_remains_text(text: str) -> None:
    assert parse_string(text) == (Schema.STRING, text)


@pytest.mark.parametrize("text", ["999999999-01-01T00:00:0.0Z", "9E99-01-01"])
def test_instant_beyond_64_bits_is_rejected(text: str) -> None:
    assert parse_temporal(text) is None
