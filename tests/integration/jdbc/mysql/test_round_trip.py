"""Every column type: its schema, and that a table of the same type gets the same values."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from connect.data.logical import END_OF_DAY, FarInstant
from connect.data.schema import Schema
from connect.errors import DataError
from connectors.jdbc.database import Database
from connectors.jdbc.options import Calendar, Granularity, InsertMode, ReadOptions, SinkField, WriteOptions
from tests.integration.jdbc.mysql.conftest import Connect, Rig

D = Decimal
UTC = dt.UTC


def shown(schema: Schema) -> str:
    """``int8``, ``Decimal(2)``."""
    name = (schema.name or schema.type.value).rpartition(".")[2]
    return f"{name}({(schema.parameters or {})['scale']})" if name == "Decimal" else name


def stamp(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, micro: int = 0) -> dt.datetime:
    return dt.datetime(year, month, day, hour, minute, second, micro, UTC)


TYPES: list[tuple[str, str, str, Any]] = [
    ("boolean", "true", "int8", 1),
    ("tinyint(1)", "127", "int8", 127),
    ("tinyint(1)", "-1", "int8", -1),
    ("tinyint(1) unsigned", "255", "int16", 255),
    ("tinyint", "-128", "int8", -128),
    ("tinyint unsigned", "255", "int16", 255),
    ("smallint", "-32768", "int16", -32768),
    ("smallint unsigned", "65535", "int32", 65535),
    ("mediumint", "-8388608", "int32", -8388608),
    ("mediumint unsigned", "16777215", "int64", 16777215),
    ("int", "-2147483648", "int32", -2147483648),
    ("int unsigned", "4294967295", "int64", 4294967295),
    ("int(5) zerofill", "42", "int64", 42),
    ("bigint", "-9223372036854775808", "int64", -(2**63)),
    ("bigint unsigned", "9223372036854775807", "int64", 2**63 - 1),
    ("float", "1.5", "float", 1.5),
    ("float", "3.402823e38", "float", 3.402823e38),
    ("float", "0.1", "float", 0.1),
    ("float(7,3)", "1234.567", "float", 1234.567),
    ("float unsigned", "16777215", "float", 16777215.0),
    ("double", "0.1", "double", 0.1),
    ("double", "1.7976931348623157e308", "double", 1.7976931348623157e308),
    ("double", "-2.2250738585072014e-308", "double", -2.2250738585072014e-308),
    ("double(10,3)", "1.5", "double", 1.5),
    ("decimal", "12", "Decimal(0)", D("12")),
    ("decimal(5,2)", "1.5", "Decimal(2)", D("1.50")),
    ("decimal(5,2)", "-999.99", "Decimal(2)", D("-999.99")),
    ("decimal(30,30)", "0.000000000000000000000000000001", "Decimal(30)", D("0.000000000000000000000000000001")),
    ("decimal(10,0)", "9999999999", "Decimal(0)", D("9999999999")),
    (
        "decimal(65,30)",
        "12345678901234567890123456789012345.123456789012345678901234567890",
        "Decimal(30)",
        D("12345678901234567890123456789012345.123456789012345678901234567890"),
    ),
    ("decimal(5,2) unsigned", "1.5", "Decimal(2)", D("1.50")),
    ("decimal(8,3) zerofill", "1.5", "Decimal(3)", D("1.500")),
    ("numeric(18,0)", "999999999999999999", "Decimal(0)", D("999999999999999999")),
    ("bit", "b'1'", "int8", 1),
    ("bit(1)", "b'0'", "int8", 0),
    ("bit(7)", "b'1000001'", "int8", 65),
    ("bit(8)", "b'10000001'", "int8", -127),
    ("bit(16)", "b'1000000000000001'", "int64", 32769),
    ("bit(63)", "b'1'", "int64", 1),
    ("bit(64)", "18446744073709551615", "int64", -1),
    ("char(5)", "'ab'", "string", "ab"),
    ("char(5)", "''", "string", ""),
    ("varchar(10)", "'äöü€ '", "string", "äöü€ "),
    ("varchar(10) character set latin1", "'äöü€'", "string", "äöü€"),
    ("varchar(40) character set utf8mb4", "'😀\\\\ '' \\n\\r\\t\\0\\Z \"%s\"'", "string", '😀\\ \' \n\r\t\0\x1a "%s"'),
    ("varchar(10) character set binary", "'ab'", "bytes", b"ab"),
    ("tinytext", "'t'", "string", "t"),
    ("text", "repeat('ä', 300)", "string", "ä" * 300),
    ("mediumtext", "repeat('x', 70000)", "string", "x" * 70000),
    ("longtext", "'t'", "string", "t"),
    ("enum('a','b','c''d')", "'c''d'", "string", "c'd"),
    ("set('a','b')", "'a,b'", "string", "a,b"),
    ("json", '\'{"a":  1, "b": "\\\\\\\\"}\'', "string", '{"a":  1, "b": "\\\\"}'),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "string", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("inet4", "'10.0.0.1'", "string", "10.0.0.1"),
    ("inet6", "'::1'", "string", "::1"),
    ("binary(4)", "x'00ff'", "bytes", b"\0\xff\0\0"),
    ("varbinary(10)", "x'00ff27'", "bytes", b"\0\xff'"),
    ("tinyblob", "x'00ff'", "bytes", b"\0\xff"),
    ("blob", "''", "bytes", b""),
    ("blob", "repeat(x'00ff', 200)", "bytes", b"\0\xff" * 200),
    ("longblob", "x'5c27'", "bytes", b"\\'"),
    ("date", "'2024-02-29'", "Date", dt.date(2024, 2, 29)),
    ("date", "'1582-10-15'", "Date", dt.date(1582, 10, 15)),
    ("date", "'1500-02-28'", "Date", dt.date(1500, 3, 9)),
    ("date", "'0001-01-01'", "Date", FarInstant(-719164 * 86_400_000)),
    ("date", "'9999-12-31'", "Date", dt.date(9999, 12, 31)),
    ("time", "'00:00:00'", "Time", dt.time()),
    ("time", "'23:59:59'", "Time", dt.time(23, 59, 59)),
    ("time", "'24:00:00'", "Time", END_OF_DAY),
    ("time(1)", "'12:34:56.7'", "Time", dt.time(12, 34, 56, 700_000)),
    ("time(3)", "'12:34:56.789'", "Time", dt.time(12, 34, 56, 789_000)),
    ("datetime", "'2024-02-29 12:34:56'", "Timestamp", stamp(2024, 2, 29, 12, 34, 56)),
    ("datetime", "'1500-02-28 00:00:00'", "Timestamp", stamp(1500, 3, 9)),
    ("datetime(1)", "'2024-02-29 12:34:56.7'", "Timestamp", stamp(2024, 2, 29, 12, 34, 56, 700_000)),
    ("datetime(3)", "'2024-02-29 12:34:56.789'", "Timestamp", stamp(2024, 2, 29, 12, 34, 56, 789_000)),
    ("datetime(6)", "'9999-12-31 23:59:59.999'", "Timestamp", stamp(9999, 12, 31, 23, 59, 59, 999_000)),
    ("datetime(6)", "'0001-01-01 00:00:00'", "Timestamp", FarInstant(-62135769600000)),
    ("timestamp", "'2024-02-29 12:34:56'", "Timestamp", stamp(2024, 2, 29, 12, 34, 56)),
    ("timestamp", "'1970-01-01 00:00:01'", "Timestamp", stamp(1970, 1, 1, 0, 0, 1)),
    ("timestamp(6)", "'2038-01-19 03:14:07.999'", "Timestamp", stamp(2038, 1, 19, 3, 14, 7, 999_000)),
    ("year", "2024", "Date", dt.date(2024, 1, 1)),
    ("year", "1901", "Date", dt.date(1901, 1, 1)),
    ("point", "point(1,2)", "bytes", bytes.fromhex("000000000101000000000000000000f03f0000000000000040")),
    ("geometry", "st_geomfromtext('LINESTRING(0 0,1 1)', 4326)", "bytes", ...),
    ("polygon", "st_geomfromtext('POLYGON((0 0,1 0,1 1,0 0))')", "bytes", ...),
]


@dataclass(frozen=True)
class Exchanged:
    """A table with a column of each type, as it was read, and what another one has after the same rows were written to it."""

    fields: dict[str, Schema]
    row: dict[str, Any]
    nulls: dict[str, Any]
    read_back: dict[str, Any]
    equal: dict[str, bool]
    """Whether the server finds the two columns equal, byte by byte."""


@pytest.fixture(scope="module")
def exchanged(_database: Database) -> Exchanged:
    rig = Rig(_database.session())
    spots = (("v", "null"), ("n", "not null"))
    columns = [(f"{letter}{n}", type, null) for n, (type, *_) in enumerate(TYPES) for letter, null in spots]
    ddl = f"(k int primary key, {', '.join(' '.join(column) for column in columns)})"
    rig.run(f"create table all_types {ddl}", f"create table all_types_2 {ddl}")
    literals = [literal for _, literal, *_ in TYPES]
    rig.run(
        f"insert into all_types values (1, {', '.join(f'{literal}, {literal}' for literal in literals)}), "
        f"(2, {', '.join(f'null, {literal}' for literal in literals)})"
    )
    fields, rows = rig.read("all_types")
    rig.write("all_types_2", [SinkField(name, schema, is_key=name == "k") for name, schema in fields], rows, InsertMode.UPSERT)
    names = [name for name, _ in fields]
    same = [f"min(hex(one.{name}) <=> hex(two.{name}) and one.{name} <=> two.{name})" for name in names]
    ((*equal,),) = rig.rows(f"select {', '.join(same)} from all_types one join all_types_2 two on one.k = two.k")
    again = rig.read("all_types_2")
    assert again[0] == fields
    rig.session.close()
    return Exchanged(
        dict(fields), dict(zip(names, rows[0], strict=True)), dict(zip(names, rows[1], strict=True)),
        dict(zip(names, again[1][0], strict=True)), {name: found == 1 for name, found in zip(names, equal, strict=True)},
    )  # fmt: skip


@pytest.mark.parametrize("number", range(len(TYPES)), ids=[f"{t[0]} {t[1]}"[:50] for t in TYPES])
def test_a_value_of_each_type_round_trips(exchanged: Exchanged, number: int) -> None:
    _, _, schema, value = TYPES[number]
    optional, required = f"v{number}", f"n{number}"
    assert shown(exchanged.fields[optional]) == shown(exchanged.fields[required]) == schema
    assert (exchanged.fields[optional].optional, exchanged.fields[required].optional) == (True, False)
    if value is not ...:
        assert exchanged.row[optional] == exchanged.row[required] == value
    assert exchanged.nulls[optional] is None
    assert exchanged.read_back == exchanged.row
    assert (exchanged.equal[optional], exchanged.equal[required]) == (True, True)


def test_days_that_javas_calendar_skips_match_confluents_connector(rig: Rig) -> None:
    assert rig.read("select date'1582-10-14', timestamp'1582-10-10 00:00:00'")[1] == [
        [dt.date(1582, 10, 24), stamp(1582, 10, 20)]
    ]


def test_jdbc_mariadb_urls_read_booleans(connect: Connect) -> None:
    rig = Rig(connect("mariadb").session())
    rig.run(
        "drop table if exists one, two",
        "create table one (a tinyint(1), b boolean, c bit(1), d tinyint, e tinyint(1) unsigned)",
        "insert into one values (1, false, b'1', 1, 1), (0, true, b'0', 0, 0), (null, null, null, null, null)",
        "create table two like one",
    )
    fields, rows = rig.read("one")
    assert [shown(schema) for _, schema in fields] == ["boolean", "boolean", "boolean", "int8", "boolean"]
    assert rows == [[True, False, True, 1, True], [False, True, False, 0, False], [None] * 5]
    rig.write("two", [SinkField(name, schema) for name, schema in fields], rows)
    assert rig.read("two") == (fields, rows)
    rig.run("insert into one values (127, 1, 1, 1, 1)")
    assert rig.read("one")[1][-1][0] is True  # as the original
    with pytest.raises(DataError, match="Column a: 127 is neither 0 nor 1"):
        rig.read("one", ReadOptions(strict=True))
    rig.session.close()


@pytest.mark.parametrize(
    ("type", "literal", "words"),
    [
        ("bigint unsigned", "18446744073709551615", "Column v: 18446744073709551615 does not fit int64"),
        ("time", "'-01:00:00'", "Column v: -01:00:00 is not a time of day"),
        ("time", "'100:00:00'", "Column v: 100:00:00 is not a time of day"),
        ("time(3)", "'838:59:59'", "Column v: 838:59:59.000 is not a time of day"),
        ("date", "'0000-00-00'", "Column v: 0000-00-00 is a zero date"),
        ("date", "'2024-00-10'", "Column v: 2024-00-10 has no month or day"),
        ("datetime", "'0000-00-00 00:00:00'", "Column v: 0000-00-00 is a zero date"),
        ("timestamp", "0", "Column v: 0000-00-00 is a zero date"),
        ("year", "'0000'", "Column v: the year 0000 is not a date"),
    ],
)
def test_a_value_that_connect_cannot_represent_is_rejected_with_its_column(rig: Rig, type: str, literal: str, words: str) -> None:
    rig.run("drop table if exists one", f"create table one (k int, v {type} null)")
    rig.run("set sql_mode = ''", f"insert into one values (1, null), (2, {literal})")
    with pytest.raises(DataError, match=words):
        rig.read("one")
    assert rig.rows("select count(*) from one") == [(2,)]


def test_values_finer_than_a_millisecond_are_truncated_or_rejected_when_strict(rig: Rig) -> None:
    rig.run("drop table if exists one", "create table one (a datetime(6), b timestamp(6) null, c time(6))")
    rig.run("insert into one values ('1969-12-31 23:59:59.999500', '2024-02-29 12:34:56.123456', '23:59:59.999999')")
    assert rig.read("one")[1] == [
        [stamp(1969, 12, 31, 23, 59, 59, 999_000), stamp(2024, 2, 29, 12, 34, 56, 123_000), dt.time(23, 59, 59, 999_000)]
    ]
    for column in "abc":
        with pytest.raises(DataError, match=f"Column {column}: .* is finer than a millisecond"):
            rig.read(f"select {column} from one", ReadOptions(strict=True))
    rig.run("update one set a = '2024-01-01 00:00:00.123', b = a, c = '01:02:03.456'")
    assert rig.read("one", ReadOptions(strict=True)) == rig.read("one")


@pytest.mark.parametrize(
    ("granularity", "value"),
    [
        (Granularity.MICROS_LONG, 1709210096123456),
        (Granularity.MICROS_STRING, "1709210096123456"),
        (Granularity.MICROS_ISO, "2024-02-29T12:34:56.123456"),
        (Granularity.NANOS_LONG, 1709210096123456000),
        (Granularity.NANOS_ISO, "2024-02-29T12:34:56.123456000"),
    ],
)
def test_granularities_preserve_microseconds_and_round_trip(rig: Rig, granularity: Granularity, value: Any) -> None:
    rig.run("drop table if exists one, two", "create table one (a datetime(6), b timestamp(6) null)", "create table two like one")
    rig.run("insert into one values ('2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.123456')")
    fields, rows = rig.read("one", ReadOptions(granularity=granularity))
    assert rows == [[value, value]]
    unit = 1 if "nanos" in granularity.value else 1000
    options = WriteOptions(string_timestamps=frozenset("ab"), timestamp_unit_ns=unit)
    rig.write("two", [SinkField(name, schema) for name, schema in fields], rows, options=options)
    assert rig.rows("select * from two") == rig.rows("select * from one")


def test_a_datetime_is_in_db_timezone_and_a_timestamp_in_no_zone(rig: Rig) -> None:
    from zoneinfo import ZoneInfo

    zone = ZoneInfo("Europe/Berlin")
    rig.run(
        "drop table if exists one, two", "create table one (a datetime, b timestamp null, c time)", "create table two like one"
    )
    rig.run("insert into one values ('2024-07-01 12:00:00', '2024-07-01 12:00:00', '12:00:00')")
    fields, rows = rig.read("one", ReadOptions(zone=zone))
    assert rows == [[stamp(2024, 7, 1, 10), stamp(2024, 7, 1, 12), dt.time(11)]]
    rig.write("two", [SinkField(name, schema) for name, schema in fields], rows, options=WriteOptions(zone=zone))
    assert rig.rows("select * from two") == rig.rows("select * from one")


def test_the_proleptic_calendar_matches_the_server(rig: Rig) -> None:
    rig.run("drop table if exists one, two", "create table one (a date, b datetime)", "create table two like one")
    rig.run("insert into one values ('1500-02-28', '1500-02-28 01:00:00'), ('0001-01-01', '0001-01-01')")
    fields, rows = rig.read("one", ReadOptions(calendar=Calendar.PROLEPTIC_GREGORIAN))
    assert rows == [[dt.date(1500, 2, 28), stamp(1500, 2, 28, 1)], [dt.date(1, 1, 1), stamp(1, 1, 1)]]
    options = WriteOptions(calendar=Calendar.PROLEPTIC_GREGORIAN)
    rig.write("two", [SinkField(name, schema) for name, schema in fields], rows, options=options)
    assert rig.rows("select * from two") == rig.rows("select * from one")


def test_a_float_of_a_query_has_six_digits_or_is_rejected_when_strict(rig: Rig) -> None:
    rig.run("drop table if exists one", "create table one (f float)", "insert into one values (3.402823e38)")
    assert rig.read("select f from one")[1] == [[3.40282e38]]
    with pytest.raises(DataError, match=r"Column f: .*select f \+ 0e0"):
        rig.read("select f from one", ReadOptions(strict=True))
    assert rig.read("select f + 0e0 as f from one", ReadOptions(strict=True))[1] == [[3.4028230607370965e38]]
