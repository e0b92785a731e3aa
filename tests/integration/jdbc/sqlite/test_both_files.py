"""Behavior that SQLite and DuckDB share: names, upserts, errors, transactions, incremental reading, random rows."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import zoneinfo
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.logical import date_schema, decimal_schema, timestamp_schema
from connect.data.schema import Schema
from connect.errors import ConfigError, ConnectError, DataError
from connectors.jdbc.database import Database
from connectors.jdbc.errors import DatabaseLostError, RowRejectedError, StatementError, TableChangedError
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName
from tests.integration.jdbc.sqlite.desk import Desk, open_database, session_of, sink_fields, through_json
from tests.support.waiting import WAIT_S

UPSERT, UPDATE, INSERT = InsertMode.UPSERT, InsertMode.UPDATE, InsertMode.INSERT
ID = SinkField("id", Schema.INT64, is_key=True)
NAME = SinkField("name", Schema.OPTIONAL_STRING)
EVIL = ['x"; DROP TABLE a; --', "it's", "`back`", "semi;colon", "%s ? :p $1 {0}", "ünï 😀", "a b", "select", "{rows}", "\\"]


@pytest.fixture(params=["sqlite", "duckdb"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(request.param, tmp_path / "a.db")
    yield made
    made.close()


def test_an_upsert_preserves_columns_that_are_not_in_the_record(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR, kept VARCHAR DEFAULT 'new')")
    desk.sql("INSERT INTO a VALUES (1, 'one', 'mine')")
    desk.write("a", [ID, NAME], [[1, "uno"], [2, "dos"]], UPSERT)
    desk.write("a", [ID, NAME], [[1, "uno"], [2, "dos"]], UPSERT)  # a batch that comes again changes nothing
    assert desk.sql("SELECT * FROM a ORDER BY id") == [(1, "uno", "mine"), (2, "dos", "new")]


def test_an_upsert_of_keys_alone_inserts_missing_rows(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, kept VARCHAR)", "INSERT INTO a VALUES (1, 'x')")
    desk.write("a", [ID], [[1], [2]], UPSERT)
    assert desk.sql("SELECT * FROM a ORDER BY id") == [(1, "x"), (2, None)]


def test_an_upsert_works_with_a_unique_index(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (x INTEGER, id BIGINT, name VARCHAR)", "CREATE UNIQUE INDEX ux ON a (name, id)")
    fields = [ID, SinkField("name", Schema.STRING, is_key=True), SinkField("x", Schema.INT32)]
    desk.write("a", fields, [[1, "a", 1], [1, "b", 2]], UPSERT)
    desk.write("a", fields, [[1, "b", 3]], UPSERT)
    assert desk.sql("SELECT id, name, x FROM a ORDER BY name") == [(1, "a", 1), (1, "b", 3)]


def test_an_upsert_without_unique_key_says_what_to_create(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT, name VARCHAR)")
    with pytest.raises(DataError, match=r'primary key or unique index over "id".*CREATE UNIQUE INDEX'):
        desk.writer("a", [ID, NAME], UPSERT)


def test_updates_and_deletes_change_only_rows_of_their_keys(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR)", "INSERT INTO a VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    desk.write("a", [ID, NAME], [[1, "A"], [9, "none"]], UPDATE)
    desk.dialect.deleter(desk.table("a"), [ID], WriteOptions()).write(desk.session, [[2], [8]])
    desk.session.commit()
    assert desk.sql("SELECT * FROM a ORDER BY id") == [(1, "A"), (3, "c")]


def test_a_rejected_row_quotes_the_database_and_is_rolled_back(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL)")
    writer = desk.writer("a", [ID, NAME])
    with pytest.raises(
        RowRejectedError, match=r"writing to (main\.)?a in (sqlite|duckdb)://.* failed: .*NOT NULL constraint failed"
    ):
        writer.write(desk.session, [[1, "ok"], [2, None]])
    desk.session.rollback()
    writer.write(desk.session, [[3, "ok"]])
    desk.session.commit()
    assert desk.sql("SELECT id FROM a") == [(3,)]


def test_a_duplicate_key_is_a_rejected_row(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR)", "INSERT INTO a VALUES (1, 'a')")
    with pytest.raises(RowRejectedError, match=r"(?i)unique|duplicate"):
        desk.write("a", [ID, NAME], [[1, "b"]])


def test_uncommitted_rows_are_rolled_back(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR)")
    desk.writer("a", [ID, NAME]).write(desk.session, [[1, "a"]])
    desk.session.execute(Sql("CREATE TABLE b (id INTEGER)"), "testing")
    desk.session.rollback()
    assert desk.sql("SELECT * FROM a") == []
    assert [str(name) for name, _ in desk.dialect.tables(desk.session, ("TABLE",))] == [str(desk.table("a").name)]


@pytest.mark.parametrize(
    ("desk", "evil"),
    [
        *(("sqlite", name) for name in EVIL),
        ("duckdb", EVIL[0]),
        *(pytest.param("duckdb", name, marks=pytest.mark.long) for name in EVIL[1:]),
    ],
    indirect=["desk"],
)
def test_names_and_values_cannot_become_sql(desk: Desk, evil: str) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    name = TableName(evil)
    key, text = SinkField(evil, Schema.STRING, is_key=True), SinkField(evil + "2", Schema.STRING.replace(default=evil))
    desk.session.execute(desk.dialect.create_table(name, [key, text]), "creating")
    table = desk.dialect.find(desk.session, name)
    assert [column.name for column in table.columns] == [evil, evil + "2"]
    for mode in (INSERT, UPSERT, UPDATE):
        desk.dialect.writer(table, [key, text], mode, WriteOptions()).write(desk.session, [[evil, evil + mode.value]])
    for statement in desk.dialect.add_columns(table, [SinkField(evil + "3", Schema.OPTIONAL_STRING.replace(default=evil))]):
        desk.session.execute(statement, "adding")
    desk.session.commit()
    table = desk.dialect.find(desk.session, name)
    query = Sql(f"SELECT * FROM {desk.dialect.table_ref(table.name)} WHERE {desk.dialect.quote(evil)} = ", Bind(evil))
    reader = desk.dialect.reader(desk.session, query, ReadOptions(), table)
    assert reader.read(5).values == [[evil, evil + "update", evil]]
    reader.close()
    desk.dialect.deleter(table, [key], WriteOptions()).write(desk.session, [["nobody"], [evil]])
    assert desk.session.query(Sql(f"SELECT count(*) FROM {desk.dialect.table_ref(table.name)}"), "counting") == [(0,)]
    desk.session.execute(desk.dialect.truncate(name), "emptying")
    assert desk.sql("SELECT * FROM a") == [(1,)]


def test_invalid_names_are_rejected(desk: Desk) -> None:
    for name in ("", "a\0b"):
        with pytest.raises(ConfigError, match="is not a valid name"):
            desk.dialect.quote(name)


def test_the_catalog_has_keys_nulls_defaults_and_generated_columns(desk: Desk) -> None:
    desk.sql("CREATE TABLE Orders (b INTEGER NOT NULL, a VARCHAR NOT NULL, d INTEGER DEFAULT 5, u INTEGER UNIQUE, "
             "g INTEGER GENERATED ALWAYS AS (b + 1), PRIMARY KEY (a, b))", "CREATE VIEW v AS SELECT a FROM Orders")  # fmt: skip
    table = desk.table("ORDERS")
    assert table.name.name == "Orders"
    assert table.primary_key == ("a", "b")
    assert table.unique_keys == (("u",),)
    assert {c.name: (c.nullable, c.has_default, c.generated) for c in table.columns} == {
        "b": (False, False, False), "a": (False, False, False), "d": (True, True, False), "u": (True, False, False),
        "g": (True, True, True),
    }  # fmt: skip
    found = desk.dialect.tables(desk.session, ("TABLE", "VIEW"))
    assert [(name.name, kind) for name, kind in found] == [("Orders", "TABLE"), ("v", "VIEW")]
    assert desk.table("v").kind == "VIEW"
    assert desk.dialect.describe(desk.session, TableName("nothing")) is None
    with pytest.raises(ConnectError, match=r"Table Orderz does not exist in .*Orders"):
        desk.dialect.find(desk.session, TableName("Orderz"))
    with pytest.raises(DataError, match=r"Column g of .* is computed"):
        desk.writer("Orders", [SinkField("g", Schema.INT32)])
    with pytest.raises(DataError, match="has no column nope"):
        desk.writer("Orders", [SinkField("nope", Schema.INT32)])


def test_a_missing_table_or_column_is_reported_as_such(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR)")
    writer = desk.writer("a", [ID, NAME])
    desk.sql("ALTER TABLE a DROP COLUMN name")
    with pytest.raises(TableChangedError):
        writer.write(desk.session, [[1, "a"]])
    desk.session.rollback()
    desk.sql("DROP TABLE a")
    with pytest.raises(TableChangedError):
        writer.write(desk.session, [[1, "a"]])
    desk.session.rollback()


@pytest.mark.parametrize(
    "zone", ["America/New_York", *(pytest.param(zone, marks=pytest.mark.long) for zone in ("UTC", "Asia/Kolkata"))]
)
def test_instants_that_were_read_compare_exactly(desk: Desk, zone: str) -> None:
    at = [f"2024-02-29 12:34:{second:02d}.{fraction}" for second in (0, 1) for fraction in ("000", "123456", "999")]
    desk.sql("CREATE TABLE a (id INTEGER, ts TIMESTAMP)")
    desk.sql("INSERT INTO a VALUES " + ", ".join(f"({i}, '{text}')" for i, text in enumerate(at)))
    options = ReadOptions(zone=zoneinfo.ZoneInfo(zone), exact=("id", "ts"))
    reader = desk.reader("a", options, " ORDER BY ts")
    exact = reader.read(10).exact
    reader.close()
    assert exact is not None
    assert [number for number, _ in exact] == list(range(len(at)))
    column = desk.table("a").column("ts")
    for number, ns in exact:
        assert number is not None
        assert ns is not None
        bound = desk.dialect.timestamp(ns, column, options)
        for sign, expected in (("<", range(number)), ("=", [number]), (">", range(number + 1, len(at)))):
            found = desk.session.query(Sql(f"SELECT id FROM a WHERE ts {sign} ", bound, " ORDER BY id"), "comparing")
            assert [row[0] for row in found] == list(expected)


def test_the_databases_time_is_that_of_the_machine(desk: Desk) -> None:
    before = dt.datetime.now(dt.UTC).timestamp()
    now = desk.dialect.now(desk.session) / 1e9
    assert before - 1 <= now <= dt.datetime.now(dt.UTC).timestamp() + 1


def test_a_query_is_read_with_its_own_columns(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR)", "INSERT INTO a VALUES (1, 'x'), (2, NULL)")
    fields, rows = desk.query('SELECT id AS n, upper(name) AS "Up per", 1.5e0 AS f FROM a ORDER BY id')
    assert [name for name, _ in fields] == ["n", "Up per", "f"]
    assert rows == [[1, "X", 1.5], [2, None, 1.5]]
    with pytest.raises(DataError, match="2 columns named id"):
        desk.query("SELECT id, id FROM a")
    with pytest.raises(DataError, match="no column nope; it has id"):
        desk.query("SELECT id FROM a", ReadOptions(exact=("nope",)))


def test_rows_are_read_in_batches_until_the_end(desk: Desk) -> None:
    desk.sql("CREATE TABLE a (id BIGINT)")
    desk.write("a", [ID], [[i] for i in range(20_000)])
    reader = desk.reader("a", ReadOptions(batch_rows=100), " ORDER BY id")
    found: list[int] = []
    while part := reader.read(700).values:
        assert len(part) <= 700
        found += [row[0] for row in part]
    reader.close()
    reader.close()
    assert found == list(range(20_000))
    assert desk.dialect.limited(Sql("SELECT 1"), 5).text == "SELECT 1 LIMIT 5"


def test_a_canceled_statement_fails_and_the_session_continues(desk: Desk) -> None:
    endless = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t"
    stop = threading.Event()

    def cancel() -> None:
        while not stop.wait(0.05):
            desk.session.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        with pytest.raises(StatementError, match=r"(?i)interrupt"):
            desk.session.query(Sql(endless), "counting without end")
    finally:
        stop.set()
        canceller.join()
    desk.session.rollback()
    assert desk.sql("SELECT 1") == [(1,)]


def test_a_statement_that_takes_too_long_is_canceled(desk: Desk, tmp_path: Path) -> None:
    slow = Desk(desk.kind, tmp_path / "slow.db", statement_timeout_ms=500)
    endless = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT count(*) AS n FROM t"
    try:
        with pytest.raises(StatementError, match=r"(?i)interrupt"):
            slow.session.query(Sql(endless), "counting without end")
        slow.session.rollback()
        with pytest.raises(StatementError, match=r"(?i)interrupt"):
            slow.query(endless)
        slow.session.rollback()
        assert slow.sql("SELECT 1") == [(1,)]
    finally:
        slow.close()


_HOLDER = """
import sys
kind, path = sys.argv[1:]
if kind == "sqlite":
    import sqlite3
    held = sqlite3.connect(path, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
else:
    import duckdb
    held = duckdb.connect(path)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_file_locked_by_another_process_is_a_transient_error(desk: Desk, tmp_path: Path) -> None:
    desk.sql("CREATE TABLE a (id BIGINT)")
    desk.close()
    path = tmp_path / "a.db"

    def look(database: Database) -> list[tuple[object, ...]]:
        with session_of(database) as session:
            session.execute(Sql("PRAGMA busy_timeout = 1" if desk.kind == "sqlite" else "SELECT 1"), "waiting less")
            return session.query(Sql("SELECT * FROM a"), "reading")

    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, desk.kind, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        database = open_database(desk.kind, path)
        try:
            with pytest.raises(ConnectError, match=r"(?i)lock") as caught:
                look(database)
        finally:
            holder.communicate()
    assert isinstance(caught.value if desk.kind == "sqlite" else caught.value.__cause__, DatabaseLostError)
    assert look(open_database(desk.kind, path)) == []


def test_a_read_only_database_can_be_read_and_reports_writes(desk: Desk, tmp_path: Path) -> None:
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR)", "INSERT INTO a VALUES (1, 'x')")
    desk.close()
    path = f"file:{tmp_path / 'a.db'}?mode=ro" if desk.kind == "sqlite" else f"{tmp_path / 'a.db'};access_mode=read_only"
    shut = Desk(desk.kind, path)
    try:
        assert shut.query("SELECT id AS n FROM a")[1] == [[1]]
        assert shut.read("a")[1] == [[1, "x"]]
        with pytest.raises(StatementError, match=r"(?i)read-?only"):
            shut.write("a", [ID, NAME], [[2, "y"]])
        shut.session.rollback()
    finally:
        shut.close()


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_an_in_memory_database_is_shared_by_all_threads(kind: str) -> None:
    desk = Desk(kind, ":memory:")
    found: list[object] = []
    try:
        desk.sql("CREATE TABLE a (id BIGINT)", "INSERT INTO a VALUES (1)")
        thread = threading.Thread(target=lambda: found.append(desk.read("a")[1]))
        thread.start()
        thread.join(WAIT_S)
        assert found == [[[1]]]
    finally:
        desk.close()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    for kind in ("sqlite", "duckdb"):
        database = open_database(kind, tmp_path / "no" / "where.db")
        with pytest.raises(ConnectError, match=r"no/where\.db"), session_of(database) as session:
            session.query(Sql("SELECT 1 FROM sqlite_master"), "reading")


# --- random rows

_TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)
_MILLIS = st.datetimes(dt.datetime(1, 2, 1), dt.datetime(9999, 12, 30)).map(
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=dt.UTC)
)
_ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | _TEXT,
        st.none() | st.binary(max_size=20),
        st.none() | st.booleans(),
        st.none() | st.decimals(-(10**7), 10**7, places=2).map(lambda d: d + Decimal("0.00")),
        st.none() | _MILLIS,
        st.none() | st.dates(dt.date(1, 2, 1)),
    ),
    unique_by=lambda row: row,
    max_size=30,
)
_FIELDS = [
    SinkField("i", Schema.OPTIONAL_INT32),
    SinkField("f", Schema.OPTIONAL_FLOAT64),
    SinkField("t", Schema.OPTIONAL_STRING),
    SinkField("b", Schema.OPTIONAL_BYTES),
    SinkField("o", Schema.OPTIONAL_BOOLEAN),
    SinkField("d", decimal_schema(2, optional=True)),
    SinkField("s", timestamp_schema(optional=True)),
    SinkField("y", date_schema(optional=True)),
]


@pytest.mark.long
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=_ROWS)
def test_random_rows_round_trip(desk: Desk, rows: list[tuple[object, ...]]) -> None:
    desk.session.rollback()
    desk.sql("DROP TABLE IF EXISTS a")
    desk.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, i INTEGER, f DOUBLE, t TEXT, b BLOB, o BOOLEAN, d DECIMAL(10,2), "
             "s TIMESTAMP, y DATE)")  # fmt: skip
    numbered = [[number, *row] for number, row in enumerate(rows)]
    for _ in range(2):
        desk.write("a", [ID, *_FIELDS], numbered, UPSERT)
        fields, found = desk.read("a", order=" ORDER BY id")
        assert found == numbered
        numbered = through_json(fields, found)
        desk.write("a", sink_fields(fields, ["id"]), numbered, UPDATE)
