"""PostgreSQL's text formats in both directions: arrays, dates and times, COPY."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.databases.postgresql.arrays import array_decoder, format_array
from connectors.databases.postgresql.dates import (
    format_day,
    format_offset,
    format_time,
    format_timestamp,
    parse_day,
    parse_time_ns,
    parse_timestamp_ns,
    parse_timetz,
)
from connectors.databases.postgresql.text_format import unescape_copy
from connectors.jdbc.dialects.postgres.copy_text import array_parameter, copy_lines
from connectors.jdbc.dialects.postgres.value_encoder import TextStyle

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(["NULL", "\\N", "{", ""])
CELLS = st.none() | TEXT


@given(st.lists(CELLS, max_size=8))
def test_arrays_round_trip(values: list[str | None]) -> None:
    for delimiter in ",;":
        assert array_decoder("c", str, 1, delimiter)(format_array(values, str, delimiter)) == values


@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_multidimensional_arrays_round_trip(outer: int, inner: int, data: st.DataObject) -> None:
    values: list[Any] = [[data.draw(CELLS) for _ in range(inner)] for _ in range(outer)]
    assert array_decoder("c", str, 2, ",")(format_array(values, str)) == values
    with pytest.raises(DataError, match="Column c: the array"):
        array_decoder("c", str, 1, ",")(format_array(values, str))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", []),
        ("{1,NULL,3}", ["1", None, "3"]),
        ('{"NULL",NULL,""}', ["NULL", None, ""]),
        ('{"a,b","c\\"d","e\\\\f",g}', ["a,b", 'c"d', "e\\f", "g"]),
    ],
)
def test_arrays_in_the_servers_format_are_parsed(text: str, expected: list[str | None]) -> None:
    assert array_decoder("c", str, 1, ",")(text) == expected


@given(st.lists(st.tuples(CELLS, CELLS, st.none() | st.binary()), min_size=1, max_size=8))
def test_copy_lines_round_trip(rows: list[tuple[str | None, str | None, bytes | None]]) -> None:
    numbers = [str(i) for i in range(len(rows))]
    shown = [None if row[2] is None else "\\x" + row[2].hex() for row in rows]
    block = copy_lines(
        [
            ("n", numbers, TextStyle.CLEAN),
            ("a", [row[0] for row in rows], TextStyle.TEXT),
            ("b", [row[1] for row in rows], TextStyle.TEXT),
            ("h", shown, TextStyle.HEX),
        ]
    )
    lines = block.decode().split("\n")
    assert lines.pop() == ""
    found = [[None if cell == "\\N" else unescape_copy(cell) for cell in line.split("\t")] for line in lines]
    assert found == [[n, row[0], row[1], hexed] for n, row, hexed in zip(numbers, rows, shown, strict=True)]


@given(st.lists(CELLS, min_size=1, max_size=8))
def test_array_parameters_round_trip(values: list[str | None]) -> None:
    assert array_decoder("c", str, 1, ",")(array_parameter("c", values, TextStyle.TEXT)) == values
    hexed = [None if value is None else "\\x" + value.encode().hex() for value in values]
    assert array_decoder("c", str, 1, ",")(array_parameter("c", hexed, TextStyle.HEX)) == hexed


@pytest.mark.parametrize("write", [lambda *column: copy_lines([column]), array_parameter])
def test_text_that_postgresql_cannot_store_is_rejected_with_the_field_name(write: Any) -> None:
    for text, message in (("a\0", r"Field name holds the character U\+0000"), ("\udcff", "Field name holds half of a surrogate")):
        for texts in ([text], [None, text]):
            with pytest.raises(DataError, match=message):
                write("name", texts, TextStyle.TEXT)


@given(st.integers(-2_451_507 + 2_440_588 - 4_000_000, 106_741_034 - 2_440_588))
def test_days_round_trip(day: int) -> None:
    assert parse_day(format_day(day), "c") == day


@given(st.integers(-(10**17), 10**19))
def test_timestamps_round_trip(micros: int) -> None:
    ns = micros * 1000
    assert parse_timestamp_ns(format_timestamp(ns, "Field f"), "c") == ns
    assert parse_timestamp_ns(format_timestamp(ns, "Field f", "+00"), "c") == ns


def test_dates_of_all_eras_are_parsed() -> None:
    assert [parse_day(text, "c") for text in ("1970-01-01", "0001-01-01", "0001-12-31 BC", "10000-01-01")] == [
        0, -719_162, -719_163, 2_932_897
    ]  # fmt: skip
    assert format_day(-719_163) == "0001-12-31 BC"
    assert format_timestamp(-719_163 * 86_400 * 10**9 + 10**6, "f", "+00") == "0001-12-31 00:00:00.001000+00 BC"


@given(st.integers(0, 86_400_000_000))
def test_times_round_trip(micros: int) -> None:
    assert parse_time_ns(format_time(micros * 1000, "Field f")) == micros * 1000


@given(st.integers(0, 86_400_000_000), st.integers(-15 * 3600, 15 * 3600))
def test_times_with_zone_round_trip(micros: int, offset: int) -> None:
    text = format_time(micros * 1000, "Field f") + format_offset(offset)
    assert parse_timetz(text) == (micros * 1000, offset * 10**9)


def test_values_finer_than_a_microsecond_are_rejected() -> None:
    for write in (format_timestamp, format_time):
        with pytest.raises(DataError, match=r"Field f: .* is finer than the microseconds that PostgreSQL stores"):
            write(1, "Field f")
