"""Every type: from a table, through Connect values, into a table of the same type."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

import pytest

from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.jdbc.options import Calendar, Granularity, InsertMode, NumericMapping, ReadOptions, WriteOptions
from tests.integration.jdbc.postgres.conftest import Desk

TYPES = {
    "boolean": ["true", "false"],
    "smallint": ["-32768", "32767"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "oid": ["0", "4294967295"],
    "real": ["1.1", "'NaN'", "'Infinity'", "'-Infinity'", "3.4028235e38", "-0.0", "1e-45"],
    "double precision": ["0.1", "'NaN'", "'Infinity'", "'-Infinity'", "1.7976931348623157e308", "5e-324"],
    "numeric(10,2)": ["12345678.91", "-0.01", "0", "100"],
    "numeric(18,0)": ["999999999999999999", "-1", "0"],
    "numeric(38,20)": ["123456789012345678.01234567890123456789"],
    "numeric(5,-2)": ["1234500", "-100", "0"],
    "numeric(3,5)": ["0.00123", "-0.00001"],
    "numeric": ["12345678901234567890123456789012345678901234567890", "-7"],
    "money": ["1234567.89", "-0.01"],
    "bit": ["B'1'", "B'0'"],
    "bit(5)": ["B'10101'", "B'00000'", "B'11111'"],
    "bit(8)": ["B'10000001'", "B'11111111'", "B'00000001'"],
    "bit(20)": ["B'00000000000000000001'", "B'10101010101010101010'"],
    "bit varying": ["B''", "B'0'", "B'001'", "B'111111111111111111111'"],
    "bit varying(10)": ["B''", "B'0000000001'"],
    '"char"': ["'x'", "''", "'\\200'"],
    "char": ["'ü'", "' '"],
    "char(5)": ["'ab'", "''", "'abcde'"],
    "varchar(10)": ["'ünïcödé 😀x'", "''", "'NULL'", "'  '"],
    "text": [
        "''", "'NULL'", "E'\\\\N'", "E'\\\\.'", "E'tab\\tnew\\nline\\rreturn\\\\back'", "'\"quoted\" ''single'' {braces}, comma'",
        "E'\\u0001\\u001f\\u2028😀'", "repeat('long ', 10000)", "'%s %% $1 ?'", "E'\\b\\f\\v'",
    ],
    "name": ["'a name'"],
    "bytea": ["'\\x'", "'\\x00ff5c6e0a'", "'hello'"],
    "date": ["'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "'1582-10-15'", "'1500-02-28'", "'0044-03-15 BC'", "'20000-01-01'"],
    "time": ["'00:00'", "'23:59:59.999'", "'24:00'", "'12:34:56.5'"],
    "time(0)": ["'00:00'", "'23:59:59'"],
    "timetz": ["'00:00+00'", "'12:34:56.789+00'", "'24:00+00'"],
    "timestamp": [
        "'2024-02-29 12:34:56.789'", "'0001-01-01 00:00'", "'9999-12-31 23:59:59.999'", "'1500-06-01 01:02:03'", "'1969-12-31'",
        "'0044-03-15 01:02:03 BC'", "'20000-01-01 01:02:03.5'", "'1582-10-16'",
        "'infinity'", "'-infinity'",
    ],
    "timestamp(0)": ["'2024-02-29 12:34:56'"],
    "timestamptz": [
        "'2024-02-29 12:34:56.789+03:30'", "'0001-01-01 00:00+00'", "'9999-12-31 23:59:59.999+00'", "'1500-06-01 01:02:03+00'",
        "'0044-03-15 01:02:03+00 BC'", "'20000-01-01 01:02:03.5+00'", "'infinity'", "'-infinity'",
    ],
    "interval": [
        "'1 year 2 mons 3 days 04:05:06.789012'", "'-1 mon +2 days -00:00:00.000001'", "'0'",
        "'infinity'", "'178000000 years'",
    ],
    "interval day to second(3)": ["'3 days 04:05:06.789'"],
    "uuid": ["'00000000-0000-0000-0000-000000000000'", "'f47ac10b-58cc-4372-a567-0e02b2c3d479'"],
    "json": ["'{\"a\": [1, 2.50, null, \"\\\\\\\\ \\\\n \\\" ü\"],   \"a\":1}'", "'null'", "'\"text\"'", "'3'", "'[]'"],
    "jsonb": ["'{\"a\": [1, 2.50, null, \"\\\\\\\\ \\\\n ü\"]}'", "'null'", "'\"text\"'", "'12345678901234567890.123'"],
    "jsonpath": ["'$.a[*] ? (@ > 1)'"],
    "inet": ["'192.168.0.1/24'", "'::1'", "'10.0.0.1'"],
    "cidr": ["'10.0.0.0/8'", "'2001:db8::/32'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "int4range": ["'[1,5)'", "'empty'", "'(,)'", "'[3,)'"],
    "numrange": ["'(1.50,2.25]'"],
    "daterange": ["'[2024-01-01,2024-02-01)'", "'[-infinity,infinity]'"],
    "tsrange": ["'[2024-01-01 00:00:00.123456,)'"],
    "tstzrange": ["'[\"2024-01-01 00:00:00+02\",\"2024-01-02 00:00:00+02\")'"],
    "int8multirange": ["'{[1,3),[5,9)}'", "'{}'"],
    "point": ["'(1.5,-2.25)'", "'(0.1,1e300)'", "'(NaN,Infinity)'"],
    "line": ["'{1,-1,0.5}'"],
    "lseg": ["'[(0,0),(1,1)]'"],
    "box": ["'(2,2),(0,0)'"],
    "path": ["'[(0,0),(1,1),(2,0)]'", "'((0,0),(1,1))'"],
    "polygon": ["'((0,0),(1,1),(2,0))'"],
    "circle": ["'<(0,0),1.5>'"],
    "tsvector": ["'''a b'':1A cat:3 rat'"],
    "tsquery": ["'''fat'' & ( ''rat'' | !''cat'' )'"],
    "pg_lsn": ["'16/B374D848'"],
    "pg_snapshot": ["'10:20:10,14,15'"],
    "int2vector": ["'1 2 3'"],
    "regclass": ["'pg_class'"],
    "xid8": ["'18446744073709551615'"],
    "aclitem": ["'=r/postgres'"],
    "mood": ["'it''s, \"ok\"'", "'sad'", "'NULL'"],
    "pair": ["ROW(1, E'a \"b\" \\\\ (c), d')", "ROW(NULL, '')", "ROW(NULL, NULL)"],
    "positive": ["1", "2147483647"],
    "amount": ["1.50", "99999999.99"],
    "span": ["'[1.5,2.5)'"],
    "integer[]": ["'{1,NULL,-3}'", "'{}'"],
    "text[]": [
        "'{}'", "ARRAY['', 'NULL', NULL, 'null', ' a ']", "ARRAY[E'tab\\t', E'back\\\\slash', 'q\"uote', '{b,c}', E'new\\nline']",
    ],
    "varchar(3)[]": ["'{abc,d}'"],
    "numeric(10,2)[]": ["'{1.50,-2.25,NULL}'"],
    "boolean[]": ["'{t,f,NULL}'"],
    "double precision[]": ["'{1.5,NaN,Infinity,-Infinity}'"],
    "bytea[]": ["ARRAY['\\x00ff'::bytea, '\\x', NULL]"],
    "date[]": ["'{2024-02-29,NULL,0044-03-15 BC}'"],
    "timestamptz[]": ["'{2024-02-29 12:34:56.789+00}'"],
    "time[]": ["'{12:34:56.789,24:00}'"],
    "uuid[]": ["'{f47ac10b-58cc-4372-a567-0e02b2c3d479}'"],
    "jsonb[]": ["ARRAY['{\"a\": \"b\\\\\\\\c\"}'::jsonb, '[]', NULL]"],
    "box[]": ["'{(2,2),(0,0);(3,3),(1,1)}'"],
    "mood[]": ["ARRAY['sad', 'NULL', NULL]::mood[]"],
    "pair[]": ["ARRAY[ROW(1, 'a,\"b')::pair, NULL]"],
    "positive[]": ["'{1,2}'"],
    "interval[]": ["ARRAY['1 day 2 seconds'::interval]"],
    "bit(8)[]": ["ARRAY[B'10000001', B'00000000']"],
    "integer[][]": ["'{{1,2},{3,NULL}}'", "'{}'"],
    "text[][][]": ["'{{{\"a b\",\"c\\\"\"},{NULL,\"\"}}}'"],
    "vector(3)": ["'[1,2.5,-3]'"],
}  # fmt: skip


def create_types(desk: Desk) -> None:
    desk.sql("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    desk.sql("CREATE TYPE mood AS ENUM ('sad', 'it''s, \"ok\"', 'NULL')")
    desk.sql("CREATE TYPE pair AS (a int, b text)")
    desk.sql("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    desk.sql("CREATE DOMAIN amount AS numeric(10,2)")
    desk.sql("CREATE TYPE span AS RANGE (subtype = numeric)")


DIFFERENT = "SELECT k, a.v::text, b.v::text FROM a FULL JOIN b USING (k) WHERE a.v::text IS DISTINCT FROM b.v::text"


def test_every_type_round_trips(desk: Desk) -> None:
    create_types(desk)
    for type, values in TYPES.items():
        desk.sql(
            f"DROP TABLE IF EXISTS a, b; CREATE TABLE a (k int PRIMARY KEY, v {type}); CREATE TABLE b (LIKE a INCLUDING ALL)"
        )
        rows = ", ".join(f"({i}, {value})" for i, value in enumerate([*values, "NULL"]))
        desk.sql(f"INSERT INTO a VALUES {rows}")
        fields, found = desk.read("SELECT * FROM a ORDER BY k", table=desk.table("a"))
        assert len(found) == len(values) + 1
        for name, schema in fields:
            assert schema.optional == (name == "v"), type
        for mode, many in ((InsertMode.UPSERT, 1), (InsertMode.INSERT, 20)):
            desk.sql("TRUNCATE b")
            copies = [[k + 1000 * i, v] for i in range(many) for k, v in found]  # many: by COPY
            desk.write("b", fields, copies, mode=mode)
            assert desk.sql(DIFFERENT + " AND k < 1000") == [], f"{type} by {mode.value}"
            counts = desk.sql("SELECT count(*), count(DISTINCT v::text) FROM b")[0]
            assert counts == (len(copies), len(values)), type


def test_a_row_of_all_types_can_be_null(desk: Desk) -> None:
    create_types(desk)
    columns = ", ".join(f"c{i} {type}" for i, type in enumerate(TYPES))
    desk.sql(f"CREATE TABLE a (k int PRIMARY KEY, {columns}); CREATE TABLE b (LIKE a INCLUDING ALL)")
    desk.sql(f"INSERT INTO a VALUES (1, {', '.join(values[0] for values in TYPES.values())})")
    desk.sql("INSERT INTO a (k) VALUES (2)")
    fields, rows = desk.read("SELECT * FROM a ORDER BY k", table=desk.table("a"))
    assert rows[1][1:] == [None] * len(TYPES)
    desk.write("b", fields, rows)
    assert desk.sql("SELECT a::text FROM a EXCEPT SELECT b::text FROM b") == []


@pytest.mark.parametrize("mapping", NumericMapping)
def test_numbers_without_a_scale_are_read_as_configured(desk: Desk, mapping: NumericMapping) -> None:
    desk.sql("CREATE TABLE a (k int PRIMARY KEY, n numeric)")
    desk.sql("INSERT INTO a VALUES (1, 1.5), (2, 7), (3, null), (4, -12345678901234567890.125)")
    query = "SELECT n FROM a ORDER BY k"
    with pytest.raises(DataError, match=r"numeric.unset.scale, a number of places, double or string.*query that casts it"):
        desk.read(query, ReadOptions(numeric=mapping))

    def read(unset_scale: int | Type) -> tuple[list[Any], list[Any]]:
        fields, rows = desk.read(query, ReadOptions(numeric=mapping, unset_scale=unset_scale))
        return list(fields), rows

    decimals = [["1.500"], ["7.000"], [None], ["-12345678901234567890.125"]]
    doubles = [[1.5], [7.0], [None], [-12345678901234567890.125]]
    doubles = [[1.5], [7.0], [None], [-12345678901234567890.125]]
    texts = [["1.5"], ["7"], [None], ["-12345678901234567890.125"]]
    as_double, as_text = Schema.OPTIONAL_FLOAT64, Schema.OPTIONAL_STRING
    assert read(Type.STRING) == ([("n", as_text)], texts)
    assert read(Type.FLOAT64) == ([("n", as_double)], doubles)
    if mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE:
        assert read(3) == ([("n", as_double)], doubles)
        return
    assert [[value and str(value) for value in row] for row in read(3)[1]] == decimals
    with pytest.raises(DataError, match=r"more than the 2 decimal places .*numeric.unset.scale"):
        read(2)


def test_numbers_round_trip_with_every_numeric_mapping(desk: Desk) -> None:
    desk.sql(
        "CREATE TABLE a (k int PRIMARY KEY, i numeric(2,0), h numeric(3,-3), s numeric(9,0), l numeric(18,0), "
        "d numeric(12,3), n numeric(30,4))"
    )
    desk.sql("INSERT INTO a VALUES (1, 99, 999000, -999999999, 999999999999999999, 123456789.125, 12345678901234567890.1234)")
    desk.sql("INSERT INTO a (k) VALUES (2)")
    for mapping in NumericMapping:
        desk.sql("DROP TABLE IF EXISTS b; CREATE TABLE b (LIKE a INCLUDING ALL)")
        fields, rows = desk.read("SELECT * FROM a", ReadOptions(numeric=mapping))
        if mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE:
            rows = [row[:6] for row in rows]
            fields = fields[:6]
        desk.write("b", fields, rows)
        same = "SELECT k, i, h, s, l, d FROM a EXCEPT SELECT k, i, h, s, l, d FROM b"
        assert desk.sql(same) == [], mapping


@pytest.mark.parametrize("granularity", [g for g in Granularity if g is not Granularity.CONNECT_LOGICAL])
def test_microseconds_round_trip_with_every_granularity_but_connects(desk: Desk, granularity: Granularity) -> None:
    desk.sql("CREATE TABLE a (k int PRIMARY KEY, t timestamp, z timestamptz); CREATE TABLE b (LIKE a INCLUDING ALL)")
    desk.sql("INSERT INTO a VALUES (1, '2024-02-29 12:34:56.123456', '1969-12-31 23:59:59.999999+00'), (3, '1950-01-01', 'now')")
    desk.sql("INSERT INTO a (k) VALUES (2)")
    fields, rows = desk.read("SELECT * FROM a", ReadOptions(granularity=granularity))
    unit = 1 if granularity.value.startswith("nanos") else 1000
    options = WriteOptions(string_timestamps=frozenset({"t", "z"}), timestamp_unit_ns=unit)
    desk.write("b", fields, rows, options=options)
    assert desk.sql("SELECT * FROM a EXCEPT SELECT * FROM b") == []


@pytest.mark.parametrize("calendar", list(Calendar))
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe"])
def test_dates_and_times_round_trip_in_every_zone_and_calendar(desk: Desk, zone: str, calendar: Calendar) -> None:
    desk.sql(
        "CREATE TABLE a (k int PRIMARY KEY, d date, t time, s timestamp, z timestamptz); CREATE TABLE b (LIKE a INCLUDING ALL)"
    )
    desk.sql("SET TIME ZONE UTC")
    desk.sql(
        "INSERT INTO a VALUES (1, '2024-07-01', '12:34:56.789', '2024-07-01 12:34:56.789', '2024-07-01 12:34:56.789'), "
        "(2, '1582-10-04', '00:00', '1582-10-04 01:02:03', '1582-10-04 01:02:03'), "
        "(3, '2024-12-31', '23:59:59.999', '2024-12-31 23:59:59.999', '2024-12-31 23:59:59.999'), "
        "(4, '0300-02-28', '05:00', '0300-02-28 05:00', '0300-02-28 05:00')"
    )
    where = dt.UTC if zone == "UTC" else zoneinfo.ZoneInfo(zone)
    fields, rows = desk.read("SELECT * FROM a", ReadOptions(zone=where, calendar=calendar))
    desk.write("b", fields, rows, options=WriteOptions(zone=where, calendar=calendar))
    assert desk.sql("SELECT * FROM a EXCEPT SELECT * FROM b") == []
