"""Raw values: packed dates and times, decimals."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.mysql.binlog.decimals import decimal_text, read_decimal
from connectors.mysql.binlog.temporal import (
    date_fields,
    date_text,
    datetime_fields,
    datetime_text,
    pack_datetime,
    time_text,
)
from tests.support.binlog_encoder import decimal


@given(st.datetimes(min_value=dt.datetime(1, 1, 1)))
def test_datetimes_keep_their_fields_and_order(moment: dt.datetime) -> None:
    packed = pack_datetime(*moment.timetuple()[:6], moment.microsecond)
    assert datetime_fields(packed) == (*moment.timetuple()[:6], moment.microsecond)
    assert datetime_text(packed, 6) == moment.isoformat(" ", "microseconds")
    date = moment.year << 9 | moment.month << 5 | moment.day
    assert date_fields(date) == (moment.year, moment.month, moment.day)
    assert date_text(date) == moment.date().isoformat()


@pytest.mark.parametrize(
    ("fields", "text"),
    [((0, 0, 0), "0000-00-00 00:00:00"), ((2024, 0, 15), "2024-00-15 00:00:00"), ((2023, 2, 29, 1, 2, 3), "2023-02-29 01:02:03")],
)
def test_what_is_no_date_keeps_its_text(fields: tuple[int, ...], text: str) -> None:
    packed = pack_datetime(*fields)
    assert datetime_text(packed, 0) == text


def test_times_may_be_negative() -> None:
    assert time_text(-1, 6) == "-00:00:00.000001"
    assert time_text(-3020399_999000, 3) == "-838:59:59.999"
    assert time_text(3_600_000_000, 0) == "01:00:00"


@given(st.integers(1, 65), st.data())
def test_decimals_are_exact(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, min(precision, 30)))
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    raw = decimal(unscaled, precision, scale)
    assert read_decimal(raw, 0, precision, scale, len(raw)) == unscaled
    sign, digits, exponent = Decimal(decimal_text(unscaled, scale)).as_tuple()
    assert (int("".join(map(str, digits))), exponent, bool(sign)) == (abs(unscaled), -scale, unscaled < 0)
