"""Every declared type: from a table, as records of a topic, into a table of the same declaration. Schemas are those that the Java
driver and connector give for the first value (recorded from them), where that is not the accident of one row."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from decimal import Decimal
from pathlib import Path

import pytest

from connect.data.logical import EPOCH, decimal_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.jdbc.errors import RowRejectedError, StatementError
from connectors.jdbc.options import Calendar, Granularity, InsertMode, NumericMapping, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.table_name import TableName
from tests.integration.jdbc.sqlite.desk import Desk, sink_fields, through_json

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"

TYPES: dict[str, tuple[str, list[str]]] = {
    "INTEGER": ("int32", ["1", "-2147483648"]),
    "integer ": ("int64", ["9223372036854775807", "1"]),
    "INT": ("int64", ["2147483647", "-9223372036854775808"]),
    "TINYINT": ("int16", ["127", "300"]),
    "TINYINT(1)": ("int64", ["70000"]),
    "SMALLINT": ("int32", ["1"]),
    "INT2": ("int32", ["1"]),
    "MEDIUMINT": ("int64", ["1"]),
    "BIGINT": ("int64", ["9223372036854775807"]),
    "INT8": ("int64", ["1"]),
    "UNSIGNED BIG INT": ("int64", ["1"]),
    "BOOLEAN": ("boolean", ["1", "0"]),
    "BOOL": ("int64", ["1", "0"]),
    "BIT": ("int64", ["1"]),
    "REAL": ("double", ["1.5", "1", "0.1", "3.141592653589793", "9e999"]),
    "DOUBLE": ("double", ["0.1", "-1.7976931348623157e308"]),
    "DOUBLE PRECISION": ("double", ["0.1"]),
    "FLOAT": ("double", ["0.1"]),
    "NUMERIC": ("int32", ["1", "-5"]),
    "NUMERIC ": ("double", ["1", "1.5"]),
    " NUMERIC": ("int64", ["1700000000000"]),
    " NUMERIC ": ("string", ["1.5", "'abc'"]),
    "NUMERIC(10,2)": (DECIMAL, ["1.5", "1", "-12345678.91", "0"]),
    "NUMERIC(5)": (DECIMAL, ["7"]),
    "DECIMAL(10,2)": (DECIMAL, ["1.5", "0.07"]),
    "DECIMAL(30,12)": (DECIMAL, ["0.000000000001"]),
    "DECIMAL": ("int64", ["7"]),
    "NUMBER": ("int64", ["1"]),
    "TEXT": ("string", ["'x'", "12", "''", "'a''b\"c'", "'äöü€😀'", "'12.50'"]),
    "VARCHAR(10)": ("string", ["'äöü€'"]),
    "CHAR(3)": ("string", ["'ab'"]),
    "CHARACTER(3)": ("string", ["'ab'"]),
    "NCHAR(3)": ("string", ["'a'"]),
    "NVARCHAR(3)": ("string", ["'a'"]),
    "CLOB": ("string", ["'c'"]),
    "STRING": ("string", ["'s'", "'7'"]),
    "JSON": ("string", ["'{\"a\": [1]}'", "'12'"]),
    "UUID": ("string", ["'123e4567-e89b-12d3-a456-426614174000'"]),
    "BLOB": ("bytes", ["x'00ff'", "x''"]),
    "BINARY(2)": ("bytes", ["x'00ff'"]),
    "VARBINARY(2)": ("bytes", ["x'00ff'"]),
    "": ("int32", ["1"]),
    " ": ("string", ["'x'"]),
    "  ": ("bytes", ["x'00'"]),
    "   ": ("double", ["1.5"]),
    "DATE": (DATE, ["1709164800000", "-62135596800000"]),
    "DATETIME": (TIMESTAMP, ["1709210096789"]),
    "TIMESTAMP": (TIMESTAMP, ["1709210096789", "1709210096", "-12218860800000", "-62135596800000"]),
    "TIME": ("string", ["'12:34:56'", "'12:34:56.789'"]),
    "TIME ": ("int64", ["45296789"]),
}
"""By declaration: the schema, and literals. Spaces make a declaration another key here and nothing to SQLite."""


def _shown(schema: Schema) -> str:
    if schema.name is not None:
        return schema.name
    return {Type.INT8: "int8", Type.INT16: "int16", Type.INT32: "int32", Type.INT64: "int64"}.get(schema.type, schema.type.value)


@pytest.mark.parametrize("mode", [InsertMode.INSERT, InsertMode.UPSERT])
def test_all_types_have_confluents_schema_and_round_trip(desk: Desk, mode: InsertMode) -> None:
    ddl = f"(id INTEGER PRIMARY KEY NOT NULL, {', '.join(f'c{i} {type_}' for i, type_ in enumerate(TYPES))})"
    desk.sql(f"CREATE TABLE a {ddl}", f"CREATE TABLE b {ddl}")
    depth = max(len(values) for _, values in TYPES.values())
    for row in range(depth + 1):
        values = [v[row] if row < len(v) else "NULL" for _, v in TYPES.values()]
        desk.sql(f"INSERT INTO a VALUES ({row}, {', '.join(values)})")
    fields, rows = desk.read("a", order=" ORDER BY id")
    assert [(type_, _shown(schema)) for type_, (_, schema) in zip(TYPES, fields[1:], strict=True)] == [
        (type_, expected) for type_, (expected, _) in TYPES.items()
    ]
    assert not fields[0][1].optional
    assert all(schema.optional for _, schema in fields[1:])
    assert fields[19 + 4][1].parameters == {"scale": "2", "connect.decimal.precision": "10"}
    if mode is InsertMode.UPSERT:
        desk.sql("INSERT INTO b (id) SELECT id FROM a")
    desk.write("b", sink_fields(fields, ["id"]), through_json(fields, rows), mode)
    for i, type_ in enumerate(TYPES):
        different = (
            f"SELECT a.c{i}, b.c{i} FROM a JOIN b USING (id) WHERE a.c{i} IS NOT b.c{i} OR typeof(a.c{i}) <> typeof(b.c{i})"
        )
        assert desk.sql(different) == [], type_
    assert desk.sql("SELECT count(*) FROM b") == [(depth + 1,)]


DAY = dt.date(2024, 2, 29)
AT = dt.datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("type_", "literal", "expected"),
    [
        ("DATE", "'2024-02-29'", DAY),
        ("DATE", "'2024-02-29 00:00:00'", DAY),
        ("DATE", "2460369.5", DAY),
        ("DATE", "'1582-10-04'", dt.date(1582, 10, 14)),
        ("TIMESTAMP", "'2024-02-29 12:34:56.789'", AT),
        ("TIMESTAMP", "'2024-02-29 12:34:56.789123'", AT),
        ("TIMESTAMP", "'2024-02-29T12:34:56.789Z'", AT),
        ("TIMESTAMP", "'2024-02-29T14:34:56.789+02:00'", AT),
        ("TIMESTAMP", "'2024-02-29'", AT.replace(hour=0, minute=0, second=0, microsecond=0)),
        ("TIMESTAMP", "'2024-02-29 12:34'", AT.replace(second=0, microsecond=0)),
        ("DATETIME", "2460370.024268391", AT),
        ("TIMESTAMP", "'1582-10-10 00:00:00.000'", dt.datetime(1582, 10, 20, tzinfo=dt.UTC)),
    ],
)
def test_dates_and_timestamps_are_read_in_every_sqlite_format(desk: Desk, type_: str, literal: str, expected: object) -> None:
    desk.sql(f"CREATE TABLE a (v {type_})", f"INSERT INTO a VALUES ({literal})")
    assert desk.read("a")[1] == [[expected]]


def test_texts_without_an_offset_are_in_db_timezone_and_numbers_are_instants(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (v TIMESTAMP)", "INSERT INTO a VALUES ('2024-07-01 12:00:00'), (1719849600000)")
    options = ReadOptions(zone=zoneinfo.ZoneInfo("America/New_York"))
    assert desk.read("a", options)[1] == [[dt.datetime(2024, 7, 1, 16, tzinfo=dt.UTC)]] * 2


def test_granularities_preserve_the_digits_of_texts(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (v TIMESTAMP)", "INSERT INTO a VALUES ('2024-02-29 12:34:56.123456')")
    read = {granularity: desk.read("a", ReadOptions(granularity=granularity))[1][0][0] for granularity in Granularity}
    assert read == {
        Granularity.CONNECT_LOGICAL: dt.datetime(2024, 2, 29, 12, 34, 56, 123000, tzinfo=dt.UTC),
        Granularity.MICROS_LONG: 1709210096123456,
        Granularity.MICROS_STRING: "1709210096123456",
        Granularity.MICROS_ISO: "2024-02-29T12:34:56.123456",
        Granularity.NANOS_LONG: 1709210096123456000,
        Granularity.NANOS_STRING: "1709210096123456000",
        Granularity.NANOS_ISO: "2024-02-29T12:34:56.123456000",
    }
    with pytest.raises(DataError, match=r"Column v: .* is finer than a millisecond"):
        desk.read("a", ReadOptions(strict=True))


def test_the_calendar_of_old_dates_can_be_chosen(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (v DATE)", "INSERT INTO a VALUES ('1500-01-01')")
    assert desk.read("a", ReadOptions(calendar=Calendar.PROLEPTIC_GREGORIAN))[1] == [[dt.date(1500, 1, 1)]]
    assert desk.read("a")[1] == [[dt.date(1500, 1, 10)]]


@pytest.mark.parametrize(
    ("type_", "literal", "words"),
    [
        ("INTEGER", "'text'", "Column v is declared INTEGER, which requires a whole number, but contains 'text'"),
        ("INTEGER", "1.5", "a whole number, but contains 1.5"),
        ("BOOLEAN", "'true'", "0 or 1, but contains 'true'"),
        ("TEXT", "x'0102'", "text, but contains a blob of 2 bytes"),
        ("BLOB", "'text'", "a blob, but contains 'text'"),
        ("DOUBLE", "'abc'", "contains 'abc'"),
        ("NUMERIC(10,2)", "1.255", "Column v: 1.255 has more than the 2 decimal places"),
        ("NUMERIC(10,2)", "'abc'", "contains 'abc'"),
        ("DATE", "'2024-02-29 12:00:00'", "is not midnight"),
        ("DATE", "'2024-02-30'", "Column v: '2024-02-30' is not an ISO-8601 date|not a date"),
        ("TIMESTAMP", "'soon'", "Column v: 'soon' is not an ISO-8601 date or timestamp"),
        ("TIMESTAMP", "x'00'", "a blob is not a timestamp"),
    ],
)
def test_a_value_that_does_not_match_its_column_is_rejected_by_name(desk: Desk, type_: str, literal: str, words: str) -> None:
    desk.sql(f"CREATE TABLE a (v {type_})", f"INSERT INTO a VALUES ({literal})")
    with pytest.raises(DataError, match=words):
        desk.read("a")


def test_numeric_mapping_applies_to_numeric_but_not_decimal(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (n NUMERIC(5), m NUMERIC(5,2), d DECIMAL(5))", "INSERT INTO a VALUES (12345, 1.25, 12345)")
    mapped = {
        mapping: [_shown(schema) for _, schema in desk.read("a", ReadOptions(numeric=mapping))[0]] for mapping in NumericMapping
    }
    assert mapped == {
        NumericMapping.NONE: [DECIMAL, DECIMAL, DECIMAL],
        NumericMapping.PRECISION_ONLY: ["int32", DECIMAL, DECIMAL],
        NumericMapping.BEST_FIT: ["int32", "double", DECIMAL],
        NumericMapping.BEST_FIT_EAGER_DOUBLE: ["int32", "double", DECIMAL],
    }
    assert desk.read("a", ReadOptions(numeric=NumericMapping.BEST_FIT))[1][0][:2] == [12345, 1.25]


def test_a_widened_schema_stays_wide(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (v INTEGER)", "INSERT INTO a VALUES (5000000000)")
    assert _shown(desk.read("a")[0][0][1]) == "int64"
    desk.sql("DELETE FROM a", "INSERT INTO a VALUES (5)")
    assert _shown(desk.read("a")[0][0][1]) == "int64"


def test_decimals_beyond_a_double_need_a_text_column(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (n NUMERIC, t TEXT)")
    exact = Decimal("12345678901234567890.12")
    with pytest.raises(DataError, match=r"Field n: .* declare the column TEXT to preserve all"):
        desk.write("a", [SinkField("n", decimal_schema(2))], [[exact]])
    desk.write("a", [SinkField("t", decimal_schema(2))], [[exact]])
    assert desk.sql("SELECT t FROM a") == [("12345678901234567890.12",)]


def test_nan_is_rejected_because_sqlite_would_store_null(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (v REAL)")
    with pytest.raises(DataError, match="Field v: SQLite has no NaN"):
        desk.write("a", [SinkField("v", Schema.FLOAT64)], [[float("nan")]], options=WriteOptions())


def test_created_columns_have_confluents_types_and_defaults(desk: Desk) -> None:
    fields = [
        SinkField("id", Schema.INT64, is_key=True),
        SinkField("s", Schema.STRING.replace(default="it's")),
        SinkField("d", decimal_schema(2, default=Decimal("1.50"))),
        SinkField("b", Schema.BYTES.replace(default=b"\x00'")),
        SinkField("o", Schema.OPTIONAL_BOOLEAN.replace(default=True)),
        SinkField("f", Schema.OPTIONAL_FLOAT64),
        SinkField("t", timestamp_schema(default=EPOCH + dt.timedelta(milliseconds=5))),
        SinkField("l", Schema(Type.ARRAY, optional=True, value_schema=Schema.OPTIONAL_INT32)),
    ]
    name = TableName("made")
    desk.session.execute(desk.dialect.create_table(name, fields[:1]), "creating")
    for statement in desk.dialect.add_columns(desk.table("made"), fields[1:]):
        desk.session.execute(statement, "adding")
    desk.sql("INSERT INTO made (id) VALUES (1)")
    assert [(column.name, column.type_name) for column in desk.table("made").columns] == [
        ("id", "INTEGER"), ("s", "TEXT"), ("d", "NUMERIC"), ("b", "BLOB"), ("o", "INTEGER"), ("f", "REAL"), ("t", "NUMERIC"),
        ("l", "TEXT"),
    ]  # fmt: skip
    assert desk.sql("SELECT * FROM made") == [(1, "it's", 1.5, b"\x00'", 1, None, 5, None)]
    desk.write("made", fields, [[2, None, None, None, None, 1.0, None, [1, None]]])
    assert desk.sql("SELECT * FROM made WHERE id = 2") == [(2, "it's", 1.5, b"\x00'", 1, 1.0, 5, "[1,null]")]


def test_debezium_types_are_numbers_or_timestamps_in_timestamp_columns(desk: Desk) -> None:
    micros = Schema(Type.INT64, name="io.debezium.time.MicroTimestamp", version=1)
    fields = [
        SinkField("raw", micros),
        SinkField("at", micros),
        SinkField("day", Schema(Type.INT32, name="io.debezium.time.Date")),
    ]
    desk.sql("CREATE TABLE a (raw INTEGER, at TIMESTAMP, day DATE)")
    desk.write("a", fields, [[1709210096123456, 1709210096123456, 19782]])
    assert desk.sql("SELECT * FROM a") == [(1709210096123456, "2024-02-29 12:34:56.123456", 1709164800000)]


def test_a_failed_savepoint_rolls_back_only_later_changes(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id INTEGER PRIMARY KEY)")
    writer = desk.writer("a", [SinkField("id", Schema.INT64, is_key=True)])
    writer.write(desk.session, [[1]])
    with pytest.raises(RowRejectedError), desk.session.savepoint():
        writer.write(desk.session, [[2], [1]])
    with desk.session.savepoint():
        writer.write(desk.session, [[3]])
    desk.session.commit()
    assert desk.sql("SELECT id FROM a ORDER BY id") == [(1,), (3,)]


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is text " * 100)
    desk = Desk("sqlite", tmp_path / "no.db")
    with pytest.raises(StatementError, match=r"no\.db failed: file is not a database"):
        desk.sql("SELECT * FROM sqlite_master")
    desk.close()
