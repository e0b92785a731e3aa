"""Writers: effects of each statement, rejected values, broken connections."""

from __future__ import annotations

import datetime as dt
import string
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connectors.jdbc.dialects.mysql import writer
from connectors.jdbc.errors import DatabaseLostError, RowRejectedError, StatementError, TableChangedError
from connectors.jdbc.options import InsertMode, SinkField, WriteOptions
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName
from tests.integration.jdbc.mysql.conftest import Connect, Rig

K = SinkField("k", Schema.INT32, is_key=True)
V = SinkField("v", Schema.OPTIONAL_STRING)
W = SinkField("w", Schema.OPTIONAL_INT64)
UTC = dt.UTC


@pytest.fixture
def t(rig: Rig) -> Iterator[Rig]:
    rig.run(
        "create table if not exists t (k int primary key, v varchar(100), w bigint, x varchar(20) default 'kept')",
        "delete from t",
    )
    yield rig
    rig.session.rollback()


def test_an_upsert_changes_existing_rows_and_preserves_other_columns(t: Rig) -> None:
    t.run("insert into t values (1, 'old', 1, 'mine')")
    t.write("t", [K, V, W], [[1, "new", None], [2, "it's", 5]], InsertMode.UPSERT)
    assert t.rows("select * from t order by k") == [(1, "new", None, "mine"), (2, "it's", 5, "kept")]
    t.write("t", [K, V, W], [[1, "new", None], [2, "it's", 5]], InsertMode.UPSERT)
    assert t.rows("select count(*) from t") == [(2,)]


def test_an_upsert_without_other_columns_preserves_existing_rows(t: Rig) -> None:
    t.run("insert into t values (1, 'old', 1, 'mine')")
    t.write("t", [K], [[1], [2]], InsertMode.UPSERT)
    assert t.rows("select * from t order by k") == [(1, "old", 1, "mine"), (2, None, None, "kept")]


def test_an_update_changes_only_existing_rows(t: Rig) -> None:
    t.run("insert into t values (1, 'a', 1, 'x'), (2, 'b', 2, 'y')")
    t.write("t", [K, V, W], [[1, "A;'--", 10], [2, None, 20], [3, "c", 30]], InsertMode.UPDATE)
    assert t.rows("select * from t order by k") == [(1, "A;'--", 10, "x"), (2, None, 20, "y")]
    t.run("insert into t select seq, 'n', seq, 'z' from seq_100_to_1500")
    t.write("t", [V, K], [[f"v{k}", k] for k in range(100, 1501)], InsertMode.UPDATE)
    assert t.rows("select count(*), sum(v = concat('v', k)) from t where k >= 100") == [(1401, 1401)]
    with pytest.raises(StatementError, match="syntax"):  # several statements in one text are for updates alone
        t.session.execute(Sql("do 1; do 2"), "trying")


def test_a_partly_failed_update_leaves_the_connection_usable(t: Rig) -> None:
    t.run("insert into t values (1, 'a', 1, 'x'), (2, 'b', 2, 'y')")
    with pytest.raises(RowRejectedError, match="Data too long"), t.session.savepoint():
        t.write("t", [K, V], [[1, "fine"], [2, "x" * 101], [1, "never"]], InsertMode.UPDATE)
    assert t.rows("select v from t order by k") == [("a",), ("b",)]


def test_deletes_by_one_key_and_by_several(t: Rig) -> None:
    t.run("insert into t select seq, concat('v', seq), seq, null from seq_1_to_10")
    t.dialect.deleter(t.table("t"), [K], WriteOptions()).write(t.session, [[1], [2], [99]])
    t.dialect.deleter(t.table("t"), [K, V], WriteOptions()).write(t.session, [[3, "v3"], [4, "other"], [5, "v5"]])
    t.session.commit()
    assert t.rows("select group_concat(k order by k) from t") == [("4,6,7,8,9,10",)]


def test_zero_can_be_written_to_an_auto_increment_column(rig: Rig) -> None:
    rig.run("drop table if exists counted", "create table counted (k int auto_increment primary key, v text)")
    rig.write("counted", [K, V], [[0, "zero"], [7, "seven"]])
    rig.write("counted", [V], [["next"]])
    assert rig.rows("select * from counted order by k") == [(0, "zero"), (7, "seven"), (8, "next")]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (V, "x" * 101, r"Data too long for column 'v' at row 1 \(error 1406\)"),
        (SinkField("w", Schema.STRING), "no number", r"Incorrect integer value: 'no number' for column"),
        (SinkField("n", decimal_schema(0)), Decimal(10**10), "Out of range value for column 'n'"),
        (SinkField("e", Schema.STRING), "c", "Data truncated for column 'e'"),
        (SinkField("c", Schema.INT32), -1, "CONSTRAINT `positive` failed"),
        (SinkField("m", Schema.OPTIONAL_INT32), None, "Column 'm' cannot be null"),
        (SinkField("f", Schema.INT32), 5, "a foreign key constraint fails"),
        (SinkField("j", Schema.STRING), "{", r"CONSTRAINT `strict_one\.j` failed"),
        (SinkField("d", Schema.STRING), "2024-02-31", "Incorrect date value: '2024-02-31'"),
        (SinkField("u", Schema.STRING), "no uuid", "Incorrect uuid value"),
        (SinkField("g", Schema.BYTES), b"no shape", "Cannot get geometry object"),
    ],
)
def test_a_rejected_row_is_reported_and_rolled_back_to_a_savepoint(rig: Rig, field: SinkField, value: Any, words: str) -> None:
    rig.run(
        "create table if not exists parent (id int primary key)",
        "create table if not exists strict_one (k int primary key, v varchar(100), w int, n decimal(5,0), e enum('a','b'), "
        "c int, m int not null default 1, f int, j json, d date, u uuid, g geometry, "
        "constraint positive check (c > 0), foreign key (f) references parent (id))",
        "delete from strict_one",
    )
    writer = rig.dialect.writer(rig.table("strict_one"), [K, field], InsertMode.INSERT, WriteOptions())
    good = rig.dialect.writer(rig.table("strict_one"), [K, V], InsertMode.INSERT, WriteOptions())
    good.write(rig.session, [[1, "before"]])

    def both() -> None:
        with rig.session.savepoint():
            good.write(rig.session, [[2, "undone"]])
            writer.write(rig.session, [[3, value]])

    with pytest.raises(RowRejectedError, match=words):
        both()
    good.write(rig.session, [[4, "after"]])
    rig.session.commit()
    assert rig.rows("select k from strict_one order by k") == [(1,), (4,)]


def test_a_duplicate_key_and_a_signal_reject_the_row(t: Rig) -> None:
    t.run("insert into t values (1, 'a', 1, 'x')")
    with pytest.raises(RowRejectedError, match=r"Duplicate entry '1' for key 'PRIMARY' \(error 1062\)"):
        t.write("t", [K, V], [[1, "again"]])
    t.run("create trigger never before insert on t for each row signal sqlstate '45000' set message_text = 'no more rows'")
    with pytest.raises(RowRejectedError, match="no more rows"):
        t.write("t", [K, V], [[2, "b"]])
    t.run("drop trigger never")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema.INT32, "1); drop table t; --"),
        (Schema.INT64, 1.5),
        (Schema.STRING, 5),
        (Schema.STRING, b"bytes"),
        (Schema.STRING, "half \ud83d"),
        (Schema.BYTES, "text"),
        (Schema.FLOAT64, "1"),
        (Schema.FLOAT64, float("nan")),
        (Schema.FLOAT64, float("-inf")),
        (decimal_schema(2), "1.50"),
        (decimal_schema(2), 1.5),
        (decimal_schema(2), Decimal("NaN")),
        (decimal_schema(2), Decimal("-Infinity")),
        (date_schema(), "2024-01-01' or '1"),
        (time_schema(), 5),
        (timestamp_schema(), dt.datetime(2024, 1, 1)),
        (Schema(Type.INT64, name="io.debezium.time.MicroTimestamp"), "2024-01-01"),
    ],
)
def test_values_that_do_not_match_their_schema_never_become_sql(t: Rig, schema: Schema, value: Any) -> None:
    with pytest.raises(DataError, match="v"):
        t.write("t", [K, SinkField("v", schema)], [[1, value]])
    t.session.rollback()
    assert t.rows("select count(*) from t") == [(0,)]


def test_similar_values_from_transformations_are_accepted(t: Rig) -> None:
    t.write("t", [K, SinkField("v", Schema.FLOAT64)], [[1, 5]])
    t.write("t", [K, SinkField("v", Schema.BYTES)], [[2, bytearray(b"a'b")], [3, memoryview(b"c")]])
    t.write("t", [K, SinkField("w", decimal_schema(7))], [[4, Decimal("1E+2")], [True + 4, Decimal("3.0000000")]])
    assert t.rows("select v, w from t order by k") == [("5.0", None), ("a'b", None), ("c", None), (None, 100), (None, 3)]


NASTY = [
    "'; drop table t; --",
    "\\",
    "\\'",
    "''",
    '"',
    "`",
    "%s %(x)s",
    "\0",
    "\n\r\x1a\t",
    "😀",
    "--",
    "/* */",
    "\\0",
    "a\\",
    "?",
    "{0}",
]


@pytest.mark.parametrize("mode", list(InsertMode))
def test_text_and_bytes_round_trip(rig: Rig, mode: InsertMode) -> None:
    rig.run("drop table if exists texts", "create table texts (k int primary key, v text, w blob)")
    rows = [[n, text, text.encode()] for n, text in enumerate(NASTY)]
    if mode is InsertMode.UPDATE:
        rig.run(*(f"insert into texts values ({n}, '', '')" for n in range(len(NASTY))))
    rig.write("texts", [K, SinkField("v", Schema.STRING), SinkField("w", Schema.BYTES)], rows, mode)
    assert [list(row) for row in rig.rows("select k, v, w from texts order by k")] == rows


@pytest.mark.parametrize("sql_mode", ["NO_BACKSLASH_ESCAPES", "ANSI", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", ""])
def test_the_servers_sql_mode_has_no_effect(connect: Connect, mariadb: Any, rig: Rig, sql_mode: str) -> None:
    rig.run("drop table if exists texts", "create table texts (k int primary key, v text)")
    with mariadb.connect() as own, own.cursor() as cursor:
        cursor.execute("select @@global.sql_mode")
        ((before,),) = cursor.fetchall()
        cursor.execute("set global sql_mode = %s", (sql_mode,))
        try:
            session = connect().session()
        finally:
            cursor.execute("set global sql_mode = %s", (before,))
    other = Rig(session)
    other.write("texts", [K, V], [[n, text] for n, text in enumerate(NASTY)])
    assert [row[0] for row in other.rows("select v from texts order by k")] == NASTY
    assert "STRICT_ALL_TABLES" in other.rows("select @@sql_mode")[0][0]
    other.session.close()


@pytest.mark.parametrize("name", ["a`b", "a'b", 'a"b', "a.b", "a b", "select", "`; drop table t; --", "ä😀"[:1], "a\\", "%s"])
def test_names_are_quoted(rig: Rig, name: str) -> None:
    table = TableName(name)
    rig.run(f"drop table if exists {rig.dialect.table_ref(table)}")
    fields = [SinkField(name, Schema.STRING, is_key=True), SinkField(f"{name}2", Schema.OPTIONAL_STRING)]
    rig.session.execute(rig.dialect.create_table(table, fields[:1]), "creating")
    for statement in rig.dialect.add_columns(rig.table(name), fields[1:]):
        rig.session.execute(statement, "adding")
    for mode in InsertMode:
        rig.dialect.writer(rig.table(name), fields, mode, WriteOptions()).write(rig.session, [[name + mode.value, name]])
    rig.dialect.deleter(rig.table(name), fields[:1], WriteOptions()).write(rig.session, [[name + "insert"]])
    rig.session.commit()
    assert rig.rows(f"select * from {rig.dialect.table_ref(table)}") == [(name + "upsert", name)]
    rig.session.execute(rig.dialect.truncate(table), "emptying")
    rig.run(f"drop table {rig.dialect.table_ref(table)}")


def test_invalid_names_are_rejected(rig: Rig) -> None:
    with pytest.raises(ConfigError):
        rig.dialect.quote("a\0b")
    for refused in (lambda: rig.dialect.quote("like 😀"), lambda: rig.dialect.describe(rig.session, TableName("😀"))):
        with pytest.raises(DataError, match=r"does not support characters beyond U.FFFF .* ReplaceField"):
            refused()
    with pytest.raises(ConfigError, match=r"expected \[database.\]table"):
        rig.dialect.parse_name("a.b.c")
    assert rig.dialect.parse_name("`a.b`.c") == TableName("c", "a.b")


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)),
        st.one_of(st.none(), st.binary(max_size=300)),
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0 if abs(x) > 1e-300 else 0.0)),
        st.one_of(st.none(), st.decimals(-(10**15), 10**15, places=6)),
        st.one_of(st.none(), st.dates(dt.date(1583, 1, 1))),
        st.one_of(
            st.none(),
            st.datetimes(dt.datetime(1583, 1, 1)).map(lambda x: x.replace(microsecond=x.microsecond // 1000 * 1000, tzinfo=UTC)),
        ),
        st.one_of(st.none(), st.times().map(lambda x: x.replace(microsecond=x.microsecond // 1000 * 1000))),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=8,
)


@pytest.mark.long
@given(rows=ROWS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_rows_are_read_as_they_were_written(rig: Rig, rows: list[tuple[Any, ...]]) -> None:
    rig.session.execute(
        Sql(
            "create table if not exists any_rows (k int primary key, a text character set utf8mb4, b blob, c bigint, "
            "d double, e decimal(30,6), f date, g datetime(3), h time(3), i tinyint)"
        ),
        "creating",
    )
    rig.session.execute(Sql("delete from any_rows"), "emptying")
    schemas = [
        Schema.OPTIONAL_STRING, Schema.OPTIONAL_BYTES, Schema.OPTIONAL_INT64, Schema.OPTIONAL_FLOAT64,
        decimal_schema(6, optional=True), date_schema(optional=True), timestamp_schema(optional=True), time_schema(optional=True),
        Schema.OPTIONAL_BOOLEAN,
    ]  # fmt: skip
    fields = [K, *(SinkField(name, schema) for name, schema in zip(string.ascii_lowercase, schemas, strict=False))]
    given = [[number, *row] for number, row in enumerate(rows)]
    table = rig.table("any_rows")
    rig.dialect.writer(table, fields, InsertMode.UPSERT, WriteOptions()).write(rig.session, given)
    _, found = rig.read("select * from any_rows order by k")
    assert found == given


def test_rows_beyond_one_statement_are_split_and_a_row_beyond_the_servers_limit_is_rejected(rig: Rig, monkeypatch: Any) -> None:
    rig.run("drop table if exists large", "create table large (k int primary key, v longblob)")
    most = writer.max_statement_bytes(rig.session)
    fields = [K, SinkField("v", Schema.BYTES)]
    rig.write("large", fields, [[n, bytes([n]) * 300_000] for n in range(30)], InsertMode.UPSERT)
    assert rig.rows("select count(*), sum(length(v)) from large") == [(30, 9_000_000)]
    with pytest.raises(RowRejectedError, match=f"the server accepts {most}; raise its max_allowed_packet"):
        rig.write("large", fields, [[31, b"x" * (most // 2)]])
    monkeypatch.setitem(writer._limits, rig.session.driver, 2_000)
    rig.write("large", fields, [[n, b"y" * 700] for n in range(100, 110)])
    rig.run("delete from large where k < 100")
    rig.write("large", fields, [[n, b"z" * 700] for n in range(100, 110)], InsertMode.UPDATE)
    assert rig.rows("select count(*), sum(length(v)), max(v = repeat('z', 700)) from large") == [(10, 7000, 1)]


def test_a_connection_killed_while_writing_is_lost_and_rolled_back(connect: Connect, t: Rig) -> None:
    database = connect()
    session = database.session()
    writer = session.dialect.writer(t.table("t"), [K, V], InsertMode.UPSERT, WriteOptions())
    writer.write(session, [[1, "gone"]])
    t.run(f"kill {session.driver.thread_id()}")
    with pytest.raises(DatabaseLostError):
        writer.write(session, [[2, "gone"]])
    session.close()
    again = database.session()
    writer.write(again, [[3, "here"]])
    again.commit()
    again.close()
    assert t.rows("select k from t") == [(3,)]


def test_lock_timeouts_and_dropped_tables_are_distinguished(t: Rig, another: Rig) -> None:
    t.run("insert into t values (1, 'a', 1, 'x')")
    writer = another.dialect.writer(t.table("t"), [K, V], InsertMode.UPSERT, WriteOptions())
    t.session.execute(Sql("update t set v = 'held' where k = 1"), "holding")
    another.run("set session innodb_lock_wait_timeout = 1")
    with pytest.raises(DatabaseLostError, match=r"Lock wait timeout exceeded.*\(error 1205\)"):
        writer.write(another.session, [[1, "waits"]])
    another.session.rollback()
    t.session.rollback()
    t.run("drop table t")
    with pytest.raises(TableChangedError):
        writer.write(another.session, [[1, "nowhere"]])


def test_fields_that_do_not_fit_the_table_are_named(rig: Rig) -> None:
    rig.run("drop table if exists derived", "create table derived (k int primary key, v int as (k + 1) stored)")
    table = rig.table("derived")
    for fields, mode, words in (
        ([K, V], InsertMode.INSERT, "Column v of .*derived is generated"),
        ([K, W], InsertMode.INSERT, "Field w has no column in .*derived; it has k, v"),
        ([K], InsertMode.UPDATE, "no columns to set"),
    ):
        with pytest.raises(DataError, match=words):
            rig.dialect.writer(table, fields, mode, WriteOptions())


def test_numbers_times_and_geometries_of_other_kinds_are_written(rig: Rig) -> None:
    rig.run(
        "drop table if exists kinds",
        "create table kinds (k int primary key, b8 bit(8), b64 bit(64), y year, d datetime(6), ts timestamp(6) null, ti time(6), "
        "tx varchar(60), j json, g point, s set('a','b'))",
    )
    point = Schema(
        Type.STRUCT, name="io.debezium.data.geometry.Point", fields=[("wkb", Schema.BYTES), ("srid", Schema.OPTIONAL_INT32)]
    )
    array = Schema(Type.ARRAY, value_schema=Schema.INT32)
    wkb = bytes.fromhex("0101000000000000000000f03f0000000000000040")

    def named(type: Type, name: str, **parameters: str) -> Schema:
        return Schema(type, name=name, parameters=parameters or None)

    fields = [
        K,
        SinkField("b8", Schema.INT8),
        SinkField("b64", named(Type.BYTES, "io.debezium.data.Bits", length="64")),
        SinkField("y", named(Type.INT32, "io.debezium.time.Year")),
        SinkField("d", named(Type.INT64, "io.debezium.time.MicroTimestamp")),
        SinkField("ts", named(Type.STRING, "io.debezium.time.ZonedTimestamp")),
        SinkField("ti", named(Type.INT64, "io.debezium.time.MicroTime")),
        SinkField("tx", timestamp_schema()),
        SinkField("j", array),
        SinkField("g", point),
        SinkField("s", named(Type.STRING, "io.debezium.data.EnumSet", allowed="a,b")),
    ]
    row = [
        1, -127, (2**63 + 1).to_bytes(8, "little"), 1999, 1709210096123456, "2024-02-29T12:34:56.123456+01:00", 45296789123,
        dt.datetime(2024, 2, 29, 12, 34, 56, 789_000, UTC), [1, 2], Struct(point, [wkb, None]), "a,b",
    ]  # fmt: skip
    rig.write("kinds", fields, [row])
    texts = "cast(d as char), cast(ts as char), cast(ti as char), tx, j, st_astext(g), s"
    assert rig.rows(f"select b8 + 0, b64 + 0, y, {texts} from kinds") == [
        (
            129, 2**63 + 1, 1999, "2024-02-29 12:34:56.123456", "2024-02-29 11:34:56.123456", "12:34:56.789123",
            "2024-02-29T12:34:56.789Z", "[1,2]", "POINT(1 2)", "a,b",
        )
    ]  # fmt: skip
    rig.write(
        "kinds", [K, SinkField("g", Schema.STRING), SinkField("y", date_schema())], [[2, "POINT(3 4)", dt.date(2001, 1, 1)]]
    )
    assert rig.rows("select st_astext(g), y from kinds where k = 2") == [("POINT(3 4)", 2001)]
    for field, value, words in (
        (SinkField("y", date_schema()), dt.date(2001, 1, 2), "Field y: 2001-01-02 is not the first day of a year"),
        (SinkField("b8", Schema.INT32), 256, r"Field b8: 256 does not fit a BIT\(8\)"),
        (SinkField("d", named(Type.INT64, "io.debezium.time.NanoTimestamp")), 1, "Field d: .* is finer than the microseconds"),
    ):
        with pytest.raises(DataError, match=words):
            rig.write("kinds", [K, field], [[3, value]])


def test_a_null_is_written_as_the_fields_default_unless_disabled(t: Rig) -> None:
    field = SinkField("v", Schema(Type.STRING, optional=True, default="it's"))
    t.write("t", [K, field], [[1, None]])
    t.write("t", [K, field], [[2, None]], options=WriteOptions(null_as_default=False))
    assert t.rows("select v from t order by k") == [("it's",), (None,)]
