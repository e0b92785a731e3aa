"""Every supported type with a real server: snapshot and stream give the same values as Debezium."""

from __future__ import annotations

import datetime as dt
import logging
import struct
from decimal import Decimal
from typing import Any

import pytest

from connect.data.schema import Type
from connect.errors import DataError
from tests.support.cases import first_fast


def line_string(*points: tuple[float, float]) -> bytes:
    return struct.pack("<BII", 1, 2, len(points)) + b"".join(struct.pack("<dd", *point) for point in points)


def polygon(*points: tuple[float, float]) -> bytes:
    return struct.pack("<BIII", 1, 3, 1, len(points)) + b"".join(struct.pack("<dd", *point) for point in points)


COLUMNS: list[tuple[str, str, str, Any]] = [
    # name, type, SQL value, value in the event
    ("a_bool", "boolean", "true", True),
    ("a_small", "smallint", "-32768", -32768),
    ("a_int", "integer", "2147483647", 2147483647),
    ("a_big", "bigint", "-9223372036854775808", -9223372036854775808),
    ("an_oid", "oid", "4294967295", 4294967295),
    ("a_real", "real", "1.5", 1.5),
    ("a_double", "double precision", "0.1", 0.1),
    ("infinite", "double precision", "'-Infinity'", float("-inf")),
    ("a_numeric", "numeric(12,2)", "12345.6", Decimal("12345.60")),
    ("negative_scale", "numeric(6,0)", "-123456", Decimal("-123456")),
    (
        "any_numeric",
        "numeric",
        "12345678901234567890.123456789",
        {"scale": 9, "value": (12345678901234567890123456789).to_bytes(12, "big")},
    ),
    ("a_money", "money", "'-1234.56'", Decimal("-1234.56")),
    (
        "a_text",
        "text",
        "E'tab\\t newline\\n back\\\\slash \\\\N quote'' \u00e4\u20ac\U0001f600'",
        "tab\t newline\n back\\slash \\N quote' \u00e4\u20ac\U0001f600",
    ),
    ("backslash_n", "text", "E'\\\\N'", "\\N"),
    ("empty", "text", "''", ""),
    ("a_varchar", "varchar(10)", "'abc'", "abc"),
    ("a_char", "char(5)", "'abc'", "abc  "),
    ("a_name", "name", "'n'", "n"),
    ("a_uuid", "uuid", "'76019d1a-ad2e-4b22-96e9-1a6d6543c818'", "76019d1a-ad2e-4b22-96e9-1a6d6543c818"),
    ("a_json", "json", '\'{"b": 1,  "a": [1]}\'', '{"b": 1,  "a": [1]}'),
    ("a_jsonb", "jsonb", '\'{"b": 1,  "a": "\\\\n"}\'', '{"a": "\\\\n", "b": 1}'),
    ("a_bytea", "bytea", "'\\x00ff5c4e'", b"\x00\xff\\N"),
    ("a_bit", "bit", "B'1'", True),
    ("bits", "bit(10)", "B'1000000011'", b"\x03\x02"),
    ("var_bits", "varbit(16)", "B'101'", b"\x05"),
    ("a_date", "date", "'2026-11-21'", 20778),
    ("old_date", "date", "'0044-03-15 BC'", -735160),
    ("far_date", "date", "'12345-01-01'", 3789391),
    ("never_date", "date", "'infinity'", 2146033979),
    ("a_time", "time", "'12:34:56.789012'", 45296789012),
    ("short_time", "time(3)", "'12:34:56.789'", 45296789),
    ("midnight", "time", "'24:00:00'", 86400000000),
    ("a_timetz", "timetz", "'13:51:30.123789+02'", "11:51:30.123789Z"),
    ("a_timestamp", "timestamp", "'2016-11-04 13:51:30.123456'", 1478267490123456),
    ("short_timestamp", "timestamp(3)", "'2016-11-04 13:51:30.123'", 1478267490123),
    ("before_1970", "timestamp", "'1969-12-31 23:59:59.999999'", -1),
    ("ever", "timestamp", "'infinity'", 9223372036854775807),
    ("never", "timestamp", "'-infinity'", -9223372036854775808),
    ("a_timestamptz", "timestamptz", "'2016-11-04 13:51:30.5+02'", "2016-11-04T11:51:30.500000Z"),
    ("whole_second", "timestamptz", "'2016-11-04 13:51:30+02'", "2016-11-04T11:51:30.000000Z"),
    ("far_timestamptz", "timestamptz", "'12345-01-02 03:04:05+00'", "+12345-01-02T03:04:05.000000Z"),
    ("old_timestamptz", "timestamptz", "'0044-03-15 12:00:00+00 BC'", "-0043-03-15T12:00:00.000000Z"),
    ("for_ever", "timestamptz", "'infinity'", "infinity"),
    ("an_interval", "interval", "'1 year 2 months 3 days 04:05:06.78'", 37091106780000),
    ("back", "interval", "'-1 days -00:00:00.5'", -86400500000),
    ("an_inet", "inet", "'192.168.1.5/24'", "192.168.1.5/24"),
    ("a_cidr", "cidr", "'10.1.0.0/16'", "10.1.0.0/16"),
    ("a_mac", "macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("int_range", "int4range", "'[1,5)'", "[1,5)"),
    ("time_range", "tstzrange", "'[2016-11-04 13:00:00+00,)'", '["2016-11-04 13:00:00+00",)'),
    ("a_mood", "mood", "'so, so'", "so, so"),
    ("a_domain", "price", "9.5", Decimal("9.50")),
    ("a_vector", "tsvector", "'a fat cat'", "'a' 'cat' 'fat'"),
    ("a_point", "point", "'(1.5,-2)'", {"x": 1.5, "y": -2.0}),
    ("texts", "text[]", "array['a', null, 'b,c', E'q\"\\\\', 'NULL', '', '{x}']", ["a", None, "b,c", 'q"\\', "NULL", "", "{x}"]),
    ("ints", "int[]", "array[1, null, -3]", [1, None, -3]),
    ("no_ints", "int[]", "'{}'", []),
    ("numerics", "numeric(6,2)[]", "array[1.5, 2]", [Decimal("1.50"), Decimal("2.00")]),
    ("uuids", "uuid[]", "array['76019d1a-ad2e-4b22-96e9-1a6d6543c818'::uuid]", ["76019d1a-ad2e-4b22-96e9-1a6d6543c818"]),
    ("dates", "date[]", "array['1970-01-02'::date]", [1]),
    ("moods", "mood[]", "array['ok', 'so, so']::mood[]", ["ok", "so, so"]),
    ("bounds", "int[]", "'[0:1]={7,8}'", [7, 8]),
    ("a_box", "box", "'(3,4),(1,2)'", {"wkb": polygon((3, 4), (3, 2), (1, 2), (1, 4), (3, 4)), "extensions": {"type": "box"}}),
    ("a_lseg", "lseg", "'[(0,0),(1,1.5)]'", {"wkb": line_string((0, 0), (1, 1.5)), "extensions": {"type": "lseg"}}),
    (
        "open_path",
        "path",
        "'[(0,0),(1,1),(2,0)]'",
        {"wkb": line_string((0, 0), (1, 1), (2, 0)), "extensions": {"type": "path", "closed": "false"}},
    ),
    (
        "closed_path",
        "path",
        "'((0,0),(1,1))'",
        {"wkb": line_string((0, 0), (1, 1)), "extensions": {"type": "path", "closed": "true"}},
    ),
    (
        "a_polygon",
        "polygon",
        "'((0,0),(1e-7,1),(2,0))'",
        {"wkb": polygon((0, 0), (1e-7, 1), (2, 0), (0, 0)), "srid": None, "extensions": {"type": "polygon"}},
    ),
    ("a_circle", "circle", "'<(1,-2),3>'", {"radius": 3.0}),
    ("a_line", "line", "'{1,-1,0.5}'", {"a": 1.0, "b": -1.0, "c": 0.5}),
    ("multi_range", "int4multirange", "'{[1,3),[7,9)}'", "{[1,3),[7,9)}"),
    ("own_range", "float_range", "'[1.5,2.5)'", "[1.5,2.5)"),
    ("own_multi_range", "float_multirange", "'{[1,2)}'", "{[1,2)}"),
    ("a_vec", "vector(3)", "'[1,2.5,-3]'", [1.0, 2.5, -3.0]),
    ("a_half_vec", "halfvec(2)", "'[0.5,2]'", [0.5, 2.0]),
    ("a_sparse_vec", "sparsevec(5)", "'{1:1.5,4:-2}/5'", {"dimensions": 5, "vector": {1: 1.5, 4: -2.0}}),
    ("always", "interval", "'infinity'", 9223372036854775807),
    ("never_ever", "interval", "'-infinity'", -9223372036854775808),
    ("moneys", "money[]", "array[1.5, null]::money[]", [Decimal("1.50"), None]),
    ("intervals", "interval[]", "array['1 day', '-00:00:01']::interval[]", [86400000000, -1000000]),
    ("one_bits", "bit[]", "array[B'1', B'0']", [True, False]),
    ("bit_arrays", "bit(10)[]", "array[B'1000000011']", [b"\x03\x02"]),
    ("var_bit_array", "varbit[]", "array[B'101', null]", [b"\x05", None]),
    ("search", "tsvector[]", "array['a cat']::tsvector[]", ["'a' 'cat'"]),
    ("ranges", "int4range[]", "array['[1,5)', null]::int4range[]", ["[1,5)", None]),
    ("bools", "bool[]", "array[true, false, null]", [True, False, None]),
    ("byteas", "bytea[]", "array['\\x00ff'::bytea]", [b"\x00\xff"]),
    ("jsons", "jsonb[]", "array['{\"a\": 1}']::jsonb[]", ['{"a": 1}']),
    ("timestamps", "timestamptz[]", "array['2016-11-04 13:51:30.5+02'::timestamptz]", ["2016-11-04T11:51:30.500000Z"]),
    ("reals", "real[]", "array[1.5, null]", [1.5, None]),
    ("an_internal_char", '"char"', "'x'", "x"),
    ("a_mac8", "macaddr8", "'08:00:2b:01:02:03:04:05'", "08:00:2b:01:02:03:04:05"),
    ("big_range", "int8range", "'[1,5]'", "[1,6)"),
    ("numeric_range", "numrange", "'(1.50,]'", "(1.50,)"),
    ("date_range", "daterange", "'[2016-11-04,2016-11-05]'", "[2016-11-04,2016-11-06)"),
    ("timestamp_range", "tsrange", "'empty'", "empty"),
    ("smalls", "smallint[]", "array[1, null, -32768]", [1, None, -32768]),
    ("bigs", "bigint[]", "array[9223372036854775807, null]", [9223372036854775807, None]),
    ("oids", "oid[]", "array[4294967295::oid]", [4294967295]),
    ("doubles", "float8[]", "array['-Infinity'::float8, 0.1, null]", [float("-inf"), 0.1, None]),
    ("varchars", "varchar(5)[]", "array['a', null, '\u20ac,']", ["a", None, "\u20ac,"]),
    ("chars", "char(3)[]", "array['a', null]", ["a  ", None]),
    ("plain_jsons", "json[]", "array['{\"b\":  1}'::json, null]", ['{"b":  1}', None]),
    ("inets", "inet[]", "array['::1/64'::inet]", ["::1/64"]),
    ("cidrs", "cidr[]", "array['10.0.0.0/8'::cidr]", ["10.0.0.0/8"]),
    ("macs", "macaddr[]", "array['08:00:2b:01:02:03'::macaddr]", ["08:00:2b:01:02:03"]),
    ("times", "time[]", "array['12:34:56.789012'::time, null]", [45296789012, None]),
    ("timetzs", "timetz[]", "array['13:51:30.5+02'::timetz]", ["11:51:30.5Z"]),
    ("plain_timestamps", "timestamp[]", "array['1969-12-31 23:59:59.999999'::timestamp]", [-1]),
    ("domains", "price[]", "array[9.5, null]::price[]", [Decimal("9.50"), None]),
    ("multi_ranges", "int4multirange[]", "array['{[1,3),[7,9)}']::int4multirange[]", ["{[1,3),[7,9)}"]),
    ("nothing", "text", "null", None),
    ("no_number", "int", "null", None),
]
SCHEMA_NAMES = {
    "a_numeric": "org.apache.kafka.connect.data.Decimal",
    "any_numeric": "io.debezium.data.VariableScaleDecimal",
    "a_uuid": "io.debezium.data.Uuid",
    "a_jsonb": "io.debezium.data.Json",
    "bits": "io.debezium.data.Bits",
    "a_date": "io.debezium.time.Date",
    "a_time": "io.debezium.time.MicroTime",
    "short_time": "io.debezium.time.Time",
    "a_timetz": "io.debezium.time.ZonedTime",
    "a_timestamp": "io.debezium.time.MicroTimestamp",
    "short_timestamp": "io.debezium.time.Timestamp",
    "a_timestamptz": "io.debezium.time.ZonedTimestamp",
    "an_interval": "io.debezium.time.MicroDuration",
    "a_mood": "io.debezium.data.Enum",
    "a_box": "io.debezium.data.geometry.Geometry",
    "a_circle": "io.debezium.data.geometry.Circle",
    "a_line": "io.debezium.data.geometry.Line",
    "a_vec": "io.debezium.data.DoubleVector",
    "a_half_vec": "io.debezium.data.FloatVector",
    "a_sparse_vec": "io.debezium.data.SparseDoubleVector",
    "multi_range": None,
    "a_text": None,
    "an_inet": None,
}


def create(db: Any) -> None:
    db.execute("create extension vector; create type float_range as range (subtype = float8)")
    db.execute("create type mood as enum ('sad', 'ok', 'so, so'); create domain price as numeric(8,2)")
    db.execute("create table t(id int primary key, " + ", ".join(f"{name} {type_}" for name, type_, _, _ in COLUMNS) + ")")


def insert(db: Any, key: int) -> None:
    db.execute(f"insert into t values ({key}, " + ", ".join(sql for _, _, sql, _ in COLUMNS) + ")")


def test_snapshot_and_stream_agree_on_every_type(source: Any) -> None:
    with source.sql() as db:
        create(db)
        insert(db, 1)
        source.start()
        (read,) = source.read(1)
        insert(db, 2)
        (created,) = source.read(1)
    rows = [record.value["after"] for record in (read, created)]
    assert rows[0].schema is rows[1].schema
    for row in rows:
        row.validate()
        for name, _, _, expected in COLUMNS:
            value = row[name]
            if isinstance(expected, dict):
                value = {key: item for key, item in value.as_dict().items() if key in expected}
            assert value == expected, name
            assert type(value) is type(expected), name
    for name, expected in SCHEMA_NAMES.items():
        assert rows[0].schema.field(name).schema.name == expected, name
    assert rows[0].schema.field("a_numeric").schema.parameters == {"scale": "2", "connect.decimal.precision": "12"}
    assert rows[0].schema.field("a_mood").schema.parameters == {"allowed": "sad,ok,so, so"}
    assert rows[0].schema.field("a_small").schema.type is Type.INT16
    assert rows[0].schema.field("id").schema.optional is False


def test_nan_is_retained_in_a_double_and_rejected_in_a_decimal(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, d double precision, n numeric(6,2)); insert into t values (1, 'NaN', 1)")
        source.start()
        (row,) = source.read(1)
        assert row.value["after"]["d"] != row.value["after"]["d"]
        db.execute("insert into t values (2, 0, 'NaN')")
        (errant,) = source.read(1)
        with pytest.raises(DataError, match=r"NaN .*decimal.handling.mode"):
            assert errant.value
        source.kill()
        source.start(decimal_handling_mode="string", snapshot_mode="never")
        assert [r.value["after"]["n"] for r in source.read(1)] == ["NaN"]


@pytest.mark.parametrize("mode", first_fast(["warn", "skip"]))
def test_values_that_cannot_be_converted_become_null_if_chosen(source: Any, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """Except required ones and those of keys."""
    with source.sql() as db:
        db.execute(
            "create table t(id int primary key, n numeric(6,2), r numeric(6,2) not null, a numeric(6,2)[]);"
            "alter table t replica identity full; insert into t values (1, 'NaN', 1, null)"
        )
        source.start(event_converting_failure_handling_mode=mode)
        snapshot = source.until("streaming")
        db.execute(
            "insert into t values (2, 'NaN', 2, '{1,NaN}'); update t set n = 3 where id = 2; insert into t values (3, 3, 'NaN')"
        )
        created, updated, errant = source.read(3)
    assert [r.value["after"]["n"] for r in (snapshot[0], created)] == [None, None]
    assert created.value["after"]["a"] is None
    assert (updated.value["before"]["n"], updated.value["after"]["n"]) == (None, Decimal("3.00"))
    with pytest.raises(DataError, match=r"\(id=3\) .*column r: NaN"):
        assert errant.value
    assert ("a value of public.t.n cannot be converted and becomes null: NaN" in caplog.text) == (mode == "warn")


def test_handling_modes_determine_types_and_values(source: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table t(id int primary key, n numeric(6,2), d date, t time, s timestamp, b bytea, i interval, m money)"
        )
        db.execute(
            "insert into t values (1, 1.5, '2026-11-21', '01:02:03.123456', '2026-11-21 01:02:03.123456', '\\xfbff', "
            "'1 mon -2 days 03:00:00.5', 1.5)"
        )

        def row(**modes: str) -> Any:
            source.kill()
            source.start(snapshot_mode="initial_only", **modes)
            return source.read(1)[0].value["after"]

        found = row(
            decimal_handling_mode="string", time_precision_mode="connect", binary_handling_mode="base64",
            interval_handling_mode="string",
        )  # fmt: skip
        found.validate()
        assert (found["n"], found["m"]) == ("1.50", "1.50")
        assert (found["d"], found["t"]) == (dt.date(2026, 11, 21), dt.time(1, 2, 3, 123000))
        assert found["s"] == dt.datetime(2026, 11, 21, 1, 2, 3, 123000, tzinfo=dt.UTC)
        assert found["b"] == "+/8="
        assert found["i"] == "P0Y1M-2DT3H0M0.5S"
        found = row(decimal_handling_mode="double", time_precision_mode="isostring", binary_handling_mode="base64-url-safe")
        assert (found["n"], found["d"], found["t"], found["s"], found["b"]) == (
            1.5, "2026-11-21Z", "01:02:03.123456Z", "2026-11-21T01:02:03.123456Z", "-_8=",
        )  # fmt: skip
        found = row(time_precision_mode="nanoseconds", binary_handling_mode="hex")
        assert (found["t"], found["s"], found["b"]) == (3723123456000, 1795222923123456000, "fbff")


def test_unsupported_type_is_omitted_with_a_warning_or_captured_as_bytes(source: Any, caplog: Any) -> None:
    with source.sql() as db:
        db.execute("create type pair as (x int, y int); create table t(id int primary key, p pair, c pg_lsn)")
        db.execute("insert into t values (1, row(1, 2), '0/10')")
    with caplog.at_level(logging.WARNING):
        source.start(snapshot_mode="initial_only")
        (row,) = source.read(1)
    assert list(row.value["after"].as_dict()) == ["id"]
    assert "column public.t.p of type pair is not supported" in caplog.text
    source.kill()
    source.start(include_unknown_datatypes="true")
    assert source.read(1)[0].value["after"].as_dict() == {"id": 1, "p": b"(1,2)", "c": b"0/10"}


def test_points_arrays_and_circles_contain_well_known_binary(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, c circle not null, p point[], b box[])")
        db.execute("insert into t values (1, '<(1,-2),3>', array['(1,2)', null]::point[], '{(3,4),(1,2);(1,1),(0,0)}')")
        source.start()
        rows = source.read(1)
        db.execute("insert into t select 2, c, p, b from t")
        rows += source.read(1)
        for record in rows:
            record.value.validate()
            row = record.value["after"]
            wkb = struct.pack("<BIdd", 1, 1, 1, -2)
            assert row["c"]["center"].as_dict() == {"x": 1.0, "y": -2.0, "wkb": wkb, "srid": None}
            assert [p and (p["x"], p["y"]) for p in row["p"]] == [(1.0, 2.0), None]
            assert [b["wkb"] for b in row["b"]] == [
                polygon((3, 4), (3, 2), (1, 2), (1, 4), (3, 4)), polygon((1, 1), (1, 0), (0, 0), (0, 1), (1, 1)),
            ]  # fmt: skip
            assert row.schema.field("c").schema.optional  # as in Debezium


def test_unchanged_vectors_are_placeholders(source: Any) -> None:
    with source.sql() as db:
        db.execute("create extension vector; create table t(id int primary key, n int, v vector(3000))")
        db.execute("insert into t select 1, 0, array_fill(0.1::real, '{3000}')::vector")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("update t set n = 1")
        (changed,) = source.read(1)
    assert changed.value["after"]["v"] == [float(byte) for byte in b"__debezium_unavailable_value"]


@pytest.mark.long
def test_values_of_dropped_types_are_text_or_their_base_type(source: Any) -> None:
    with source.sql() as db:
        db.execute("create type mood as enum ('sad'); create domain price as numeric(8,2)")
        db.execute("create table t(id int primary key, m mood, p price)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        source.kill()
        db.execute("insert into t values (1, 'sad', 9.5)")
        db.execute("alter table t alter m type text, alter p type numeric(8,2); drop type mood; drop domain price")
        source.start()
        (record,) = source.read(1)
    row = record.value["after"]
    assert row["m"] == "sad"
    assert row["p"].as_dict() == {"scale": 2, "value": (950).to_bytes(2, "big")}


def test_defaults_become_schema_defaults(source: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table t(id bigserial primary key, i int default 42, s text default 'it''s', n numeric(6,2) default 1.5, "
            "b bool default true, ts timestamptz default now(), g int generated always as identity, no int, made text "
            "generated always as ('x') stored)"
        )
        db.execute("insert into t(no) values (1)")
        source.start(snapshot_mode="initial_only")
        schema = source.read(1)[0].value["after"].schema
    defaults = {field.name: field.schema.default for field in schema.fields}
    assert defaults == {
        "id": 0, "i": 42, "s": "it's", "n": Decimal("1.50"), "b": True, "ts": "1970-01-01T00:00:00Z", "g": 0, "no": None,
    }  # fmt: skip
