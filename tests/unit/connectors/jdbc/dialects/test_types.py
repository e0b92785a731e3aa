"""Schemas of SQL types, calendars, time zones, and granularities of sources."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.data.logical import END_OF_DAY, FarInstant
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.databases import calendar
from connectors.jdbc.dialects import types
from connectors.jdbc.options import Calendar, Granularity, NumericMapping, ReadOptions

NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
NONE, PRECISION, FIT, EAGER = NumericMapping


@pytest.mark.parametrize(
    ("precision", "scale", "expected"),
    [
        (2, 0, ["decimal", Type.INT8, Type.INT8, Type.INT8]),
        (3, 0, ["decimal", Type.INT16, Type.INT16, Type.INT16]),
        (4, 0, ["decimal", Type.INT16, Type.INT16, Type.INT16]),
        (5, 0, ["decimal", Type.INT32, Type.INT32, Type.INT32]),
        (9, 0, ["decimal", Type.INT32, Type.INT32, Type.INT32]),
        (10, 0, ["decimal", Type.INT64, Type.INT64, Type.INT64]),
        (18, 0, ["decimal", Type.INT64, Type.INT64, Type.INT64]),
        (19, 0, ["decimal"] * 4),
        (10, -2, ["decimal", "decimal", Type.INT64, Type.INT64]),
        (10, -84, ["decimal", "decimal", Type.INT64, Type.INT64]),
        (10, -85, ["decimal"] * 4),
        (10, 2, ["decimal", "decimal", Type.FLOAT64, Type.FLOAT64]),
        (19, 2, ["decimal", "decimal", "decimal", Type.FLOAT64]),
        (0, -127, ["decimal"] * 4),
    ],
)
def test_numeric_mapping_matches_confluents_connector(precision: int, scale: int, expected: list[str | Type]) -> None:
    for mapping, kind in zip((NONE, PRECISION, FIT, EAGER), expected, strict=True):
        schema = types.numeric_schema(precision, scale, False, ReadOptions(numeric=mapping))
        if isinstance(kind, str):
            shown = {"scale": str(127 if scale == -127 else scale), "connect.decimal.precision": str(precision)}
            assert schema.parameters == shown, mapping
        else:
            assert schema == Schema(kind), mapping


def test_decimals_of_the_aiven_flavor_have_only_a_scale() -> None:
    plain = ReadOptions(decimal_precision=False)
    assert types.decimal_schema(10, 2, False, plain).parameters == {"scale": "2"}
    assert types.numeric_schema(10, 2, False, plain).parameters == {"scale": "2"}
    assert types.decimal_schema(10, 2, False, ReadOptions()).parameters == {"scale": "2", "connect.decimal.precision": "10"}


def test_unsigned_integers_get_the_next_wider_type() -> None:
    assert [types.integer_schema(bits, False).type for bits in (8, 16, 32, 64)] == [Type.INT8, Type.INT16, Type.INT32, Type.INT64]
    unsigned = [types.integer_schema(bits, True, signed=False).type for bits in (8, 16, 32, 64)]
    assert unsigned == [Type.INT16, Type.INT32, Type.INT64, Type.INT64]


@pytest.mark.parametrize(
    ("value", "scale", "expected"),
    [
        ("1", 2, "1.00"),
        ("1E+3", 0, "1000"),
        ("1.50", 1, "1.5"),
        ("-0.0", 1, "-0.0"),
        ("12300", -2, "1.23E+4"),
        ("9" * 70, 1, "9" * 70 + ".0"),
    ],
)
def test_a_decimal_is_rescaled_without_loss(value: str, scale: int, expected: str) -> None:
    scaled = types.exact_rescaler(scale, "c")(Decimal(value))
    assert str(scaled) == expected
    assert scaled.as_tuple().exponent == -scale


@pytest.mark.parametrize(
    ("value", "words"), [("1.25", "more than the 1 decimal places"), ("NaN", "not a number"), ("Infinity", "not a number")]
)
def test_a_decimal_that_would_be_rounded_is_rejected(value: str, words: str) -> None:
    with pytest.raises(DataError, match=f"Column c: .*{words}"):
        types.exact_rescaler(1, "c")(Decimal(value))


@pytest.mark.parametrize(
    ("wall", "utc"),
    [
        (dt.datetime(2024, 7, 1), "2024-07-01 04:00"),
        (dt.datetime(2024, 3, 10, 2, 30), "2024-03-10 07:30"),  # left out: it goes on from the hour before
        (dt.datetime(2024, 11, 3, 1, 30), "2024-11-03 06:30"),  # comes twice: the second one
    ],
)
def test_wall_times_convert_to_utc_as_in_java(wall: dt.datetime, utc: str) -> None:
    assert f"{types.wall_to_utc(wall, NEW_YORK):%Y-%m-%d %H:%M}" == utc
    assert types.wall_to_instant_ns(types.datetime_to_wall_ns(wall), NEW_YORK) == types.datetime_to_instant_ns(
        types.wall_to_utc(wall, NEW_YORK)
    )


@given(st.integers(-800_000, 3_000_000))
def test_legacy_and_proleptic_days_convert_both_ways(day: int) -> None:
    assert calendar.epoch_day_of_date(*calendar.date_of_epoch_day(day)) == day
    if day >= -141_427 or day < -141_437:  # the days that Java's calendar leaves out are the only ones that do not come back
        assert types.to_proleptic_day(types.to_legacy_day(day)) == day


@given(
    st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)), st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata"])
)
def test_datetimes_and_nanoseconds_convert_to_the_same_timestamps(value: dt.datetime, zone: str) -> None:
    for granularity in Granularity:
        options = ReadOptions(zone=dt.UTC if zone == "UTC" else zoneinfo.ZoneInfo(zone), granularity=granularity)
        try:
            expected = types.timestamp_from_ns(options, "c")(types.datetime_to_wall_ns(value))
        except DataError:
            continue
        if isinstance(expected, FarInstant):
            continue
        assert types.timestamp_from_datetime(options, "c")(value) == expected


def test_old_timestamps_use_the_configured_calendar() -> None:
    value = dt.datetime(1500, 1, 1, 3, 4)
    legacy, plain = ReadOptions(), ReadOptions(calendar=Calendar.PROLEPTIC_GREGORIAN)
    assert types.timestamp_from_datetime(legacy, "c")(value) == dt.datetime(1500, 1, 10, 3, 4, tzinfo=dt.UTC)
    assert types.timestamp_from_datetime(plain, "c")(value) == value.replace(tzinfo=dt.UTC)


def test_nanoseconds_that_do_not_fit_64_bits_are_rejected() -> None:
    read = types.timestamp_from_ns(ReadOptions(granularity=Granularity.NANOS_LONG), "c")
    with pytest.raises(DataError, match=r"Column c: 2300-01-01T00:00:00.000000000 .* does not fit 64 bits"):
        read(types.datetime_to_wall_ns(dt.datetime(2300, 1, 1)))


def test_times_are_truncated_to_milliseconds_or_rejected_when_strict() -> None:
    value = dt.time(1, 2, 3, 4567)
    assert types.time_from_time(ReadOptions(), "c")(value) == dt.time(1, 2, 3, 4000)
    assert types.time_from_time(ReadOptions(), "c")(END_OF_DAY) is END_OF_DAY
    with pytest.raises(DataError, match="finer than a millisecond"):
        types.time_from_time(ReadOptions(strict=True), "c")(value)
    there = types.time_from_time(ReadOptions(zone=NEW_YORK), "c")(dt.time(20, 0))
    assert there == dt.time(1, 0)
    assert types.shift_time(types.time_to_ns(there), NEW_YORK, to_utc=False) == types.time_to_ns(dt.time(20, 0))


@pytest.mark.parametrize(
    ("ns", "digits", "expected"),
    [
        (0, 0, "1970-01-01T00:00:00"),
        (-1, 9, "1969-12-31T23:59:59.999999999"),
        (-62_135_596_800_000_000_001, 3, "0000-12-31T23:59:59.999"),
    ],
)
def test_wall_times_are_formatted(ns: int, digits: int, expected: str) -> None:
    assert types.format_wall_ns(ns, digits) == expected
