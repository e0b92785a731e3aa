"""A row of expected values per type: the same from snapshot and stream, and as JSON that a converter writes from templates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest

from connect.data.schema import Schema
from connect.errors import ErrantRecordError
from connect.record import ErrantSourceRecord
from tests.integration.sqlite.conftest import SqliteCase, events
from tests.support.replayed_events import in_json, plain

MAX, MIN = (1 << 63) - 1, -(1 << 63)


def any_of(**field: Any) -> dict[str, Any]:
    return {"integer": None, "real": None, "text": None, "blob": None, **field}


def scaled(scale: int, value: bytes) -> dict[str, Any]:
    return {"scale": scale, "value": value}


CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
MICROS = dt.timedelta(microseconds=1)
STAMP = (dt.datetime(2024, 2, 29, 12, 30, 45, 123456, tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // MICROS
MINUTE = STAMP - 45_123_456
DAY = (dt.date(2024, 2, 29) - dt.date(1970, 1, 1)).days

# Declared type, SQL of the value, keys of the connector, type and name of the schema, expected value.
ROWS: list[tuple[str, str, dict[str, str], str, str | None, Any]] = [
    ("INTEGER", "9223372036854775807", {}, "int64", None, MAX),
    ("BIGINT", "-9223372036854775808", {}, "int64", None, MIN),
    ("TINYINT", "300", {}, "int64", None, 300),
    ("UNSIGNED BIG INT", "'17'", {}, "int64", None, 17),
    ("REAL", "0.1", {}, "double", None, 0.1),
    ("DOUBLE PRECISION", "3", {}, "double", None, 3.0),
    ("FLOAT", "9e999", {}, "double", None, float("inf")),
    ("TEXT", "'a''b' || char(233) || char(128512)", {}, "string", None, "a'bé😀"),
    ("TEXT", "'nul' || char(0) || 'x'", {}, "string", None, "nul\0x"),
    ("VARCHAR(10)", "12", {}, "string", None, "12"),
    ("CLOB", "''", {}, "string", None, ""),
    ("BLOB", "x'00ff'", {}, "bytes", None, b"\0\xff"),
    ("BLOB", "x'00ff'", {"binary_handling_mode": "hex"}, "string", None, "00ff"),
    ("BLOB", "x'00ff'", {"binary_handling_mode": "base64"}, "string", None, "AP8="),
    ("BLOB", "x'fbff'", {"binary_handling_mode": "base64-url-safe"}, "string", None, "-_8="),
    ("", "7", {}, "struct", "connectors.sqlite.Any", any_of(integer=7)),
    ("", "1.5", {}, "struct", "connectors.sqlite.Any", any_of(real=1.5)),
    ("", "'7'", {}, "struct", "connectors.sqlite.Any", any_of(text="7")),
    ("", "x'07'", {}, "struct", "connectors.sqlite.Any", any_of(blob=b"\x07")),
    ("BOOLEAN", "TRUE", {}, "boolean", None, True),
    ("BOOL", "0", {}, "boolean", None, False),
    ("DECIMAL(10,2)", "12.5", {}, "bytes", CONNECT + "Decimal", Decimal("12.50")),
    ("DECIMAL(10,2)", "0.1", {"decimal_handling_mode": "string"}, "string", None, "0.1"),
    ("DECIMAL(10,2)", "0.1", {"decimal_handling_mode": "double"}, "double", None, 0.1),
    ("NUMERIC", "1.25", {}, "struct", "io.debezium.data.VariableScaleDecimal", scaled(2, b"\x7d")),
    ("NUMBER", "4", {}, "struct", "io.debezium.data.VariableScaleDecimal", scaled(0, b"\x04")),
    ("DATE", "'2024-02-29'", {}, "string", None, "2024-02-29"),
    ("DATETIME", "1709209845", {}, "string", None, "1709209845"),
    ("TIMESTAMP", "2460370.5", {}, "string", None, "2460370.5"),
    ("DATE", "'2024-02-29'", {"time_precision_mode": "adaptive"}, "int32", TIME + "Date", DAY),
    (
        "DATETIME", "'2024-02-29 12:30:45.123456'", {"time_precision_mode": "adaptive"}, "int64", TIME + "MicroTimestamp",
        STAMP,
    ),
    ("TIMESTAMP", "'2024-02-29T12:30'", {"time_precision_mode": "adaptive"}, "int64", TIME + "MicroTimestamp", MINUTE),
    ("TIME", "'12:30:45.5'", {"time_precision_mode": "adaptive"}, "int64", TIME + "MicroTime", 45_045_500_000),
    (
        "DATETIME", "'2024-02-29 12:30:45.123'", {"time_precision_mode": "connect"}, "int64", CONNECT + "Timestamp",
        dt.datetime(2024, 2, 29, 12, 30, 45, 123000, tzinfo=dt.UTC),
    ),
    ("DATE", "'2024-02-29'", {"time_precision_mode": "connect"}, "int32", CONNECT + "Date", dt.date(2024, 2, 29)),
    (
        "TIME", "'12:30:45.500'", {"time_precision_mode": "connect"}, "int32", CONNECT + "Time",
        dt.time(12, 30, 45, 500000),
    ),
    ("JSON", "'{\"a\": 1}'", {}, "string", "io.debezium.data.Json", '{"a": 1}'),
    ("JSON", "'5'", {}, "string", "io.debezium.data.Json", "5"),
    ("UUID", "'6f1b'", {}, "string", "io.debezium.data.Uuid", "6f1b"),
    ("STRING", "'word'", {}, "string", None, "word"),
    ("STRING", "'1.50'", {}, "string", None, "1.5"),  # SQLite itself makes it a number
    ("INTEGER", "'none'", {"column_types": "main.t.v:any"}, "struct", "connectors.sqlite.Any", any_of(text="none")),
    ("INTEGER", "1", {"column_types": "main.t.v:boolean"}, "boolean", None, True),
    ("INTEGER", "'none'", {"column_types": ".*:text"}, "string", None, "none"),
]  # fmt: skip


def configs(rows: Iterable[tuple[str, str, dict[str, str], *tuple[Any, ...]]]) -> list[dict[str, str]]:
    """The keys of the connector that rows have, each once."""
    return [dict(config) for config in dict.fromkeys(tuple(row[2].items()) for row in rows)]


@pytest.mark.parametrize("config", configs(ROWS), ids=str)
def test_value_of_each_type(case: SqliteCase, config: dict[str, str]) -> None:
    """In one table for all values with the same keys of the connector."""
    cases = [row for row in ROWS if row[2] == config]
    columns = {f"v{n}": row for n, row in enumerate(cases)} if len(cases) > 1 else {"v": cases[0]}
    declared = ", ".join(f"{column} {row[0]}" for column, row in columns.items())
    values = ", ".join(row[1] for row in columns.values())
    insert = f"INSERT INTO t VALUES ('k', {values}), ('null'{', NULL' * len(columns)})"
    case.run(f"CREATE TABLE t(k TEXT PRIMARY KEY, {declared})", insert)
    case.start(**config)
    read = case.read_all()
    case.run("DELETE FROM t", insert, "UPDATE t SET k = k")
    streamed = [record for record in case.read_all() if record.value is not None]
    rows = [plain(record.value) for record in (*read, *streamed)]
    images = [row[side] for row in rows for side in ("before", "after") if row[side] is not None]
    assert len(images) == 2 + 2 + 2 + 4
    fields = read[0].value.schema.field("after").schema
    for column, (_, _, _, type_, name, expected) in columns.items():
        for image in images:
            assert image[column] == (None if image["k"] == "null" else expected)
            if image["k"] != "null" and not isinstance(expected, dict):
                assert type(image[column]) is type(expected)
        schema = fields.field(column).schema
        assert (schema.type.value, schema.name, schema.optional) == (type_, name, True)
    assert {id(record.value_schema) for record in streamed} == {id(streamed[0].value_schema)}
    assert streamed[0].value_schema == read[0].value_schema
    for record in (*read, *streamed):
        in_json(record)


def test_not_null_columns_and_defaults(case: SqliteCase) -> None:
    case.run(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT NOT NULL DEFAULT 7, b TEXT DEFAULT 'x''y', c REAL DEFAULT -1.5, "
        "d TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, e BLOB DEFAULT x'01', "
        "f BOOLEAN DEFAULT TRUE, g INT DEFAULT (1 + 1), h INT DEFAULT NULL)",
        "INSERT INTO t(id) VALUES (1)",
    )  # fmt: skip
    case.start()
    (record,) = case.read_all()
    fields = {field.name: field.schema for field in record.value.schema.field("after").schema.fields}
    assert {name: schema.default for name, schema in fields.items()} == {
        "id": None, "a": 7, "b": "x'y", "c": -1.5, "d": "", "e": b"\x01", "f": True, "g": None, "h": None
    }  # fmt: skip
    assert {name for name, schema in fields.items() if not schema.optional} == {"id", "a", "d"}
    assert record.key_schema is not None
    (key,) = record.key_schema.fields or ()
    assert (key.name, key.schema) == ("id", Schema.INT64)


def test_strict_tables(case: SqliteCase) -> None:
    case.run("CREATE TABLE t(id INT PRIMARY KEY, v ANY, r REAL, b BLOB) STRICT", "INSERT INTO t VALUES (1, '7', 2, x'01')")
    case.start()
    (record,) = case.read_all()
    assert plain(record.value)["after"] == {"id": 1, "v": any_of(text="7"), "r": 2.0, "b": b"\x01"}


WRONG = [
    ("INTEGER", "'none'", {}, "none is a text but the column is captured as an integer"),
    ("INTEGER", "1.5", {}, "1.5 is a real"),
    ("TEXT", "x'01'", {}, "is a blob"),
    ("TEXT", "CAST(x'ff' AS TEXT)", {}, "ff is a text that is not UTF-8"),
    ("BLOB", "'t'", {}, "is a text"),
    ("BOOLEAN", "2", {}, "0 or 1"),
    ("DECIMAL(4,2)", "0.125", {}, "2 digits after the point"),
    ("DATE", "20240229", {"time_precision_mode": "adaptive"}, "time.precision.mode=text"),
    ("DATE", "'2024-02-30'", {"time_precision_mode": "adaptive"}, "is no date"),
    ("DATETIME", "'2024-02-29 12:00:00Z'", {"time_precision_mode": "adaptive"}, "is no time"),
    ("DATETIME", "'2024-02-29 12:00:00.0001'", {"time_precision_mode": "connect"}, "milliseconds"),
]


@pytest.mark.parametrize("config", configs(WRONG), ids=str)
def test_value_that_does_not_fit_is_reported_with_its_row(case: SqliteCase, config: dict[str, str]) -> None:
    """Promise 8: never rounded, truncated, or guessed; other rows are not affected."""
    tables = {f"t{n}": row for n, row in enumerate(WRONG) if row[2] == config}
    rows = {table: f"INSERT INTO {table} VALUES (1, NULL), (2, {sql}), (3, NULL)" for table, (_, sql, _, _) in tables.items()}
    for table, (declared, _, _, _) in tables.items():
        case.run(f"CREATE TABLE {table}(id INTEGER PRIMARY KEY, v {declared})", rows[table])
    case.start(**config)
    all_records = case.read_all()
    for table in tables:
        case.run(f"DELETE FROM {table} WHERE v IS NULL", f"UPDATE {table} SET v = NULL", f"DELETE FROM {table}")
        case.run(rows[table], f"DELETE FROM {table}")
    all_records += case.read_all()
    for table, (*_, reason) in tables.items():
        records = [record for record in all_records if record.topic == f"shop.main.{table}"]
        wrong = [record for record in records if isinstance(record, ErrantSourceRecord)]
        assert len(wrong) == 2
        for record in wrong:
            assert isinstance(record.error, ErrantRecordError)
            assert f"a row of table main.{table} with the key (id=2) cannot be converted: column v: " in record.error.message
            assert reason in record.error.message
        found = events([record for record in records if not isinstance(record, ErrantSourceRecord)])
        assert len(found) == 2 + 2 + 2 + 2 + 3
        # Of an old row that cannot be converted, the key is enough.
        row = {"id": 2, "v": None}
        assert [e for e in found if row in e[1:]] == [("u", row, row), ("d", row, None), ("d", row, None)]


@pytest.mark.parametrize(
    ("statement", "deleted"),
    [
        ("INSERT OR REPLACE INTO t VALUES (3, 'a', 'none')", [1]),
        ("INSERT OR REPLACE INTO t VALUES (2, 'a', 'none')", [1]),
        ("UPDATE OR REPLACE t SET u = 'a', v = 'none' WHERE id = 2", [1]),
        ("UPDATE OR REPLACE t SET id = 3, u = 'a', v = 'none' WHERE id = 2", [1, 2]),
        ("UPDATE t SET id = 3, v = 'none' WHERE id = 2", [2]),
        ("UPDATE t SET v = 'none' WHERE id = 2", []),
    ],
)
def test_rows_that_give_way_to_a_row_that_does_not_fit_are_deleted(case: SqliteCase, statement: str, deleted: list[int]) -> None:
    case.run("CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INT)", "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    case.start()
    case.read_all()
    case.commit()
    case.run(statement)
    records = case.read_all()
    wrong = [record for record in records if isinstance(record, ErrantSourceRecord)]
    assert len(wrong) == 1
    assert wrong[0] is records[-1]
    assert [(op, before["id"]) for op, before, _ in events(records[:-1])] == [("d", id_) for id_ in deleted]
    # Only the report completes the change.
    last = (wrong[0].source_offset or {})["seq"]
    assert all((record.source_offset or {})["seq"] < last for record in records[:-1])


def test_old_row_without_a_key_that_does_not_fit_keeps_no_other_from_being_deleted(case: SqliteCase) -> None:
    case.run("CREATE TABLE t(a INT UNIQUE, b INT UNIQUE)", "INSERT INTO t VALUES (1, 'none'), (2, 2)")
    case.start()
    case.read_all()
    case.run("INSERT OR REPLACE INTO t VALUES (1, 2)")
    records = case.read_all()
    assert [isinstance(record, ErrantSourceRecord) for record in records] == [True, False, False]
    assert events(records[1:]) == [("d", {"a": 2, "b": 2}, None), ("c", None, {"a": 1, "b": 2})]


def test_value_that_does_not_fit_can_become_null(case: SqliteCase) -> None:
    case.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 'none')")
    case.start(event_converting_failure_handling_mode="warn")
    assert case.events() == [("r", None, {"id": 1, "v": None})]


def test_masks_and_truncation(case: SqliteCase) -> None:
    case.run("CREATE TABLE t(k TEXT PRIMARY KEY, a TEXT, b VARCHAR(9))", "INSERT INTO t VALUES ('key', 'secret', 'abcdef')")
    case.config |= {"column.mask.with.3.chars": "main.t.a,main.t.k", "column.truncate.to.2.chars": "main.t.b"}
    case.start()
    (record,) = case.read_all()
    assert plain(record.value)["after"] == {"k": "***", "a": "***", "b": "ab"}
    assert plain(record.key) == {"k": "key"}
    case.run("UPDATE t SET a = 'other'")
    (record,) = case.read_all()
    assert plain(record.value)["after"] == {"k": "***", "a": "***", "b": "ab"}
    assert plain(record.key) == {"k": "key"}


def test_custom_converters_replace_schemas_and_values(case: SqliteCase) -> None:
    insert = "INSERT INTO t VALUES (1, 2.25, 'tab\t'), (2, NULL, NULL)"
    case.run("CREATE TABLE t(id INTEGER PRIMARY KEY, price DECIMAL(9, 2), note TEXT)", insert)
    package = "tests.support.custom_converters"
    case.start(converters="cents,sizes", cents_type=f"{package}:Cents", sizes_type=f"{package}:Sizes")
    read = case.read_all()
    case.run("DELETE FROM t", insert)
    streamed = case.read_all()
    one, two = {"id": 1, "price": 225, "note": {"text": "tab\t", "size": 4}}, {"id": 2, "price": None, "note": None}
    assert [row for _, _, row in events(read)] == [one, two]
    assert events(streamed) == [("d", one, None), ("d", two, None), ("c", None, one), ("c", None, two)]
    assert streamed[-1].value_schema == read[0].value_schema
    for record in (*read, *streamed):
        if record.value is not None:
            in_json(record)
