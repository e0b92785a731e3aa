"""The generic dialect, and the SQL of databases that tests cannot run: SQL Server, Oracle, Db2, HANA."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy.types as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import NoSuchTableError

from connect.data.logical import EPOCH, date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError, UnsupportedError
from connectors.jdbc import database as database_module
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.database import ConnectionSettings, Database, Session
from connectors.jdbc.dialects import merge_sql
from connectors.jdbc.dialects.generic import GenericDialect, catalog
from connectors.jdbc.dialects.generic.catalog import compile_like
from connectors.jdbc.dialects.generic.errors import classify_error
from connectors.jdbc.dialects.generic.types import column_decoder
from connectors.jdbc.dialects.generic.writer import value_converter
from connectors.jdbc.dialects.oracle import OracleDialect
from connectors.jdbc.dialects.sqlserver import SqlServerDialect
from connectors.jdbc.errors import ErrorKind, RowRejectedError
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url

# Their constructors have no types.
mssql: Any = importlib.import_module("sqlalchemy.dialects.mssql")
oracle: Any = importlib.import_module("sqlalchemy.dialects.oracle")

KEY = SinkField("k", Schema.INT32, is_key=True)
FIELDS = [
    KEY,
    SinkField("i8", Schema.INT8),
    SinkField("i16", Schema.INT16),
    SinkField("i64", Schema.INT64),
    SinkField("f32", Schema.FLOAT32),
    SinkField("f64", Schema.FLOAT64),
    SinkField("o", Schema.BOOLEAN),
    SinkField("s", Schema.STRING),
    SinkField("b", Schema.BYTES),
    SinkField("d", decimal_schema(2)),
    SinkField("day", date_schema()),
    SinkField("t", time_schema()),
    SinkField("ts", timestamp_schema()),
]


def dialect(kind: type[GenericDialect], url: str) -> GenericDialect:
    made = kind(ConnectionTarget(make_url(url), {}))
    object.__setattr__(made, "paramstyle", "qmark")
    return made


SQL_SERVER = dialect(SqlServerDialect, "mssql+pyodbc://h/d")
ORACLE = dialect(OracleDialect, "oracle+oracledb://h/d")


def table(*names: str, schema: str | None = None) -> JdbcTable:
    return JdbcTable(TableName("t", schema), tuple(JdbcColumn(name, "", native=sa.Integer()) for name in names), ("k",))


# --- statements, as the originals send them


def test_sql_server_upserts_with_merge_and_holdlock() -> None:
    statement = SQL_SERVER.upsert_sql(table("k", "l", "v"), ["k", "l"], ["v"], [Bind(1), Bind(2), Bind(3)])
    assert statement.text == (
        "merge into [t] with (HOLDLOCK) AS target using (select ? AS [k], ? AS [l], ? AS [v]) AS incoming on "
        "(target.[k]=incoming.[k] and target.[l]=incoming.[l]) when matched then update set [v]=incoming.[v] when not matched "
        "then insert ([v], [k], [l]) values (incoming.[v],incoming.[k],incoming.[l]);"
    )
    assert statement.values == [1, 2, 3]
    assert "update set" not in SQL_SERVER.upsert_sql(table("k"), ["k"], [], [Bind(1)]).text


def test_oracle_upserts_with_merge_from_dual() -> None:
    statement = ORACLE.upsert_sql(table("k", "v", schema="S"), ["k"], ["v"], [Bind(1), Bind(2)])
    assert statement.text == (
        'merge into "S"."t" using (select ? "k", ? "v" FROM dual) incoming on("S"."t"."k"=incoming."k") when matched then update '
        'set "S"."t"."v"=incoming."v" when not matched then insert("S"."t"."v","S"."t"."k") values(incoming."v",incoming."k")'
    )


def test_db2_upserts_with_merge_from_values_and_hana_with_primary_key() -> None:
    assert merge_sql.merge_from_values('"t"', ['"k"'], ['"v"'], [Bind(1), Bind(2)]).text == (
        'merge into "t" using (values(?, ?)) as DAT("k", "v") on "t"."k"=DAT."k" when matched then update set "t"."v"=DAT."v" '
        'when not matched then insert("t"."v","t"."k") values(DAT."v",DAT."k")'
    )
    assert merge_sql.upsert_with_primary_key('"t"', ['"k"', '"v"'], [Bind(1), Bind(2)]).text == (
        'UPSERT "t"("k","v") VALUES(?,?) WITH PRIMARY KEY'
    )
    sybase = merge_sql.merge_from_select('"t"', ['"k"'], [], [Bind(1)], hold_lock=False).text
    assert sybase.startswith('merge into "t" AS target using (select ? AS "k") AS incoming on (target."k"=incoming."k") when not')


def test_names_are_quoted_for_each_database() -> None:
    assert SQL_SERVER.table_ref(TableName("a]b", "dbo", "d")) == "[d].[dbo].[a]]b]"
    assert ORACLE.table_ref(TableName('a"b', "S")) == '"S"."a""b"'


@pytest.mark.parametrize(
    ("made", "types"),
    [
        (SQL_SERVER, ["int", "tinyint", "smallint", "bigint", "real", "float", "bit", "varchar(max)", "varbinary(max)",
                      "decimal(38,2)", "date", "time", "datetime2"]),
        (ORACLE, ["NUMBER(10,0)", "NUMBER(3,0)", "NUMBER(5,0)", "NUMBER(19,0)", "BINARY_FLOAT", "BINARY_DOUBLE", "NUMBER(1,0)",
                  "VARCHAR2(4000)", "BLOB", "NUMBER(*,2)", "DATE", "DATE", "TIMESTAMP"]),
    ],
)  # fmt: skip
def test_created_columns_have_confluents_types(made: GenericDialect, types: list[str]) -> None:
    assert [made.column_type(field) for field in FIELDS] == types


def test_text_keys_are_short_enough_for_an_index() -> None:
    key = SinkField("k", Schema.STRING, is_key=True)
    assert SQL_SERVER.column_type(key) == "varchar(900)"
    assert dialect(GenericDialect, "sqlite://").column_type(key) == "VARCHAR(255)"


def test_create_and_alter_table_use_each_databases_syntax() -> None:
    more = [SinkField("a", Schema.OPTIONAL_INT32), SinkField("b", Schema.STRING.replace(default="it's"))]
    assert SQL_SERVER.create_table(TableName("t"), [KEY, more[0]]).text == (
        "CREATE TABLE [t] (\n[k] int NOT NULL,\n[a] int NULL,\nPRIMARY KEY([k]))"
    )
    assert [s.text for s in SQL_SERVER.add_columns(table("k"), more)] == [
        "ALTER TABLE [t] ADD\n[a] int NULL,\n[b] varchar(max) DEFAULT 'it''s'"
    ]
    assert [s.text for s in ORACLE.add_columns(table("k"), more)] == [
        'ALTER TABLE "t" ADD(\n"a" NUMBER(10,0) NULL,\n"b" VARCHAR2(4000) DEFAULT \'it\'\'s\')'
    ]


def test_limits_use_each_databases_syntax() -> None:
    query = Sql("SELECT * FROM t ORDER BY k")
    assert SQL_SERVER.limited(query, 5).text.endswith(" ORDER BY k OFFSET 0 ROWS FETCH NEXT 5 ROWS ONLY")
    assert ORACLE.limited(query, 5).text.endswith(" ORDER BY k FETCH FIRST 5 ROWS ONLY")


class PyodbcError(Exception):
    pass


@pytest.mark.parametrize(
    ("made", "arguments", "kind"),
    [
        (SQL_SERVER, ("23000", "duplicate key"), ErrorKind.ROW),
        (SQL_SERVER, ("22001", "truncated"), ErrorKind.ROW),
        (SQL_SERVER, ("40001", "deadlock"), ErrorKind.TRANSIENT),
        (SQL_SERVER, ("28000", "login failed"), ErrorKind.AUTHENTICATION),
        (SQL_SERVER, ("08S01", "link failure"), ErrorKind.CONNECTION),
        (SQL_SERVER, ("42S02", "invalid object name"), ErrorKind.TABLE),
        (SQL_SERVER, ("42000", "syntax"), ErrorKind.STATEMENT),
        (SQL_SERVER, (1205, b"deadlock"), ErrorKind.TRANSIENT),
        (SQL_SERVER, (2627, b"duplicate"), ErrorKind.ROW),
        (ORACLE, (SimpleNamespace(code=1),), ErrorKind.ROW),
        (ORACLE, (SimpleNamespace(code=942),), ErrorKind.TABLE),
        (ORACLE, (SimpleNamespace(code=1017),), ErrorKind.AUTHENTICATION),
        (ORACLE, (SimpleNamespace(code=3113),), ErrorKind.CONNECTION),
        (ORACLE, (SimpleNamespace(code=60),), ErrorKind.TRANSIENT),
        (ORACLE, (SimpleNamespace(code=900),), ErrorKind.STATEMENT),
    ],
)
def test_errors_are_classified_by_number(made: GenericDialect, arguments: tuple[Any, ...], kind: ErrorKind) -> None:
    assert made.classify(PyodbcError(*arguments)) is kind


def test_errors_without_sqlstate_are_classified_by_class() -> None:
    kinds = {name: type(name, (Exception,), {}) for name in ("IntegrityError", "InterfaceError", "OperationalError")}
    assert [classify_error(kind("x")) for kind in kinds.values()] == [ErrorKind.ROW, ErrorKind.CONNECTION, ErrorKind.STATEMENT]


# --- types


@pytest.mark.parametrize(
    ("native", "value", "schema", "expected"),
    [
        (mssql.TINYINT(), 255, Schema.OPTIONAL_INT16, 255),
        (mssql.BIT(), True, Schema.OPTIONAL_INT8, 1),
        (mssql.MONEY(), Decimal("1.5"), None, Decimal("1.5000")),
        (mssql.UNIQUEIDENTIFIER(), "u", Schema.OPTIONAL_STRING, "u"),
        (mssql.DATETIMEOFFSET(), EPOCH, timestamp_schema(optional=True), EPOCH),
        (mssql.REAL(), 1.5, Schema.OPTIONAL_FLOAT32, 1.5),
        (oracle.NUMBER(5, 0), 7, None, Decimal(7)),
        (oracle.NUMBER(), 7, None, Decimal("7." + "0" * 127)),
        (oracle.DATE(), dt.datetime(1970, 1, 1), timestamp_schema(optional=True), EPOCH),
        (oracle.RAW(5), b"x", Schema.OPTIONAL_BYTES, b"x"),
        (sa.Time(), dt.timedelta(hours=1), time_schema(optional=True), dt.time(1)),
        (sa.Date(), "2024-02-29", date_schema(optional=True), dt.date(2024, 2, 29)),
        (sa.BigInteger(), Decimal(7), Schema.OPTIONAL_INT64, 7),
    ],
)
def test_columns_are_decoded_by_sqlalchemys_types(native: Any, value: Any, schema: Schema | None, expected: Any) -> None:
    reading = column_decoder(JdbcColumn("c", "", native=native), ReadOptions())
    assert reading is not None
    assert schema is None or reading.schema == schema
    assert str(reading.convert(value)) == str(expected)


@pytest.mark.parametrize("native", [sa.Interval(), sa.NullType(), mssql.SQL_VARIANT()])
def test_types_without_mapping_are_reported(native: Any) -> None:
    assert column_decoder(JdbcColumn("c", "", native=native), ReadOptions()) is None


def test_oracle_stores_times_as_dates() -> None:
    convert = value_converter(SinkField("t", time_schema()), JdbcColumn("t", "DATE", native=oracle.DATE()), WriteOptions())
    assert convert is not None
    assert convert(dt.time(1, 2)) == dt.datetime(1970, 1, 1, 1, 2)


def test_jdbc_patterns_match() -> None:
    assert compile_like("pub%").fullmatch("public")
    assert not compile_like("a\\_b").fullmatch("axb")
    assert compile_like("a_b").fullmatch("axb")


# --- run for real, on a database that it does not know is SQLite


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(database_module, "create_dialect", lambda target, quotes: GenericDialect(target, quotes=quotes))
    database = Database(ConnectionSettings(parse_connection_url(f"sqlite:///{tmp_path / 'a.db'}", None, None, {}), attempts=1))
    opened = database.session()
    yield opened
    opened.close()
    database.close()


def test_a_database_without_its_own_dialect_is_supported(session: Session) -> None:
    made = session.dialect
    fields = [
        SinkField("id", Schema.INT64, is_key=True),
        SinkField("n;'\"", Schema.OPTIONAL_STRING.replace(default="it's")),
        SinkField("t", timestamp_schema(optional=True)),
        SinkField("day", date_schema(optional=True)),
        SinkField("o", Schema.BOOLEAN),
        SinkField("b", Schema.BYTES),
        SinkField("l", Schema(Type.ARRAY, value_schema=Schema.INT32)),
    ]
    session.execute(made.create_table(TableName("t"), fields), "creating")
    found = made.find(session, TableName("t"))
    assert found.primary_key == ("id",)
    at = dt.datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=dt.UTC)
    writer = made.writer(found, fields, InsertMode.INSERT, WriteOptions())
    writer.write(session, [[1, "x", at, dt.date(2024, 2, 29), True, b"\0", [1, 2]], [2, None, None, None, False, b"", []]])
    made.writer(found, [fields[0], fields[1]], InsertMode.UPDATE, WriteOptions()).write(session, [[1, "%s"]])
    reader = made.reader(session, Sql("SELECT * FROM t ORDER BY id"), ReadOptions(exact=("id", "t")), found)
    rows = reader.read(10)
    assert rows.values == [
        [1, "%s", at, dt.date(2024, 2, 29), True, b"\0", "[1,2]"], [2, "it's", None, None, False, b"", "[]"],
    ]  # fmt: skip
    assert rows.exact == [(1, 1709210096789000000), (2, None)]
    assert reader.read(10).values == []
    reader.close()
    infer_type = made.reader(
        session,
        Sql(
            "SELECT id, 1.5 AS f, NULL AS n FROM t WHERE id = ",
        )
        + Bind(1),
        ReadOptions(batch_rows=1),
    )
    assert [(name, schema.type) for name, schema in infer_type.fields] == [
        ("id", Type.INT64), ("f", Type.FLOAT64), ("n", Type.STRING),
    ]  # fmt: skip
    assert infer_type.read(5).values == [[1, 1.5, None]]
    infer_type.close()
    made.deleter(found, fields[:1], WriteOptions()).write(session, [[1]])
    assert session.query(Sql("SELECT id FROM t"), "testing") == [(2,)]
    with pytest.raises(RowRejectedError, match="UNIQUE constraint failed"):
        writer.write(session, [[2, "x", None, None, True, b"", []]])
    with pytest.raises(UnsupportedError, match=r"insert.mode=upsert is not supported for sqlite; use insert.mode=insert"):
        made.writer(found, fields, InsertMode.UPSERT, WriteOptions())
    with pytest.raises(DataError, match="has no column x"):
        made.writer(found, [SinkField("x", Schema.INT32)], InsertMode.INSERT, WriteOptions())
    assert [(name.name, kind) for name, kind in made.tables(session, ("TABLE", "VIEW"))] == [("t", "TABLE")]
    assert made.describe(session, TableName("nothing")) is None
    assert made.now(session) > 1_700_000_000_000_000_000


def test_tables_are_described_without_what_the_dialect_cannot_list(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(*_: object, **__: object) -> Any:
        raise NotImplementedError

    def absent(*_: object, **__: object) -> Any:
        raise NoSuchTableError

    session.execute(Sql("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE)"), "creating")
    dialect = type(session.connection.dialect)
    for name in ("get_view_names", "get_pk_constraint"):
        monkeypatch.setattr(dialect, name, unsupported)
    for name in ("get_unique_constraints", "get_indexes"):
        monkeypatch.setattr(dialect, name, absent)
    catalog._warn_once.cache_clear()
    for _ in range(2):
        found = session.dialect.find(session, TableName("t"))
        assert [column.name for column in found.columns] == ["id", "a"]
        assert (found.primary_key, found.unique_keys, found.kind) == ((), (), "TABLE")
    assert [name.name for name, _ in session.dialect.tables(session, ("TABLE", "VIEW"))] == ["t"]
    assert [record.message for record in caplog.records] == [
        f"SQLAlchemy's dialect sqlite cannot list {what}: tables are described without them" for what in ("primary keys", "views")
    ]


def test_a_default_that_the_database_has_no_literal_for_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqlServerDialect, "_type_of", lambda *_: sa.JSON())  # SQLAlchemy writes no literals of documents
    with pytest.raises(DataError, match=r"^Field f: mssql cannot write the default 'x' into a table$"):
        SQL_SERVER.literal(SinkField("f", Schema.STRING.replace(default="x")))
