"""Texts and calendars as Java has them."""

from __future__ import annotations

import datetime as dt
import struct

from hypothesis import given
from hypothesis import strategies as st

from connect.data.java_calendar import CUTOVER_DAY, date_of_day, day_of_date
from connect.data.java_text import double_text, float_text
from connect.data.narrow import round_to_float32, wrap_integer
from connect.data.values_parser import parse_temporal


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_text_reads_back(number: float) -> None:
    assert float(double_text(number)) == number
    assert "." in double_text(number)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_text_reads_back_as_the_same_float(number: float) -> None:
    assert struct.pack("<f", round_to_float32(float(float_text(number)))) == struct.pack("<f", number)


def test_known_texts() -> None:
    assert [double_text(d) for d in (1e-3, 9.999e-4, 9999999.0, 1e7, 1e23, 2e-323, 1.0e308)] == [
        "0.001", "9.999E-4", "9999999.0", "1.0E7", "1.0E23", "2.0E-323", "1.0E308",
    ]  # fmt: skip
    assert [float_text(f) for f in (16777216.0, 1e-45, 0.001, 33554432.0)] == [
        "1.6777216E7", "1.4E-45", "0.001", "3.3554432E7",
    ]  # fmt: skip


@given(st.integers(-800_000, 4_000_000))
def test_every_day_has_one_date(day: int) -> None:
    assert day_of_date(*date_of_day(day)) == day


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


@given(st.integers(), st.sampled_from([8, 16, 32, 64]))
def test_narrowing_keeps_the_low_bits(number: int, bits: int) -> None:
    wrapped = wrap_integer(number, bits)
    assert (number - wrapped) % (1 << bits) == 0
    assert -(1 << (bits - 1)) <= wrapped < 1 << (bits - 1)
