"""Defaults of columns as defaults of schemas: the values of Debezium."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from connectors.mysql.schema.model import Column
from connectors.mysql.types import MySqlTypeSettings, column_type

DEFAULT = MySqlTypeSettings()
_CONNECT = replace(DEFAULT, time_mode="connect")


def default_of(
    type_name: str, default: str | None, settings: MySqlTypeSettings = DEFAULT, *, optional: bool = True, **members: Any
) -> Any:
    column = Column("c", 1, type_name, type_name, 0, optional=optional, has_default=True, default=default, **members)
    mapped = column_type(column, settings)
    assert mapped is not None
    return mapped.schema.default


@pytest.mark.parametrize(
    ("type_name", "default", "expected", "members"),
    [
        ("TINYINT UNSIGNED", "0", 0, {}),
        ("TINYINT", "10", 10, {}),
        ("SMALLINT", " 5 ", 5, {}),
        ("INT", "'30'", 30, {}),
        ("INT", "2.5", 3, {}),
        ("INT", "-2.5", -3, {}),
        ("INT(1)", "TRUE", 1, {}),
        ("BIGINT", "9007199254740993", 9007199254740993, {}),
        ("BIGINT", "-9223372036854775808", -9223372036854775808, {}),
        ("BOOLEAN", "TRUE", True, {}),
        ("BOOLEAN", "0", False, {}),
        ("FLOAT", "0.1", 0.10000000149011612, {}),
        ("FLOAT", "0", 0.0, {}),
        ("DOUBLE", "1.0", 1.0, {}),
        ("NUMERIC", "12.678", Decimal("12.67800"), {"length": 7, "scale": 5}),
        ("DECIMAL", "2.3215", Decimal("2.322"), {"length": 4, "scale": 3}),
        ("DECIMAL", "true", Decimal(1), {}),
        ("YEAR", "1", 2001, {}),
        ("YEAR", "70", 1970, {}),
        ("YEAR", "2018", 2018, {}),
        ("BIT", "1", True, {"length": 1}),
        ("BIT", "b'0'", False, {"length": 1}),
        ("BIT", "FALSE", False, {"length": 1}),
        ("BIT", "101000010", b"\x42\x01", {"length": 10}),
        ("BIT", "b'10110000100001111'", b"\x0f\x61\x01\x00", {"length": 25}),
        ("BIT", "0b101", b"\x05", {"length": 8}),
        ("BIT", "5", b"\x05", {"length": 8}),
        ("CHAR", "A", "A", {}),
        ("VARCHAR", "_utf8mb4'abc'", "abc", {}),
        ("VARCHAR", "'quoted'", "'quoted'", {}),
        ("VARCHAR", "", "", {}),
        ("TEXT", "é", "é", {"charset": "latin1"}),
        ("NCHAR", "10", "10", {}),
        ("ENUM", "b2c", "b2c", {"enum_values": ("b2c", "b2b")}),
        ("SET", "a,b", "a,b", {"enum_values": ("a", "b")}),
        ("JSON", "{}", "{}", {}),
        ("VARBINARY", "abc", b"abc", {}),
        ("VARBINARY", "x'00FF'", b"\0\xff", {}),
        ("VARBINARY", "0x00ff", b"\0\xff", {}),
        ("BINARY", "ab", b"ab\0\0", {"length": 4}),
        ("DATE", "1976-08-23", 2426, {}),
        ("DATE", "1976-08-23 00:00:00", 2426, {}),
        ("DATETIME", "2018-01-03 00:00:10", 1514937610000, {}),
        ("DATETIME", "2018-01-03", 1514937600000, {}),
        ("DATETIME", "2018-01-03 00:00:10.7", 1514937610700, {"length": 1}),
        ("DATETIME", "2018-01-03 00:00:10.123456", 1514937610123456, {"length": 6}),
        ("DATETIME", "CURRENT_TIMESTAMP", 0, {}),
        ("DATETIME", "1970-01-01 00:00:00", 0, {}),
        ("TIMESTAMP", "1970-01-01 00:00:01", "1970-01-01T00:00:01Z", {}),
        ("TIMESTAMP", "2018-01-03 00:00:10.5", "2018-01-03T00:00:10.500Z", {"length": 3}),
        ("TIMESTAMP", "2018-01-03", "2018-01-03T00:00:00Z", {}),
        ("TIME", "00:00:00", 0, {}),
        ("TIME", "23:00:00.7", 82800700000, {"length": 1}),
        ("TIME", "-23:45:56.7", -85556700000, {"length": 1}),
        ("TIME", "123:00:00.123456", 442800123456, {"length": 6}),
        ("TIME", "1970-01-01 01:02:03", 3723000000, {}),
        ("TIME", "101112", 36672000000, {}),
    ],
)
def test_literals(type_name: str, default: str, expected: Any, members: dict[str, Any]) -> None:
    for optional in (True, False):
        found = default_of(type_name, default, optional=optional, **members)
        assert (type(found), found) == (type(expected), expected)
        if isinstance(expected, Decimal):
            assert found.as_tuple() == expected.as_tuple()


@pytest.mark.parametrize(
    ("settings", "type_name", "default", "expected"),
    [
        (_CONNECT, "DATE", "1976-08-23", dt.date(1976, 8, 23)),
        (_CONNECT, "DATETIME", "2018-01-03 00:00:10", dt.datetime(2018, 1, 3, 0, 0, 10, tzinfo=dt.UTC)),
        (_CONNECT, "TIME", "23:00:00", dt.time(23)),
        (replace(DEFAULT, time_mode="isostring"), "DATE", "1976-08-23", "1976-08-23Z"),
        (replace(DEFAULT, time_mode="structured"), "DATE", "1976-08-23", None),
        (replace(DEFAULT, decimal_mode="double"), "DECIMAL", "1.5", 2.0),
        (replace(DEFAULT, decimal_mode="string"), "DECIMAL", "1", "1"),
        (replace(DEFAULT, unsigned_bigint_mode="precise"), "BIGINT UNSIGNED", "18446744073709551615", Decimal(2**64 - 1)),
        (replace(DEFAULT, binary_mode="hex"), "VARBINARY", "ab", "6162"),
    ],
)
def test_literals_follow_the_modes(settings: MySqlTypeSettings, type_name: str, default: str, expected: Any) -> None:
    assert default_of(type_name, default, settings) == expected


@pytest.mark.parametrize("default", ["0000-00-00", "0", "2018-00-01", "0000-00-00 00:00:00"])
@pytest.mark.parametrize(
    ("type_name", "epoch"), [("DATE", 0), ("DATETIME", 0), ("DATETIME(6)", 0), ("TIMESTAMP", "1970-01-01T00:00:00Z")]
)
def test_zero_dates_are_1970_where_there_is_no_null(type_name: str, epoch: Any, default: str) -> None:
    if type_name == "TIMESTAMP" and default == "2018-00-01":
        return  # the server refuses it
    length = 6 if "6" in type_name else None
    assert default_of(type_name, default, optional=False, length=length) == epoch
    assert default_of(type_name, default, optional=True, length=length) is None


@pytest.mark.parametrize(
    "default", ["CURRENT_TIMESTAMP", "current_timestamp(6)", "now()", "LOCALTIMESTAMP", "1970-01-01 00:00:00"]
)
def test_current_time_gives_an_optional_timestamp_no_default(default: str) -> None:
    assert default_of("TIMESTAMP", default) is None
    assert default_of("TIMESTAMP", default, optional=False) == "1970-01-01T00:00:00Z"


def test_null_and_no_default_give_none() -> None:
    assert default_of("INT", None) is None
    found = column_type(Column("c", 1, "INT", "INT", 4, default="5"), DEFAULT)
    assert found is not None
    assert found.schema.default is None


@pytest.mark.parametrize(
    ("type_name", "default"),
    [
        ("INT", "uuid()"),
        ("TINYINT", "300"),
        ("TIME", "noon"),
        ("BIT", "b'2'"),
        ("DATE", "2023-02-30"),
        ("BIGINT UNSIGNED", "18446744073709551615"),
    ],
)
def test_default_that_does_not_parse_is_left_out(type_name: str, default: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert default_of(type_name, default) is None
    assert f"the default {default} of column c" in caplog.text


def test_structs_have_no_default() -> None:
    assert default_of("POINT", "x") is None
    assert default_of("VECTOR", "x") is None
