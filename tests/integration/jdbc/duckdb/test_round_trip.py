"""Every type: from a table, as records of a topic, into a table of the same type."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from pathlib import Path

import pytest

from connect.errors import DataError
from connectors.jdbc.options import Calendar, Granularity, InsertMode, ReadOptions, WriteOptions
from tests.integration.jdbc.sqlite.desk import Desk, sink_fields, through_json

TYPES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768", "32767"],
    "INTEGER": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "UTINYINT": ["0", "255"],
    "USMALLINT": ["0", "65535"],
    "UINTEGER": ["0", "4294967295"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"],
    "UHUGEINT": ["0", "340282366920938463463374607431768211455"],
    "BIGNUM": ["0", "-123456789012345678901234567890123456789012345678901234567890"],
    "FLOAT": ["1.5", "-3.4028235e38", "1e-45", "'nan'", "'inf'"],
    "DOUBLE": ["0.1", "1.7976931348623157e308", "5e-324", "'nan'", "'-inf'"],
    "DECIMAL(4,1)": ["999.9", "-0.1", "0"],
    "DECIMAL(10,2)": ["12345678.91", "-0.01"],
    "DECIMAL(18,0)": ["999999999999999999"],
    "DECIMAL(38,5)": ["123456789012345678901234567890123.12345", "-0.00001"],
    "DECIMAL(38,38)": ["0.12345678901234567890123456789012345678"],
    "VARCHAR": ["''", "'NULL'", "'ünïcödé 😀'", "'a''b\"c{d}$1 ?'", "repeat('long ', 10000)"],
    "BLOB": ["''::BLOB", "'\\x00\\xFF\\x27'::BLOB"],
    "BIT": ["'0'", "'1'", "'0101011100000001'"],
    "UUID": ["'123e4567-e89b-12d3-a456-426614174000'"],
    "JSON": ["'{\"a\": [1, null, \"x\"]}'", "'null'", "'1.0'"],
    "DATE": ["'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "'1500-02-28'", "'0044-03-15 (BC)'", "'20000-01-01'", "'infinity'"],
    "TIME": ["'00:00'", "'23:59:59.999'", "'24:00:00'"],
    "TIMETZ": ["'12:34:56.789012+02'", "'00:00:00-11:30'"],
    "TIMESTAMP": [
        "'2024-02-29 12:34:56.789'", "'0001-01-01'", "'9999-12-31 23:59:59.999'", "'1500-06-01 01:02:03'", "'1969-12-31'",
        "'0044-03-15 (BC) 01:02:03'", "'20000-01-01 01:02:03.5'", "'infinity'", "'-infinity'",
    ],
    "TIMESTAMP_S": ["'2024-02-29 12:34:56'"],
    "TIMESTAMP_MS": ["'2024-02-29 12:34:56.789'"],
    "TIMESTAMP_NS": ["'2024-02-29 12:34:56.789'"],
    "TIMESTAMPTZ": ["'2024-02-29 12:34:56.789+02'", "'1500-06-01 01:02:03+00'"],
    "INTERVAL": ["INTERVAL '1 month -2 days 3.5 seconds'", "INTERVAL '-00:00:00.000001'", "INTERVAL '0 days'"],
    "ENUM('happy', 'it''s')": ["'happy'", "'it''s'"],
    "INTEGER[]": ["[]", "[1, NULL, 3]"],
    "INTEGER[3]": ["[1, NULL, 3]"],
    "VARCHAR[][]": ["[['a', NULL], NULL, []]"],
    "HUGEINT[]": ["[170141183460469231731687303715884105727, NULL]"],
    "TIMESTAMP[]": ["['2024-01-01 01:02:03.5'::TIMESTAMP, NULL]"],
    "DECIMAL(10,2)[]": ["[1.25, NULL]"],
    "STRUCT(x INTEGER, y VARCHAR, z STRUCT(d DATE, t TIME, b BLOB))": [
        "{'x': 1, 'y': 'a', 'z': {'d': DATE '2024-01-01', 't': TIME '01:02:03', 'b': '\\x01'::BLOB}}",
        "{'x': NULL, 'y': NULL, 'z': NULL}",
    ],
    "STRUCT(a INTEGER[], b MAP(VARCHAR, TIMESTAMP))[]": [
        "[{'a': [1], 'b': MAP {'k': TIMESTAMP '2024-01-01 00:00:00'}}, {'a': NULL, 'b': NULL}, NULL]",
    ],
    "MAP(VARCHAR, INTEGER)": ["MAP {'a': 1, 'b': NULL}", "MAP {}"],
    "MAP(INTEGER, HUGEINT)": ["MAP {1: 170141183460469231731687303715884105727}"],
    "MAP(DATE, VARCHAR)": ["MAP {DATE '2024-01-01': 'x'}"],
    "MAP(INTEGER[], INTEGER)": ["MAP {[1, 2]: 3}"],
    "UNION(num INTEGER, str VARCHAR)": ["union_value(num := 5)", "union_value(str := '5')"],
}  # fmt: skip


@pytest.mark.parametrize("mode", [InsertMode.INSERT, InsertMode.UPSERT, InsertMode.UPDATE])
def test_all_types_round_trip(desk: Desk, mode: InsertMode) -> None:
    columns = [(f"c{i}", type_) for i, type_ in enumerate(TYPES)]
    ddl = f"(id INTEGER PRIMARY KEY, {', '.join(f'{name} {type_}' for name, type_ in columns)})"
    desk.sql(f"CREATE TABLE a {ddl}", f"CREATE TABLE b {ddl}")
    depth = max(map(len, TYPES.values()))
    for row in range(depth + 1):
        values = [v[row] if row < len(v) else "NULL" for v in TYPES.values()]
        desk.sql(f"INSERT INTO a VALUES ({row}, {', '.join(values)})")
    fields, rows = desk.read("a", order=" ORDER BY id")
    if mode is not InsertMode.INSERT:
        desk.sql("INSERT INTO b (id) SELECT id FROM a")
    if mode is InsertMode.INSERT:
        rows = through_json(fields, rows)
    desk.write("b", sink_fields(fields, ["id"]), rows, mode)
    for name, type_ in columns:
        different = f"SELECT a.{name}, b.{name} FROM a JOIN b USING (id) WHERE a.{name} IS DISTINCT FROM b.{name}"
        assert desk.sql(different) == [], type_
    assert desk.sql("SELECT count(*) FROM b") == [(depth + 1,)]


def test_timestamps_preserve_all_digits_with_a_finer_granularity(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (n TIMESTAMP_NS, u TIMESTAMP)",
             "INSERT INTO a VALUES ('2024-02-29 12:34:56.123456789', '2024-02-29 12:34:56.123456')")  # fmt: skip
    assert desk.read("a", ReadOptions(granularity=Granularity.NANOS_LONG))[1] == [[1709210096123456789, 1709210096123456000]]
    texts = desk.read("a", ReadOptions(granularity=Granularity.NANOS_ISO))[1]
    assert texts == [["2024-02-29T12:34:56.123456789", "2024-02-29T12:34:56.123456000"]]


def test_values_that_connect_truncates_are_rejected_when_strict(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (u TIMESTAMP)", "INSERT INTO a VALUES ('2024-02-29 12:34:56.123456')")
    cut = dt.datetime(2024, 2, 29, 12, 34, 56, 123000, tzinfo=dt.UTC)
    assert desk.read("a")[1] == [[cut]]
    with pytest.raises(DataError, match=r"Column u: 2024-02-29T12:34:56.123456000 is finer than a millisecond"):
        desk.read("a", ReadOptions(strict=True))


@pytest.mark.parametrize("calendar", list(Calendar))
def test_zones_and_calendars_round_trip(desk: Desk, calendar: Calendar) -> None:
    zone = zoneinfo.ZoneInfo("America/New_York")
    desk.sql("CREATE TABLE a (id INTEGER, t TIMESTAMP, d DATE)", "CREATE TABLE b (id INTEGER, t TIMESTAMP, d DATE)")
    desk.sql("INSERT INTO a VALUES (1, '2024-07-01 12:00', '2024-07-01'), (2, '1500-01-01 03:04', '1500-01-01')")
    fields, rows = desk.read("a", ReadOptions(zone=zone, calendar=calendar))
    assert rows[0][1:] == [dt.datetime(2024, 7, 1, 16, tzinfo=dt.UTC), dt.date(2024, 7, 1)]
    desk.write("b", sink_fields(fields), rows, options=WriteOptions(zone=zone, calendar=calendar))
    assert desk.sql("SELECT * FROM a EXCEPT SELECT * FROM b") == []


def test_dates_are_copied_between_two_files(desk: Desk, tmp_path: Path) -> None:
    other = Desk("duckdb", tmp_path / "other.duckdb")
    try:
        desk.sql("CREATE TABLE a AS SELECT i AS id, DATE '2000-01-01' + i::INTEGER AS d FROM range(5000) t(i)")
        other.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, d DATE)")
        fields, rows = desk.read("a")
        assert len(rows) == 5000
        other.write("a", sink_fields(fields, ["id"]), rows, InsertMode.UPSERT)
        assert other.sql("SELECT * FROM a ORDER BY id") == desk.sql("SELECT * FROM a ORDER BY id")
    finally:
        other.close()
