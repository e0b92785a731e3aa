"""``conversion.strict=true``: values that the database would silently round or truncate are rejected; others are written."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SinkRecord
from connect.testing.harness import MemoryReporter, SinkContext
from connectors.jdbc.database import ConnectionSettings, Database, Session
from connectors.jdbc.debezium_sink.connector import DebeziumJdbcSinkTask
from connectors.jdbc.dialects.lossless import strict_writer
from connectors.jdbc.options import InsertMode, SinkField, WriteOptions
from connectors.jdbc.sink.task import BaseJdbcSinkTask, JdbcSinkTask
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import parse_connection_url
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres


class Case(NamedTuple):
    column: str
    schema: Schema
    kept: list[Any]
    lost: list[Any]


DECIMAL = decimal_schema(3, optional=True)
STAMP, TIME = timestamp_schema(optional=True), time_schema(optional=True)
TEXT, DOUBLE, BIGINT = Schema.OPTIONAL_STRING, Schema.OPTIONAL_FLOAT64, Schema.OPTIONAL_INT64
NANOS = Schema(Type.INT64, optional=True, name="io.debezium.time.NanoTimestamp", version=1)
ZONED_TIME = Schema(Type.STRING, optional=True, name="io.debezium.time.ZonedTime", version=1)
DURATION = Schema(Type.INT64, optional=True, name="io.debezium.time.MicroDuration", version=1)
MIDNIGHT = dt.datetime(2024, 2, 29, tzinfo=dt.UTC)
SECOND = MIDNIGHT.replace(hour=10, second=1)
MILLI = SECOND.replace(microsecond=1000)
NUMBERS = [Decimal("1.500"), Decimal("-2.250")]
FINER = [Decimal("1.239"), Decimal("-0.001")]
A_TENTH = 0.1
PAIR = SchemaBuilder.struct().optional().field("a", DOUBLE).build()

POSTGRES = [
    Case("numeric(10,2)", DECIMAL, NUMBERS, FINER),
    Case("numeric(10,2)", DOUBLE, [1.5, 0.1, float("nan")], [0.125, 0.1 + 0.2]),
    Case("numeric(10,2)", Schema.OPTIONAL_FLOAT32, [0.10000000149011612], [0.125]),
    Case("numeric(10,2)", TEXT, ["1.50", "NaN"], ["1.505"]),
    Case("numeric(5,-2)", BIGINT, [1200], [1250]),
    Case("money", DECIMAL, [Decimal("1.250")], FINER),
    Case("numeric", DECIMAL, FINER, []),
    Case("real", DOUBLE, [1.5, float("inf")], [A_TENTH, 1e300]),
    Case("real", BIGINT, [1 << 30], [(1 << 24) + 1]),
    Case("real", DECIMAL, [Decimal("0.100")], [Decimal("123456789.123")]),
    Case("double precision", BIGINT, [1 << 60], [(1 << 53) + 1]),
    Case("double precision", DECIMAL, [Decimal("0.100")], [Decimal("12345678901234567.891")]),
    Case("timestamp(0)", STAMP, [SECOND], [MILLI]),
    Case("timestamptz(2)", STAMP, [SECOND], [MILLI]),
    Case("timestamp(0)", TEXT, ["2024-02-29 10:00:01", "infinity"], ["2024-02-29 10:00:01.5"]),
    Case("timestamp", NANOS, [1_000], [1_001]),
    Case("timestamp", STAMP, [MILLI], []),
    Case("time(0)", TIME, [dt.time(10)], [dt.time(10, microsecond=500_000)]),
    Case("time", ZONED_TIME, ["10:00:00Z"], ["10:00:00+02:00"]),
    Case("timetz", ZONED_TIME, ["10:00:00+02:00"], ["10:00:00.123456789Z"]),
    Case("time", STAMP, [], [MIDNIGHT]),
    Case("date", STAMP, [MIDNIGHT], [SECOND]),
    Case("date", TEXT, ["2024-02-29", "2024-02-29 00:00:00"], ["2024-02-29 10:00:00"]),
    Case("interval(0)", DURATION, [1_000_000], [1_500_000]),
    Case("char(3)", TEXT, ["a", "abc", "ab "], ["a ", "abc "]),
    Case("varchar(3)", TEXT, ["abc", "a "], ["abc "]),
    Case("name", TEXT, ["n" * 63], ["n" * 64]),
    Case("numeric(10,1)[]", Schema(Type.ARRAY, optional=True, value_schema=DECIMAL),
         [[Decimal("1.500"), None]], [[Decimal("1.500"), Decimal("1.250")]]),
]  # fmt: skip
MARIADB = [
    Case("decimal(10,2)", DECIMAL, NUMBERS, FINER),
    Case("decimal(10,2)", TEXT, ["1.50"], ["1.505"]),
    Case("int", DECIMAL, [Decimal("5.000")], [Decimal("5.500")]),
    Case("int", DOUBLE, [5.0], [5.5]),
    Case("float", DOUBLE, [1.5], [A_TENTH]),
    Case("double", BIGINT, [1 << 60], [(1 << 53) + 1]),
    Case("double(10,2)", DOUBLE, [1.25], [1.125]),
    Case("datetime", STAMP, [SECOND], [MILLI]),
    Case("datetime(3)", STAMP, [MILLI], []),
    Case("timestamp(2) null", STAMP, [SECOND], [MILLI]),
    Case("time", TIME, [dt.time(10)], [dt.time(10, microsecond=500_000)]),
    Case("time", ZONED_TIME, ["10:00:00Z"], ["10:00:00+02:00"]),
    Case("time", STAMP, [], [SECOND]),
    Case("date", STAMP, [MIDNIGHT], [SECOND]),
    Case("date", date_schema(optional=True), [MIDNIGHT.date()], []),
    Case("year", BIGINT, [2024, 0], [24]),
    Case("year", TEXT, ["2024", "0000"], ["24", "0"]),
    Case("char(3)", TEXT, ["a", "abc"], ["a "]),
    Case("varchar(3)", TEXT, ["a  "], ["abc "]),
    Case("binary(3)", Schema.OPTIONAL_BYTES, [b"abc"], [b"a"]),
]
DUCKDB = [
    Case("decimal(10,2)", TEXT, ["1.50"], ["1.505"]),
    Case("decimal(10,2)", DECIMAL, NUMBERS, FINER),
    Case("integer", TEXT, ["5"], ["5.5"]),
    Case("float", DOUBLE, [1.5], [A_TENTH]),
    Case("double", BIGINT, [1 << 60], [(1 << 53) + 1]),
    Case("double", DECIMAL, [Decimal("0.100")], [Decimal("12345678901234567.891")]),
    Case("timestamp_s", TEXT, ["2024-02-29 10:00:01"], ["2024-02-29 10:00:01.5"]),
    Case("date", TEXT, ["2024-02-29"], ["2024-02-29 10:00:00"]),
    Case("time", ZONED_TIME, ["10:00:00Z"], ["10:00:00+02:00"]),
    Case("time with time zone", ZONED_TIME, ["10:00:00+02:00"], ["10:00:00.123456789+02:00"]),
    Case("float[]", Schema(Type.ARRAY, optional=True, value_schema=DOUBLE), [[1.5, None]], [[A_TENTH]]),
    Case(
        "map(varchar, float)",
        Schema(Type.MAP, optional=True, key_schema=TEXT, value_schema=DOUBLE),
        [{"a": 1.5}],
        [{"a": A_TENTH}],
    ),
    Case("struct(a float)", PAIR, [Struct(PAIR, [1.5])], [Struct(PAIR, [A_TENTH])]),
]
SQLITE = [
    Case("INTEGER", TEXT, ["7", "-7", "1.5", "word", ""], ["007", "+7", " 7", "1.50", "1e3", "9223372036854775808"]),
    Case("REAL", TEXT, ["7", "1.5"], ["1.50", "9007199254740993"]),
    Case("REAL", BIGINT, [1 << 60], [(1 << 53) + 1]),
    Case("REAL", DECIMAL, [Decimal("0.500")], [Decimal("9007199254740993.000")]),
    Case("TEXT", DOUBLE, [0.1, float("inf")], [0.1 + 0.2]),
    Case("TEXT", TEXT, ["007", "1.50 "], []),
    Case("BLOB", TEXT, ["007"], []),
]


class Table:
    """A table ``t`` of one column ``v``, in the database."""

    def __init__(self, database: Database, column: str) -> None:
        self._database = database
        self.session: Session = database.session()
        self.session.execute(Sql("DROP TABLE IF EXISTS t"), "testing")
        self.session.execute(Sql(f"CREATE TABLE t (v {column})"), "testing")
        self.session.commit()

    def put(self, schema: Schema, value: Any, *, strict: bool = True) -> None:
        options, fields = WriteOptions(strict=strict), [SinkField("v", schema)]
        dialect = self._database.dialect
        table = dialect.find(self.session, TableName("t"))
        writer = dialect.writer(table, fields, InsertMode.INSERT, options)
        try:
            strict_writer(writer, dialect, table, fields, options).write(self.session, [[value]])
        except DataError:
            self.session.rollback()
            raise
        self.session.commit()

    def count(self) -> int:
        return int(self.session.query(Sql("SELECT count(*) FROM t"), "testing")[0][0])


Open = Callable[[str], Database]


@pytest.fixture
def open_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened: list[Database] = []

    def open(kind: str) -> Database:
        if kind == "postgres":
            server: EmbeddedPostgres = request.getfixturevalue("postgres")
            url = f"jdbc:postgresql://{server.host}:{server.port}/{request.getfixturevalue('database')}"
            target = parse_connection_url(url, server.user, server.password, {})
        elif kind == "mariadb":
            maria: EmbeddedMariaDB = request.getfixturevalue("mariadb")
            # Of this test's own, and dropped: a source without a list of tables reads those of all databases.
            url = f"jdbc:mysql://{maria.host}:{maria.port}/{request.getfixturevalue('mariadb_database')}"
            target = parse_connection_url(url, maria.user, maria.password, {})
        else:
            target = parse_connection_url(f"jdbc:{kind}:{tmp_path / 'strict.db'}", None, None, {})
        opened.append(Database(ConnectionSettings(target, attempts=1)))
        return opened[-1]

    yield open
    for one in opened:
        one.close()


@pytest.mark.parametrize(
    ("kind", "cases"),
    [("postgres", POSTGRES), ("mariadb", MARIADB), ("duckdb", DUCKDB), ("sqlite", SQLITE)],
    ids=["postgres", "mariadb", "duckdb", "sqlite"],
)
def test_strict_conversion_rejects_values_that_a_column_cannot_store(kind: str, cases: list[Case], open_database: Open) -> None:
    database = open_database(kind)
    for column, schema, kept, lost in cases:
        table = Table(database, column)
        for value in [*kept, None]:
            table.put(schema, value)
        assert table.count() == len(kept) + 1
        for value in lost:
            with pytest.raises(DataError, match=r"t\.v is |Field v"):
                table.put(schema, value)
        assert table.count() == len(kept) + 1
        table.session.close()


@pytest.mark.parametrize(
    ("kind", "column", "schema", "value", "stored"),
    [
        ("postgres", "numeric(10,2)", DECIMAL, Decimal("1.239"), Decimal("1.24")),
        ("mariadb", "decimal(10,2)", DECIMAL, Decimal("1.239"), Decimal("1.24")),
        ("duckdb", "integer", TEXT, "5.6", 6),
        ("sqlite", "INTEGER", TEXT, "007", 7),
    ],
)
def test_without_strict_conversion_the_database_rounds(
    kind: str, column: str, schema: Schema, value: Any, stored: Any, open_database: Open
) -> None:
    table = Table(open_database(kind), column)
    table.put(schema, value, strict=False)
    assert table.session.query(Sql("SELECT v FROM t"), "testing") == [(stored,)]


def test_error_names_column_type_and_value(open_database: Open) -> None:
    table = Table(open_database("duckdb"), "FLOAT")
    with pytest.raises(DataError) as refused:
        table.put(DOUBLE, 0.1)
    assert refused.value.message == (
        "main.t.v is FLOAT, which cannot store 0.1 (field v) without loss; conversion.strict=true forbids that"
    )


def test_the_default_of_a_null_is_checked_as_well(open_database: Open) -> None:
    table = Table(open_database("duckdb"), "FLOAT")
    defaulted = DOUBLE.replace(default=0.1)
    with pytest.raises(DataError, match=r"cannot store 0\.1"):
        table.put(defaulted, None)


ROW = SchemaBuilder.struct().field("id", Schema.INT32).field("v", TEXT).build()


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        (JdbcSinkTask, {}),
        (DebeziumJdbcSinkTask, {"primary.key.mode": "none"}),
    ],
)
def test_values_rejected_by_strict_conversion_go_to_the_dead_letter_queue(
    task: type[BaseJdbcSinkTask], keys: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "strict.db"
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE people (id INTEGER, v INTEGER)")
    reporter = MemoryReporter()
    config = {
        "name": "sink", "topics": "people", "connection.url": f"jdbc:sqlite:{path}", "conversion.strict": "true",
        "errors.tolerance": "all", **keys,
    }  # fmt: skip
    sink = task()
    sink.initialize(SinkContext(config, JsonConverter(), JsonConverter(), reporter=reporter))
    sink.start(config)
    try:
        sink.put([SinkRecord("people", 0, None, None, ROW, Struct(ROW, [i, v]), i) for i, v in enumerate(["7", "007", "8"])])
    finally:
        sink.stop()
        sink.close()
    with closing(sqlite3.connect(path)) as own:
        assert own.execute("SELECT id, v FROM people").fetchall() == [(0, 7), (2, 8)]
    [(record, error)] = reporter.reported
    assert (record.offset, "people.v is INTEGER" in str(error)) == (1, True)
