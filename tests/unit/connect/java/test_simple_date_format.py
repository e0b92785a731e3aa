from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.java.simple_date_format import PatternError, SimpleDateFormat

NOON = 1_700_000_000_123  # Tuesday, 14 November 2023, 22:13:20.123 UTC
DAY = 86_400_000


def _millis(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> int:
    """Of a moment in UTC."""
    return round(dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2023-11-14T22:13:20.123Z"),
        ("EEE, d MMM yy h:mm a z", "Tue, 14 Nov 23 10:13 PM UTC"),
        ("EEEE MMMM G GGGG zzzz Z", "Tuesday November AD AD Coordinated Universal Time +0000"),
        ("YYYY-'W'ww-u D F W", "2023-W46-2 318 2 3"),
        ("HH 'o''clock' ''kk''", "22 o'clock '22'"),
        ("K k SSSSS yyyyy", "10 22 00123 02023"),
        ("[yyyy] \u5e74", "[2023] \u5e74"),
    ],
)
def test_pattern_letters_format_as_in_java(pattern: str, text: str) -> None:
    assert SimpleDateFormat(pattern).format(NOON) == text


def test_dates_before_1582_are_julian() -> None:
    assert SimpleDateFormat("yyyy-MM-dd").format(_millis(1582, 10, 14)) == "1582-10-04"
    assert SimpleDateFormat("G yyyy-MM-dd").format(_millis(1, 1, 1) - 3 * DAY) == "BC 0001-12-31"


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("yyyy-MM-dd", " 2023-1-1 and more", _millis(2023, 1, 1)),
        ("yyyy-MM-dd", "2023-13-00", _millis(2023, 12, 31)),
        ("yyyyMMddHHmmss", "20230102030405", _millis(2023, 1, 2, 3, 4, 5)),
        ("dd-MMM-yyyy", "02-jan-2023", _millis(2023, 1, 2)),
        ("d MMMM yyyy", "2 Jan 2023", _millis(2023, 1, 2)),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2023-01-02T03:04:05+02:30", _millis(2023, 1, 2, 0, 34, 5)),
        ("yyyy-MM-dd HH:mm z", "2023-01-02 03:04 PST", _millis(2023, 1, 2, 11, 4)),
        ("yyyy-MM-dd HH:mm Z", "2023-01-02 03:04 GMT-1:00", _millis(2023, 1, 2, 4, 4)),
        ("h:mm a", "12:30 am", 30 * 60_000),
        ("h:mm a", "13:04 PM", 25 * 3_600_000 + 4 * 60_000),
        ("D yyyy", "60 2024", _millis(2024, 2, 29)),
        ("YYYY-'W'ww-u", "2023-W46-2", _millis(2023, 11, 14)),
        ("EEE W MMM yyyy", "Tue 3 Nov 2023", _millis(2023, 11, 14)),
        ("EEE F MM yyyy", "Tue 2 11 2023", _millis(2023, 11, 14)),
        ("E w yyyy", "Tue 46 2023", _millis(2023, 11, 14)),
        ("yy", "99", _millis(1999, 1, 1)),
        ("G y", "BC 1", -62167392000000),
        ("HH:mm", "-1:00", -3_600_000),
        ("yyyy-MM-dd", "NaN-02-03", -62164540800000),
        ("yyyy-MM-dd", "2024-∞-01", 5647338232128000000),
        ("d.M.yyyy", "-∞.1.2024", -185540882083200000),
        ("HHmm", "9∞", 128849051220000),
        ("ww", "92233720368547758081E-1", 1298798108755200000),
    ],
)
def test_parsing_is_lenient_as_in_java(pattern: str, text: str, millis: int) -> None:
    assert SimpleDateFormat(pattern).parse(text) == millis


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("G YYYY ww", "BC 1500 10", -109466726400000),
        ("YYYY-ww-u", "2024-10--9", 1708646400000),
        ("u YYYY", "-2147483648 2024", -185540883206400000),
        ("YYYY", "2147483647", -6019000093065600000),
        ("YYYY ww", "2024 999999999", -137368645977600000),
        ("yyyy W E", "2024 2147483647 Thu", 185544290304000000),
        ("yyyy F", "2024 999999999", -137368644681600000),
        ("yyyy-MM", "2147483647-14", 6017484159999806464),
        ("yyyy:mm", "1582:99999999", -6244089660000),
        ("HHHH", "-9999999", -35998873200000),
    ],
)
def test_extreme_years_agree_with_the_java_calendar(pattern: str, text: str, millis: int) -> None:
    assert SimpleDateFormat(pattern).parse(text) == millis


def test_last_two_digit_year_of_several_may_move_by_a_century() -> None:
    ambiguous = (dt.datetime.now(dt.UTC).year - 80) % 100
    year_69 = SimpleDateFormat("yyyy").parse("0069")
    assert SimpleDateFormat("yy yy yyyy").parse(f"{ambiguous:02} {ambiguous + 1:02} 0069") == year_69


@pytest.mark.parametrize(
    ("pattern", "millis", "text"),
    [
        ("YYYY-ww", -151885717672874, "-2843-53"),
        ("YYYY", -62198668800000, "-0001"),
        ("F W D", -12219292800000, "1 1 278"),
        ("F", -12218947200000, "2"),
    ],
)
def test_weeks_bc_and_in_october_1582_agree_with_the_java_calendar(pattern: str, millis: int, text: str) -> None:
    assert SimpleDateFormat(pattern).format(millis) == text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", ""),
        ("yyyy-MM-dd", "2023/01/01"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2023-01-02T03:04:05+0230"),
        ("dd MMM yyyy", "1 Sept 2020"),
        ("HH z", "1 Nowhere"),
        ("''", ""),
    ],
)
def test_text_that_does_not_match_returns_none(pattern: str, text: str) -> None:
    assert SimpleDateFormat(pattern).parse(text) is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("yyyy-MM-ddTHH", "Illegal pattern character 'T'"),
        ("'x", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
    ],
)
def test_invalid_pattern_is_rejected_with_the_text_of_java(pattern: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        SimpleDateFormat(pattern)


@given(st.integers(-(10**15), 10**15))
def test_formatted_date_parses_back(millis: int) -> None:
    for pattern in ("G yyyy-MM-dd HH:mm:ss.SSS", "G yyyy D k:m:s.S", "G EEE, d MMM yyyy KK:mm:ss.SSS a"):
        format = SimpleDateFormat(pattern)
        assert format.parse(format.format(millis)) == millis


@given(st.text(max_size=20))
def test_parsing_any_text_does_not_raise(text: str) -> None:
    SimpleDateFormat("EEE yyyy-MM-dd HH:mm:ss.SSS z").parse(text)
    SimpleDateFormat("yyMMdd X").parse(text)
