"""The catalog, and tables that sinks create."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.jdbc.options import InsertMode, SinkField
from connectors.jdbc.table_name import TableName
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.integration.jdbc.mysql.conftest import Connect, Rig


def test_tables_are_listed_by_kind_with_their_database(rig: Rig, own_database: str) -> None:
    rig.run(
        "create table listed (a int)", "create view listed_view as select * from listed", "create sequence listed_sequence",
        "create table listed_versions (a int) with system versioning",
    )  # fmt: skip

    def names(*kinds: str, catalog: str | None = own_database, schema: str | None = None) -> list[tuple[str, str]]:
        found = rig.dialect.tables(rig.session, kinds, catalog=catalog, schema=schema)
        return [(str(name), kind) for name, kind in found]

    one, versions = (f"{own_database}.listed", "TABLE"), (f"{own_database}.listed_versions", "TABLE")
    view = (f"{own_database}.listed_view", "VIEW")
    assert names("TABLE") == [one, versions]
    assert names("table", "VIEW") == [one, versions, view]
    assert names("TABLE", catalog=None, schema="jdbc\\_mysql%") == [one, versions]
    assert names("TABLE", catalog="") == names("TABLE", schema="other") == []
    assert {one, versions} <= set(names("TABLE", "VIEW", catalog=None))
    assert not [
        name for name, _ in names("TABLE", "VIEW", catalog=None) if name.startswith(("mysql.", "sys.", "information_schema."))
    ]
    assert ("mysql.plugin", "SYSTEM TABLE") in names("SYSTEM TABLE", catalog=None)
    rig.run("drop view listed_view", "drop sequence listed_sequence", "drop table listed_versions", "drop table listed")


def test_a_table_is_described_with_its_keys_and_defaults(rig: Rig, own_database: str) -> None:
    rig.run(
        "drop table if exists told",
        "create table told (id int unsigned not null auto_increment, a varchar(20) not null default 'x', b decimal(10,2), "
        "c int as (g + 1) virtual, d int as (g + 2) stored, e text, f timestamp(3) not null default current_timestamp(3), "
        "g int not null, h bit(5) default b'1', z int invisible, primary key (g, id), key (id), unique key one (a, b), "
        "unique key part (e(10)), unique key two (z))",
    )
    table = rig.dialect.describe(rig.session, TableName("told"))
    assert table is not None
    assert (table.name, table.kind, table.primary_key) == (TableName("told", own_database), "TABLE", ("g", "id"))
    assert table.unique_keys == (("a", "b"), ("z",))
    assert {column.name: column.type_name for column in table.columns}["b"] == "decimal(10,2)"

    def having(word: str) -> str:
        return "".join(column.name for column in table.columns if getattr(column, word))

    assert having("nullable") == "bcdehz"
    assert (having("autoincrement"), having("generated"), having("has_default")) == ("id", "cd", "idacdfh")
    assert rig.dialect.describe(rig.session, TableName("told", own_database)) == table
    assert rig.dialect.describe(rig.session, TableName("told", "mysql")) is None
    assert rig.dialect.describe(rig.session, TableName("tol_")) is None


def test_names_that_differ_in_case_are_different_tables(rig: Rig) -> None:
    rig.run("drop table if exists Cased, cased", "create table Cased (a int)", "create table cased (b int)")
    assert (rig.table("Cased").columns[0].name, rig.table("cased").columns[0].name) == ("a", "b")


def test_a_view_is_described(rig: Rig) -> None:
    rig.run("create or replace view seen as select 1 as a, cast(null as char(5)) as b")
    table = rig.table("seen")
    assert (table.kind, [column.name for column in table.columns], table.primary_key) == ("VIEW", ["a", "b"], ())


CREATED = [
    (Schema.INT8, "tinyint(4)", 5),
    (Schema.INT16, "smallint(6)", 5),
    (Schema.INT32, "int(11)", 5),
    (Schema.INT64, "bigint(20)", 5),
    (Schema.FLOAT32, "float", 1.5),
    (Schema.FLOAT64, "double", 1.5),
    (Schema.BOOLEAN, "tinyint(4)", True),
    (Schema.STRING, "text", "it's \\"),
    (Schema.BYTES, "varbinary(1024)", b"\0'"),
    (decimal_schema(2), "decimal(65,2)", Decimal("1.50")),
    (decimal_schema(0), "decimal(65,0)", Decimal(7)),
    (date_schema(), "date", dt.date(2024, 2, 29)),
    (time_schema(), "time(3)", dt.time(1, 2, 3, 4000)),
    (timestamp_schema(), "datetime(3)", dt.datetime(2024, 2, 29, 1, 2, 3, 4000, dt.UTC)),
    (Schema(Type.INT32, name="io.debezium.time.Date"), "date", 19782),
    (Schema(Type.INT64, name="io.debezium.time.MicroTimestamp"), "datetime(6)", 1709210096123456),
    (Schema(Type.STRING, name="io.debezium.time.ZonedTimestamp"), "datetime(6)", "2024-02-29T12:34:56Z"),
    (Schema(Type.STRING, name="io.debezium.data.Json"), "longtext", "{}"),
    (Schema(Type.STRING, name="io.debezium.data.Enum", parameters={"allowed": "a,b"}), "enum('a','b')", "b"),
    (Schema(Type.BYTES, name="io.debezium.data.Bits", parameters={"length": "5"}), "bit(5)", b"\3"),
    (Schema(Type.ARRAY, value_schema=Schema.INT32), "longtext", None),
]


def test_created_columns_have_confluents_types_and_defaults(rig: Rig) -> None:
    plain = [SinkField(f"c{n}", schema) for n, (schema, *_) in enumerate(CREATED)]
    defaults = [
        SinkField(f"d{n}", schema.replace(default=default))
        for n, (schema, _, default) in enumerate(CREATED)
        if default is not None
    ]
    optional = [SinkField(f"o{n}", schema.as_optional()) for n, (schema, *_) in enumerate(CREATED)]
    name = TableName("made")
    rig.run("drop table if exists made")
    rig.session.execute(rig.dialect.create_table(name, [SinkField("k", Schema.INT32, is_key=True), *plain]), "creating")
    for statement in rig.dialect.add_columns(rig.table("made"), [*optional, *defaults]):
        rig.session.execute(statement, "adding")
    table = rig.table("made")
    assert {f"c{n}": type for n, (_, type, _) in enumerate(CREATED)} == {
        column.name: column.type_name for column in table.columns if column.name.startswith("c")
    }
    assert all(column.nullable == column.name.startswith("o") for column in table.columns)
    assert table.primary_key == ("k",)
    rows = [[default for _, _, default in CREATED if default is not None]]
    key = SinkField("k", Schema.INT32, is_key=True)
    given = [field for field, (_, _, default) in zip(plain, CREATED, strict=True) if default is not None]
    array = SinkField(f"c{len(CREATED) - 1}", CREATED[-1][0])
    rig.write("made", [key, *given, array], [[1, *rows[0], [1, 2]]])
    same = " and ".join(f"c{field.name[1:]} <=> {field.name}" for field in defaults)
    assert rig.rows(f"select {same} from made") == [(1,)]


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_text_and_bytes_can_be_case_sensitive_keys(rig: Rig, count: int) -> None:
    name = TableName("keyed")
    keys = [SinkField(f"k{n}", Schema.BYTES if n % 2 else Schema.STRING, is_key=True) for n in range(count)]
    fields = [*keys, SinkField("v", Schema.OPTIONAL_STRING)]
    rig.run("drop table if exists keyed")
    rig.session.execute(rig.dialect.create_table(name, fields), "creating")
    rows = [[*(b"x" if n % 2 else key for n in range(count)), key] for key in ("a", "A", "ä")]
    rig.write("keyed", fields, rows, InsertMode.UPSERT)
    assert rig.rows("select count(*) from keyed") == [(3,)]


def test_fields_without_a_column_type_are_rejected(rig: Rig) -> None:
    for field, words in (
        (SinkField("v", decimal_schema(31)), "Field v: MySQL supports decimals with 0 to 30 decimal places"),
        (SinkField("v", Schema(Type.ARRAY, value_schema=Schema.INT32), is_key=True), "Field v: MySQL has no keys of type JSON"),
    ):
        with pytest.raises(DataError, match=words):
            rig.dialect.column_type(field)


def test_tables_of_other_databases_are_excluded_if_the_url_says_so(
    rig: Rig, connect: Connect, mariadb: EmbeddedMariaDB, own_database: str
) -> None:
    other = f"{own_database[:-1]}t"
    assert len(other) == len(own_database)
    mariadb.create_database(other)
    try:
        rig.run("create table here (a int)", f"create table {other}.there (a int)")
        url = f"jdbc:mysql://{mariadb.host}:{mariadb.port}/{own_database}"
        for name in ("nullDatabaseMeansCurrent", "nullCatalogMeansCurrent"):
            session = connect(url=f"{url}?{name}=true").session()
            try:
                assert {table.schema for table, _ in session.dialect.tables(session, ["TABLE"])} == {own_database}
                (there,) = session.dialect.tables(session, ["TABLE"], catalog=other)
                assert str(there[0]) == f"{other}.there"
            finally:
                session.close()
        assert {own_database, other} <= {table.schema for table, _ in rig.dialect.tables(rig.session, ["TABLE"])}
    finally:
        rig.run("drop table here")
        mariadb.drop_database(other)


def test_an_upsert_without_unique_key_logs_a_warning(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.run("create table keyless (id int, v int)", "create table found_by (id int unique, v int)")
    fields = [SinkField("id", Schema.INT32, is_key=True), SinkField("v", Schema.INT32)]
    rig.write("found_by", fields, [[1, 1], [1, 2]], InsertMode.UPSERT)
    assert not caplog.messages
    rig.write("keyless", fields, [[1, 1]], InsertMode.UPSERT)
    assert "keyless, which has no primary key and no unique index" in caplog.messages[0]
    rig.run("drop table keyless", "drop table found_by")
