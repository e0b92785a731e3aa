"""Values of queries and of the binary log, from constructed input; with servers: tests/integration/mysql/test_types.py."""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.data.struct import Struct
from connect.errors import DataError
from connectors.cdc.config.column_rules import parse_column_rules
from connectors.cdc.schema.column_mapping import RowColumn, map_column
from connectors.cdc.schema.lenient_columns import lenient_column
from connectors.mysql.binlog import ColumnReader, JsonDiffs
from connectors.mysql.binlog.temporal import datetime_text, pack_datetime, time_text
from connectors.mysql.schema.model import Column
from connectors.mysql.types import MySqlColumnType, column_type, source_type
from tests.support.mysql_columns import DEFAULT, mapped_column

mapped = partial(mapped_column, optional=True)

TIME_MODES = ("adaptive_time_microseconds", "adaptive", "connect", "isostring", "microseconds", "nanoseconds", "structured")


def plain(value: Any) -> Any:
    return value.values if isinstance(value, Struct) else value


# --- types of MySQL alone -------------------------------------------------------------------------------------------------------


def test_json_of_mysql_arrives_as_text_and_partly_changed_documents_are_unavailable() -> None:
    raw = mapped("JSON").raw().decode
    assert raw('{"a": 1}') == '{"a": 1}'
    assert raw('{"ü": 1}'.encode()) == '{"ü": 1}'  # MariaDB
    assert raw(JsonDiffs(())) == "__debezium_unavailable_value"


def test_vector() -> None:
    found = mapped("VECTOR", length=2)
    data = struct.pack("<2f", 1.5, -2.0)
    assert found.text.decode(data) == found.raw().decode(data) == [1.5, -2.0]
    with pytest.raises(DataError, match=r"column c: .* 7 bytes are no multiple of 4"):
        found.raw().decode(data[:7])


# --- dates and times ------------------------------------------------------------------------------------------------------------


@given(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)), st.integers(0, 6), st.sampled_from(TIME_MODES))
def test_datetime_is_the_same_in_both_forms(moment: dt.datetime, digits: int, mode: str) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    packed = pack_datetime(*moment.timetuple()[:6], moment.microsecond)
    found = mapped("DATETIME", replace(DEFAULT, time_mode=mode), length=digits or None)
    assert plain(found.text.decode(datetime_text(packed, digits))) == plain(found.raw().decode(packed))


@given(st.datetimes(dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(2106, 2, 7)), st.integers(0, 6), st.sampled_from(TIME_MODES))
def test_timestamp_is_the_same_in_both_forms(moment: dt.datetime, digits: int, mode: str) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    packed = pack_datetime(*moment.timetuple()[:6], moment.microsecond)
    us = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    found = mapped("TIMESTAMP", replace(DEFAULT, time_mode=mode), length=digits or None)
    assert plain(found.text.decode(datetime_text(packed, digits))) == plain(found.raw().decode(us))


@given(st.integers(-3020399999999, 3020399999999), st.integers(0, 6), st.sampled_from(TIME_MODES))
def test_time_is_the_same_in_both_forms(us: int, digits: int, mode: str) -> None:
    unit = 10 ** (6 - digits)
    us = us // unit * unit if us >= 0 else -(-us // unit * unit)
    found = mapped("TIME", replace(DEFAULT, time_mode=mode), length=digits or None)

    def outcome(decode: Any, value: Any) -> Any:
        try:
            return plain(decode(value))
        except DataError as e:
            return e.message

    assert outcome(found.text.decode, time_text(us, digits)) == outcome(found.raw().decode, us)


@pytest.mark.parametrize("mode", TIME_MODES)
def test_a_column_does_not_keep_every_date(mode: str) -> None:
    """Values are the same before and after the kept ones are dropped."""
    found = mapped("DATETIME", replace(DEFAULT, time_mode=mode)).raw().decode
    days = [pack_datetime(2000 + i // 300, 1 + i // 25 % 12, 1 + i % 25) for i in range(2000)]
    assert [plain(found(day)) for day in days] == [plain(found(day)) for day in days]


def test_required_columns_have_their_default_for_zero_dates() -> None:
    found = mapped("DATETIME", optional=False, has_default=True, default="2018-01-03 00:00:10")
    assert found.text.decode("0000-00-00 00:00:00") == found.raw().decode(0) == 1514937610000
    optional = mapped("DATETIME", has_default=True, default="2018-01-03 00:00:10")
    assert optional.text.decode("0000-00-00 00:00:00") is optional.raw().decode(0) is None


@pytest.mark.parametrize("text", ["", "2024", "2024-01-01T", "24-01-01 00:00:00", "2024-01-01 00:00", "x"])
@pytest.mark.parametrize("type_name", ["DATE", "DATETIME", "TIMESTAMP"])
def test_other_texts_are_no_dates(type_name: str, text: str) -> None:
    if type_name == "DATETIME" and text == "2024-01-01 00:00":
        return  # a time that the server never sends, but that means the same
    with pytest.raises(DataError, match="column c: "):
        mapped(type_name).text.decode(text)


# --- errors ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_name", "members", "raw", "message"),
    [
        ("ENUM", {"enum_values": ("a", "b")}, 3, "column c: 3 is no number of a value of its ENUM, which has 2"),
        ("SET", {"enum_values": ("a", "b")}, 4, "column c: 4 is no set of bits of its SET, which has 2 values"),
        ("POINT", {}, b"\0" * 8, "fewer than 9 bytes"),
        ("POINT", {}, b"\0" * 4 + b"\1" + b"\2" + b"\0" * 19, "is no point of two coordinates"),
        ("TEXT", {"charset": "gbk"}, b"\xff", "column c: b'\\xff' is no text in gbk"),
    ],
)
def test_raw_values_that_do_not_fit_name_the_column(type_name: str, members: dict[str, Any], raw: Any, message: str) -> None:
    with pytest.raises(DataError) as raised:
        mapped(type_name, **members).raw().decode(raw)
    assert message in raised.value.message


def test_texts_that_do_not_fit_name_column_and_value() -> None:
    with pytest.raises(DataError, match="column c: x is no value of its type: invalid literal"):
        mapped("INT").text.decode("x")
    with pytest.raises(DataError, match="column c: 1,5 is no value of its type"):
        mapped("DECIMAL").text.decode("1,5")


# --- columns whose values are changed -------------------------------------------------------------------------------------------


def changed(rule: dict[str, str], found: MySqlColumnType, raw: bool, column: Column) -> RowColumn:
    type_ = found.raw() if raw else found.text
    row_column = RowColumn("c", type_, found.schema, 0, type_, type_.zero)
    (parsed,) = parse_column_rules(rule)
    return map_column(row_column, parsed, "db.t", source_type(column), in_key=False)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"column.mask.with.3.chars": "db.t.c"}, "***"),
        ({"column.truncate.to.2.chars": "db.t.c"}, "Zü"),
        ({"column.mask.hash.v2.SHA-256.with.salt.s": "db.t.c"}, "f4ef26e4c3"),
        ({"column.propagate.source.type": "db.t.c"}, "Zürich"),
    ],
)
def test_rules_apply_to_both_forms(rule: dict[str, str], expected: str) -> None:
    column = Column("c", 1, "VARCHAR", "VARCHAR", 12, 10, charset="latin1")
    found = column_type(column, DEFAULT)
    assert found is not None
    data = "Zürich".encode("cp1252")
    text = changed(rule, found, False, column)
    raw = changed(rule, found, True, column)
    reader = found.read_by(raw.type)
    assert reader.convert is not None
    assert (reader.inline, reader.name) == ("", "c")
    assert text.type.decode(data) == reader.convert(data)
    if "hash" not in next(iter(rule)):
        assert text.type.decode(data) == expected
    assert text.schema == raw.schema


def test_truncation_leaves_null_dates_alone() -> None:
    column = Column("c", 1, "DATE", "DATE", 91)
    found = column_type(column, replace(DEFAULT, time_mode="isostring"))
    assert found is not None
    text = changed({"column.truncate.to.4.chars": "db.t.c"}, found, False, column)
    assert (text.type.decode("2024-02-29"), text.type.decode("0000-00-00")) == ("2024", None)


def test_lenient_columns_are_null_in_both_forms() -> None:
    found = mapped("DATE")
    for type_, value in ((found.text, "2023-02-30"), (found.raw(), 2023 << 9 | 2 << 5 | 30)):
        row_column = lenient_column(RowColumn("c", type_, found.schema, 0, type_, 0), "db.t", "skip", in_key=False)
        assert row_column.type.decode(value) is None


def test_structs_have_the_schema_of_their_field() -> None:
    found = mapped("POINT")
    value = found.raw().decode(b"\0" * 4 + struct.pack("<BIdd", 1, 1, 3.0, 4.0))
    assert value.schema is found.schema
    renamed = found.under(found.schema.replace(parameters={"a": "b"}))
    value = renamed.raw().decode(b"\0" * 4 + struct.pack(">BIdd", 0, 1, 3.0, 4.0))
    assert (value.schema, value.values[:2]) == (renamed.schema, [3.0, 4.0])


def test_reader_of_a_number_stays_without_code() -> None:
    assert mapped("INT").reader == ColumnReader(unsigned=False, name="c")
