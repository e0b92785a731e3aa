"""Names from topics and records never become SQL."""

from __future__ import annotations

import pytest

from connect.data.schema import Schema, Type
from connect.errors import ConfigError
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName
from tests.integration.jdbc.postgres.conftest import Desk

NAMES = [
    'a"; DROP TABLE victim; --', "a'; DROP TABLE victim; --", "a); DELETE FROM victim; --", "%s", "%(x)s %%", "$1", "{x}",
    ":name", "?", "Größe 数量 😀", "a.b", "a\\", "\\N", "a\tb\nc", " ", "*", "select", "/*", "--", "é" * 31, "UPPER", "r", "t",
    "c0", "excluded", "ctid ",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_every_form_work_for_tables_columns_and_schemas(desk: Desk, name: str) -> None:
    desk.sql("CREATE TABLE victim (i int); INSERT INTO victim VALUES (1)")
    dialect, session = desk.dialect, desk.session
    fields = [SinkField(name, Schema.INT32, True), SinkField(name[:-2] + "xy", Schema.OPTIONAL_STRING)]
    session.execute(Sql(f"CREATE SCHEMA {dialect.quote(name)}"), "making a schema")
    for where in (None, name):
        table = TableName(name, where)
        session.execute(dialect.create_table(table, fields), "making a table")
        found = dialect.find(session, table)
        assert [column.name for column in found.columns] == [field.name for field in fields]
        for statement in dialect.add_columns(found, [SinkField("more" + name[:-4], Schema.OPTIONAL_INT32)]):
            session.execute(statement, "adding a column")
        for mode in InsertMode:
            rows = [[i + (1000 if mode is InsertMode.INSERT else 0), name] for i in range(30)]
            dialect.writer(found, fields, mode, WriteOptions()).write(session, rows)
        dialect.deleter(found, fields, WriteOptions()).write(session, [[i, name] for i in range(29)])
        query = Sql(f"SELECT * FROM {dialect.table_ref(table)} ORDER BY 1")
        reader = dialect.reader(session, query, ReadOptions(exact=(name,)), dialect.find(session, table))
        got = reader.read(100)
        reader.close()
        assert got.values[0] == [29, name, None]
        assert len(got.values) == 31
        assert got.exact is not None
        assert got.exact[0] == (29,)
        session.execute(dialect.truncate(table), "emptying")
        assert (TableName(name, where or "public"), "TABLE") in dialect.tables(session, ("TABLE",))
    assert session.query(Sql("SELECT * FROM victim"), "looking") == [(1,)]
    session.rollback()


def test_names_that_the_server_would_truncate_are_rejected(desk: Desk) -> None:
    field = SinkField("k", Schema.INT32)
    long = "é" * 32
    for name, column in ((long, "k"), ("t", long)):
        with pytest.raises(ConfigError, match="PostgreSQL truncates names to 63 bytes"):
            desk.dialect.create_table(TableName(name), [SinkField(column, Schema.INT32)])
    desk.session.execute(desk.dialect.create_table(TableName("t"), [field]), "making a table")
    with pytest.raises(ConfigError, match="PostgreSQL truncates names to 63 bytes"):
        desk.dialect.add_columns(desk.table("t"), [SinkField(long, Schema.OPTIONAL_INT32)])
    desk.session.rollback()


def test_a_name_that_would_be_truncated_does_not_find_the_other_table(desk: Desk) -> None:
    desk.sql(f'CREATE TABLE "{"a" * 63}" (i int)')
    assert desk.dialect.describe(desk.session, TableName("a" * 63)) is not None
    assert desk.dialect.describe(desk.session, TableName("a" * 64)) is None
    desk.session.rollback()


@pytest.mark.parametrize("name", ["a\0b", ""])
def test_invalid_names_are_rejected(desk: Desk, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid name"):
        desk.dialect.quote(name)


def test_defaults_never_become_sql(desk: Desk) -> None:
    texts = ["'; DROP TABLE victim; --", "\\'; --", "E'\\n'", "%s", '"', "", "ü😀\n\t"]
    fields = [SinkField(f"c{i}", Schema(Type.STRING, default=text)) for i, text in enumerate(texts)]
    dialect: Dialect = desk.dialect
    desk.session.execute(dialect.create_table(TableName("t"), fields), "making a table")
    desk.session.execute(Sql("INSERT INTO t DEFAULT VALUES"), "inserting")
    assert desk.session.query(Sql("SELECT * FROM t"), "reading") == [tuple(texts)]
    desk.session.rollback()
